package run

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
	"sluice/mail"
	"sluice/store"
)

// epochBits: the numbers of commits behind a recovery begin at its second, times 2 to
// the power of this. So they are above all that any Redis has that was lost, and a Redis
// that comes back with what came behind the checkpoint is behind the next one.
const epochBits = 30

// clockMargin is how many seconds the clock of the process by which Redis became another one
// may be behind Redis's own, by which people enter.
const clockMargin = 60

// recoveredNote is the second of the last recovery.
const recoveredNote = "recovered"

// recover writes the partition anew from SQL: Redis was emptied, or has gone back behind
// the checkpoint. What happened since is lost: people stand where they stood, and the
// facts behind the checkpoint are applied again.
func (p *part) recover(ctx context.Context) error {
	row, now := p.saver.row, p.clock.Now()
	fields := make(map[string]string)
	if err := json.Unmarshal([]byte(row.Notes), &fields); err != nil {
		return fmt.Errorf("read the notes of the checkpoint of partition %d: %w", p.log.Partition(), err)
	}
	flow.SetNote(fields, recoveredNote, strconv.FormatInt(now.Unix(), 10))
	epoch := max(row.At.Major>>epochBits+1, uint64(now.Unix()))
	r := &flow.Recovery{
		Log: p.log, Lease: p.lease, From: p.at, Fields: fields,
		To: flow.Reached{Position: sluice.Position{Major: epoch << epochBits, Minor: p.session}},

		// Behind it nothing is stored any more that only the Redis of before had.
		Items: sluice.AppendItem(nil, sluice.ItemMarker, func(b []byte) []byte { return b }),
	}
	units := 0
	err := r.Run(ctx, now.UnixMilli(), func(write func(journey int, unit int64, data []byte) error) error {
		return p.store.EachUnit(ctx, row, func(u *store.Unit) error {
			units++
			if err := faults.Hit("recover"); err != nil {
				return err
			}
			return write(int(u.Journey), u.Unit, u.Data)
		})
	})
	if err != nil {
		return err
	}
	p.say("redis was behind the checkpoint of where people are in journeys, and was written anew from it", nil, "units", units, "redis_at", p.at.String(), "checkpoint_at", row.At.String())
	p.at = r.To
	p.stats.Recovered.Add(1)
	return nil
}

// openNotes reads how far the last recovery is.
func (p *part) openNotes(ctx context.Context, fields map[string]string) (err error) {
	if p.facts, err = p.factsRead(ctx); err != nil {
		return err
	}
	p.left = flow.NoteIn(fields, leftNote)
	text := flow.NoteIn(fields, recoveredNote)
	if text == "" {
		return nil
	}
	second, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return fmt.Errorf("read when partition %d was recovered: %w", p.log.Partition(), err)
	}
	p.recovered = uint32(second)
	p.marker, err = p.log.Last(ctx)
	return err
}

// settled reports whether people may move: not before all that the Redis of before a
// recovery had is stored or lost. Only then does the ledger say which mail was made.
func (p *part) settled(ctx context.Context) (bool, error) {
	if p.marker.IsZero() {
		return true, nil
	}
	done, err := p.stored(ctx, p.marker)
	if done {
		p.marker = sluice.Position{}
	}
	return done, err
}

// movedEvery is how often is looked whether Redis has become another one.
const movedEvery = 10 * time.Second

// lookMoved learns when Redis became another one last, by a start or a failover: it may have
// gone back by some moments then, with log and records together, so no checkpoint is needed.
// What is made again in these moments is made as behind a recovery. Who is moved before this
// is looked at gets no mail twice: senders look up all mail for ten minutes (spool.AfterMove).
func (p *part) lookMoved(ctx context.Context) error {
	if time.Since(p.movedLooked) < movedEvery {
		return nil
	}
	_, moved, _, err := p.log.Lanes().Found(ctx)
	if err != nil {
		return err
	}
	if second := uint32(max(moved.Unix(), 0)); second > p.recovered {
		p.recovered = second
		at, err := p.log.Cursor(ctx, cursor)
		if err != nil {
			return err
		}
		if at != p.at { // what is known of who is due is of commits that are gone
			return fmt.Errorf("redis is another one, and has commit %s where %s was the last: %w", at, p.at, sluice.ErrConflict)
		}
	}
	p.movedLooked = time.Now()
	return nil
}

// doubtful is a mail that may have been made before a recovery: its person had entered by
// then. The time by which the person moves says nothing. Who comes to the step again may
// wait there for hours: for the end of the quiet hours, a rate, a time of day that has passed.
type doubtful struct {
	key  mail.SendKey
	item []byte
}

// askedAtOnce are the mails that the ledger is asked for by one statement.
const askedAtOnce = 512

// addDoubtful adds those of the mails that may have been made before, and were not. The
// ledger has those that were: a way that is decided again makes a mail of the same name.
func (c *change) addDoubtful(ctx context.Context) error {
	for len(c.doubtful) > 0 {
		some := c.doubtful[:min(len(c.doubtful), askedAtOnce)]
		c.doubtful = c.doubtful[len(some):]
		keys := make([]mail.SendKey, len(some))
		for i := range some {
			keys[i] = some[i].key
		}
		rows, err := c.part.store.SendRows(ctx, keys)
		if err != nil {
			return err
		}
		made := make(map[mail.SendKey]bool, len(rows))
		for i := range rows {
			made[rows[i].Key()] = true
		}
		for i := range some {
			if !made[some[i].key] {
				c.items = append(c.items, some[i].item...)
			}
		}
	}
	return nil
}

// say logs something about the partition.
func (p *part) say(what string, err error, args ...any) {
	if p.slog == nil {
		return
	}
	args = append([]any{"partition", p.log.Partition()}, args...)
	if err != nil {
		args = append(args, "error", err)
	}
	p.slog.Warn(what, args...)
}
