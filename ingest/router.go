package ingest

import (
	"context"
	"fmt"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
)

// Bounds of routing.
const (
	// maxLogEntries is where a partition's log is full: the router waits for
	// the store, and the list is the back pressure. 64 batches are some 10 MB.
	maxLogEntries = 64
	logFullPoll   = 10 * time.Millisecond

	// routeWait is how long elements wait for company on their way to a log;
	// they wait again on their way to the database.
	routeWait = 10 * time.Millisecond
)

// Router turns the elements of a list into events and appends them to the logs
// of their users' partitions.
//
// The idea. Its effect is in many logs, so its cursor is too. In each log the
// seq of the source "list:NAME" is the position up to which the list's elements
// for that partition are in it. It moves in the script that writes the batch. A
// crash between two partitions' appends leaves the one ahead of the other. The
// next session starts at the list's oldest element and leaves out, for each
// partition, what its log has already. Elements are dropped from the list's
// chunk only when every partition has its part of them.
type Router struct {
	Lister
	Logs    []*flow.Log // by partition
	Options EventOptions
	Bounds  TimeBounds
}

// Run follows the list until fetch ends.
func (r *Router) Run(fetch, work context.Context) {
	flow.Follow(fetch, work, r.name(), r.Log, r.Stats, func(fetch, work context.Context) error {
		return r.session(fetch, work, r.follow)
	})
}

// routed is one unit: for each partition, a batch or nothing.
type routed struct {
	batches []partBatch // by partition
	to      sluice.Position
	taken   time.Time // when its first element was read
	count   int       // elements
	largest int       // bytes of the largest batch
}

type partBatch struct {
	data  []byte
	items int
}

func (r *Router) follow(fetch, work context.Context, lease *flow.Lease) error {
	// A log that Redis has taken back must not hand out ids below the store's
	// cursor: they would never be read.
	if err := RaiseAll(work, r.Store, r.Logs, r.Log); err != nil {
		return err
	}
	at, err := r.positions(work)
	if err != nil {
		return err
	}
	newest := sluice.Position{}
	for _, p := range at {
		if newest.Before(p) {
			newest = p
		}
	}
	reader, err := r.List.OpenOldest(work, lease, newest)
	if err != nil {
		return err
	}
	have := append([]sluice.Position(nil), at...) // owned by the reading side
	err = flow.Pipe(fetch, work, func(ctx context.Context, emit func(routed) error) error {
		return r.read(ctx, reader, have, emit)
	}, func(ctx context.Context, u routed) error {
		if err := r.append(ctx, u, at); err != nil {
			return err
		}
		r.Stats.Fine(r.name())
		r.Stats.Accepted.Add(int64(u.count))
		r.Stats.setListLag(r.source(), u.to, u.taken, r.Clock.Now())
		reader.Committed(u.to)
		return nil
	})
	if gap := r.accepted(work, err); gap != nil {
		reader.Committed(gap.Start)
		err = nil
	}
	if err != nil {
		return err
	}
	return reader.Close(work)
}

func (r *Router) name() string   { return "route:" + r.List.Name() }
func (r *Router) source() string { return r.List.Source() }

// positions reads, for each partition, up to where its log has this list.
func (r *Router) positions(ctx context.Context) ([]sluice.Position, error) {
	at := make([]sluice.Position, len(r.Logs))
	for i, log := range r.Logs {
		seq, err := log.Seq(ctx, r.source())
		if err != nil {
			return nil, err
		}
		if at[i], err = sluice.ParsePosition(seq); err != nil {
			return nil, fmt.Errorf("route list %s: partition %d: %w", r.List.Name(), i, err)
		}
	}
	return at, nil
}

