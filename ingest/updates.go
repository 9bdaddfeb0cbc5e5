package ingest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/user"
)

// maxUpdateBytes bounds the body of an update. An object that becomes one is bounded where it
// is read (sluice.MaxElementBytes); its one form may be three times as long, as \t becomes
// \u0009. One far larger could stop a partition for good: an update that is forwarded goes
// into the database by one statement, and a database refuses statements above a size of its own.
const maxUpdateBytes = 3*sluice.MaxElementBytes + 64<<10 // the last: what is put around it

// sized refuses updates of which one is too large: what made it has not checked it.
func sized(updates []user.Update) error {
	for i := range updates {
		if n := len(updates[i].Body); n > maxUpdateBytes {
			return sluice.Refuse(sluice.CodeTooLarge, "a change of a user has %d bytes, at most %d are possible", n, maxUpdateBytes)
		}
	}
	return nil
}

// Update writes changes of users and returns when they are durable, in the
// order given for each key. Errors as Accept has them. They have been checked
// before: nothing of them is refused here but what is too large, and all with it.
func (in *Intake) Update(ctx context.Context, updates []user.Update) error {
	if len(updates) == 0 {
		return nil
	}
	if err := sized(updates); err != nil {
		return err
	}
	d := drafts.Get().(*draft)
	defer d.giveBack()
	d.reset(in.Partitions)
	for i := range updates {
		p := d.partition(updates[i].Key.Partition(in.Partitions))
		before := len(p.data)
		p.data = user.AppendUpdate(p.data, &updates[i])
		p.added(before)
	}
	if err := in.Writer.Write(ctx, d.parts()...); err != nil {
		return err
	}
	in.Stats.Accepted.Add(int64(len(updates)))
	return nil
}

// UpdateOnce is Update of a request: with an IdempotencyKey its updates are written once,
// in each partition of their keys. ErrOtherBody: another body came with this key before, and
// nothing of this one is written. The request is remembered as a whole first: the partitions
// of another body may be others.
func (in *Intake) UpdateOnce(ctx context.Context, r *Request, updates []user.Update) error {
	if r.IdempotencyKey == "" {
		return in.Update(ctx, updates)
	}
	if err := sized(updates); err != nil {
		return err
	}
	if _, err := firstSeen(ctx, r, in.Clock.Now().UnixMilli(), in.Redis.Once); err != nil {
		return err
	}
	parts := make(map[int]*flow.Part)
	for i := range updates {
		n := updates[i].Key.Partition(in.Partitions)
		if parts[n] == nil {
			parts[n] = &flow.Part{Partition: n}
		}
		parts[n].Items, parts[n].Count = user.AppendUpdate(parts[n].Items, &updates[i]), parts[n].Count+1
	}
	hash := requestHash(r, nil)
	name := hex.EncodeToString(hash[:16])
	for _, n := range slices.Sorted(maps.Keys(parts)) {
		err := in.Writer.WriteOnce(ctx, *parts[n], name, bodyPrint(r), idempotencyTTL)
		if errors.Is(err, flow.ErrOtherBody) {
			return ErrOtherBody
		}
		if err != nil {
			return err
		}
	}
	in.Stats.Accepted.Add(int64(len(updates)))
	return nil
}

// Record writes events and updates that belong together, in the order given, in
// one step, and returns when they are durable. On an error either all or none
// are written. They go to the partition of the key, which is that of all the
// updates. With a name it writes them once: a repeat under that name within ttl
// writes nothing, and the caller is told so. Errors are those of Accept.
func (in *Intake) Record(ctx context.Context, key user.Key, events []sluice.Event, updates []user.Update, name string, ttl time.Duration) (written bool, err error) {
	if err := sized(updates); err != nil {
		return false, err
	}
	part := flow.Part{Partition: key.Partition(in.Partitions), Count: len(events) + len(updates)}
	for i := range events {
		part.Items = sluice.AppendEvent(part.Items, &events[i])
	}
	for i := range updates {
		part.Items = user.AppendUpdate(part.Items, &updates[i])
	}
	if name == "" {
		err = in.Writer.Write(ctx, part)
	} else if err = in.Writer.WriteOnce(ctx, part, name, rand.Text(), ttl); errors.Is(err, flow.ErrOtherBody) { // each call is another body
		return false, nil
	}
	if err == nil {
		in.Stats.Accepted.Add(int64(part.Count))
	}
	return err == nil, err
}
