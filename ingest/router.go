package ingest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
)

// routeWait is how long elements wait for company on their way to a log; they
// wait again on their way to the database.
const routeWait = 10 * time.Millisecond

// Router turns the elements of a list into events and appends them to the logs
// of their users' partitions.
//
// The idea. Its effect is in many logs, so its cursor is too. In each log the
// seq of the source "events:NAME" is the position up to which the list's elements
// for that partition are in it. It moves in the script that writes the batch. A
// crash between two partitions' appends leaves the one ahead of the other. The
// next session starts at the list's oldest element and leaves out, for each
// partition, what its log has already. Elements are dropped from the list's
// chunk only when every partition has its part of them.
//
// The program of 0.1 gave events to other partitions, under the source "list:NAME".
// No element behind the furthest seq of that source, the border, is in any log under
// it. So elements up to the border go on under the old source, by the old
// partitions, and those behind it under the new one. The old seqs never pass the
// border, and stay: each session finds the same one, whatever it was killed in.
type Router struct {
	Lister
	Logs    []*flow.Log // by partition
	Options EventOptions
	Bounds  TimeBounds

	// BacklogBytes is what the logs of partitions that stand still may hold, all
	// together, before the list waits for them (room.go).
	BacklogBytes int

	told string // the last that was logged of a list that is held
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
	old     []partBatch // of elements up to the border; nil: there are none
	oldTo   sluice.Position
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
	old, err := r.positions(work, r.source(), partitionBefore)
	if err != nil {
		return err
	}
	now, err := r.positions(work, r.appends(), partitionOf)
	if err != nil {
		return err
	}
	border, newest := old.furthest(), now.furthest()
	if newest.Before(border) {
		newest = border
	}
	reader, err := r.List.OpenOldest(work, lease, newest)
	if err != nil {
		return err
	}
	r.passed(work, reader.At())
	if reader.At().Before(border) {
		r.Log.Info("elements that an older version has begun to route go where it has begun", "list", r.List.Name(), "from", reader.At().String(), "to", border.String())
	}
	known := have{border: border, old: old.copy(), now: now.copy()} // owned by the reading side
	err = flow.Pipe(fetch, work, func(ctx context.Context, emit func(routed) error) error {
		return r.read(ctx, reader, &known, emit)
	}, func(ctx context.Context, u routed) error {
		if err := r.append(fetch, ctx, u.old, u.oldTo, &old); err != nil {
			return err
		}
		if err := r.append(fetch, ctx, u.batches, u.to, &now); err != nil {
			return err
		}
		r.Stats.Fine(r.name())
		r.Stats.Accepted.Add(int64(u.count))
		r.Stats.setListLag(r.source(), u.to, u.taken, r.Clock.Now())
		reader.Committed(u.to)
		r.committed(ctx, u.to)
		return nil
	})
	gap := r.accepted(work, err)
	if gap != nil {
		reader.Committed(gap.Start)
		err = nil
	}
	if err == nil {
		err = reader.Close(work)
	}
	if err == nil && gap != nil {
		r.passed(work, gap.Start)
	}
	return err
}

func (r *Router) name() string   { return "route:" + r.List.Name() }
func (r *Router) source() string { return r.List.Source() }

// appends is the source under which the list's elements are appended.
func (r *Router) appends() string { return "events:" + r.List.Name() }

// stands says up to where the logs have a list under a source.
type stands struct {
	source string
	at     []sluice.Position // by partition

	// partition is where this source's events go.
	partition func(e *sluice.Event, raw string, partitions int) int
}

func (s *stands) copy() stands {
	c := *s
	c.at = slices.Clone(s.at)
	return c
}

func (s *stands) furthest() (p sluice.Position) {
	for _, at := range s.at {
		if p.Before(at) {
			p = at
		}
	}
	return p
}

// have is what the reading side knows of the logs. Elements up to the border
// belong to the old source.
type have struct {
	border   sluice.Position
	old, now stands
}

// positions reads, for each partition, up to where its log has this list.
func (r *Router) positions(ctx context.Context, source string, partition func(*sluice.Event, string, int) int) (stands, error) {
	s := stands{source: source, at: make([]sluice.Position, len(r.Logs)), partition: partition}
	for i, log := range r.Logs {
		seq, err := log.Seq(ctx, source)
		if err != nil {
			return s, err
		}
		if s.at[i], err = sluice.ParsePosition(seq); err != nil {
			return s, fmt.Errorf("route list %s: partition %d: %w", r.List.Name(), i, err)
		}
	}
	return s, nil
}

// read gathers pages to units until the context ends.
func (r *Router) read(ctx context.Context, reader *flow.ListReader, known *have, emit func(routed) error) error {
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
			bytes += r.encode(page, known, &u, &arena)
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
func (r *Router) encode(page flow.Page, known *have, u *routed, arena *Arena) int {
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
		stands, batches := &known.now, u.batches
		if !known.border.Before(after) {
			if u.old == nil {
				u.old = make([]partBatch, len(r.Logs))
			}
			stands, batches, u.oldTo = &known.old, u.old, after
		}
		err := ParseEvent(raw, &options, &e)
		p := 0
		if err == nil {
			p = stands.partition(&e, raw, len(r.Logs))
			// Bounds move with the clock: read again, the element may pass, and
			// must be known to the same log.
			err = r.Bounds.Check(e.TimeMillis, now, later)
		} else {
			p = int(hashText(raw) % uint64(len(r.Logs)))
		}
		if !stands.at[p].Before(after) {
			continue
		}
		b := &batches[p]
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

// append writes batches of a unit, which ends at a position, to the logs. s is moved
// for each that was written. Then it waits, until fetch ends, for room in them.
func (r *Router) append(fetch, ctx context.Context, batches []partBatch, to sluice.Position, s *stands) error {
	if batches == nil {
		return nil
	}
	if err := faults.Hit("append"); err != nil {
		return err
	}
	var entries []flow.Entry
	for p := range batches {
		if batches[p].items == 0 {
			continue
		}
		prev := ""
		if !s.at[p].IsZero() {
			prev = s.at[p].String()
		}
		entries = append(entries, flow.Entry{Log: r.Logs[p], PrevSeq: prev, Seq: to.String(), Batch: batches[p].data})
	}
	var err error
	room, pause := room{r.BacklogBytes, r.held}, false
	for i, done := range flow.AppendAll(ctx, s.source, entries, true) {
		if done.Err == nil {
			s.at[entries[i].Log.Partition()] = to
			var stands bool
			stands, done.Err = room.wait(fetch, entries[i].Log, done.Entries)
			pause = pause || stands
		}
		if err == nil {
			err = done.Err
		}
	}
	if pause {
		_ = sluice.Pause(fetch, standingPause)
	}
	if err == nil {
		err = faults.Hit("appended")
	}
	return err
}

// held says that the list waits for a partition that stands still.
func (r *Router) held(why error) {
	r.Stats.Failed(r.name(), why, r.Clock.Now())
	if why.Error() != r.told {
		r.told = why.Error()
		r.Log.Error("list is held", "list", r.List.Name(), "reason", why)
	}
}