// read gathers pages to units until the context ends.
func (r *Router) read(ctx context.Context, reader *flow.ListReader, have []sluice.Position, emit func(routed) error) error {
	ahead := flow.ReadAhead(ctx, reader)
	defer ahead.Stop()
	var arena Arena
	for {
		u := routed{batches: make([]partBatch, len(r.Logs))}
		bytes := 0
		add := func(page flow.Page) {
			if u.count == 0 {
				u.taken = r.Clock.Now()
				r.Stats.taking(r.source(), u.taken)
			}
			bytes += r.encode(page, have, &u, &arena)
			u.count += len(page.Elements)
			u.to = page.To
		}
		size := func() (int, int) {
			if u.largest >= sluice.MaxBatchBytes {
				return u.count, flushBytes
			}
			return u.count, bytes
		}
		if err := gatherPages(ctx, r.Clock, routeWait, ahead, add, size); err != nil {
			return err
		}
		r.Stats.taken(r.source(), u.to)
		if err := emit(u); err != nil {
			return err
		}
	}
}

// encode adds the elements of a page to the batches of their partitions and
// returns their bytes. What a partition's log has already is left out.
func (r *Router) encode(page flow.Page, have []sluice.Position, u *routed, arena *Arena) int {
	now := r.Clock.Now().UnixMilli()
	later := laterMillis(r.Clock, now)
	options := r.Options
	options.Now, options.Arena = now, arena
	bytes := 0
	var e sluice.Event
	for i, raw := range page.Elements {
		bytes += len(raw)
		arena.Reset()
		// The element is in a log if that log's seq is beyond it; seqs are the
		// position after the last element of a unit.
		after := sluice.Position{Major: page.From.Major, Minor: page.From.Minor + uint64(i) + 1}
		err := ParseEvent(raw, &options, &e)
		p := 0
		if err == nil {
			p = partitionOf(&e, raw, len(r.Logs))
			// Bounds move with the clock: read again, the element may pass, and
			// must be known to the same log.
			err = r.Bounds.Check(e.TimeMillis, now, later)
		} else {
			p = int(hashText(raw) % uint64(len(r.Logs)))
		}
		if !have[p].Before(after) {
			continue
		}
		b := &u.batches[p]
		if b.data == nil {
			b.data = sluice.NewBatch(4 << 10)
		}
		if err == nil {
			b.data = sluice.AppendEvent(b.data, &e)
		} else {
			b.data = sluice.AppendDead(b.data, &sluice.DeadLetter{
				Source: r.source(), Form: sluice.FormElement, Reason: err.Error(),
				Payload: []byte(raw), TimeMillis: now,
			})
		}
		b.items++
		u.largest = max(u.largest, len(b.data))
	}
	return bytes
}

// append writes a unit to the logs. at is moved for each that was written.
func (r *Router) append(ctx context.Context, u routed, at []sluice.Position) error {
	if err := faults.Hit("append"); err != nil {
		return err
	}
	var entries []flow.Entry
	for p := range u.batches {
		if u.batches[p].items == 0 {
			continue
		}
		prev := ""
		if !at[p].IsZero() {
			prev = at[p].String()
		}
		entries = append(entries, flow.Entry{Log: r.Logs[p], PrevSeq: prev, Seq: u.to.String(), Batch: u.batches[p].data})
	}
	var err error
	for i, done := range flow.AppendAll(ctx, r.source(), entries, true) {
		if done.Err == nil {
			at[entries[i].Log.Partition()] = u.to
			done.Err = waitForRoom(ctx, entries[i].Log, done.Entries)
		}
		if err == nil {
			err = done.Err
		}
	}
	if err == nil {
		err = faults.Hit("appended")
	}
	return err
}

// waitForRoom waits while a partition's log is full.
func waitForRoom(ctx context.Context, log *flow.Log, entries int) error {
	for entries >= maxLogEntries {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(logFullPoll):
		}
		var err error
		if entries, err = log.Entries(ctx); err != nil {
			return err
		}
	}
	return nil
}

// partitionOf says where an event belongs: all of a user's events to one
// partition, so that they keep their order. An event of nobody goes anywhere.
func partitionOf(e *sluice.Event, raw string, partitions int) int {
	key := e.User
	if key == "" {
		key = e.Email
	}
	if key == "" {
		key = e.Message
	}
	if key == "" {
		key = raw
	}
	return int(hashText(key) % uint64(partitions))
}

// hashText is FNV-1a, 64 bits, finished by a shift that mixes the high bits
// down. It is stored in effect (a user never moves): never change it.
func hashText(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(s); i++ {
		h ^= uint64(s[i])
		h *= 1099511628211
	}
	return h ^ h>>32
}
