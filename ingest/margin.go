package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
)

// The margin of the logs.
//
// A database can fail over to a replica a second behind, or be restored from a
// copy of a moment ago. Then its cursors go back. The entries after them were
// applied, in rows that are gone, so they must still be in the logs. Applied
// entries stay for marginFor, or as long as there is room for them, whichever
// is less. The session that finds its cursor moved begins anew and reads them
// again. Rows are written a second time where they are gone. The lanes, whose
// cursor is in Redis, leave out what they have.
//
// A store that has nothing to do writes nothing, and would not notice that its
// cursors went back before the entries after them are gone. So it reads its
// cursors for as long as any entry is kept.
//
// The kept entries are remembered by stretches, of a second or an eighth of the
// room. So 60 s of them take no memory here. The stretches are forgotten with
// the session: the next one looks how much a log holds below the cursor, and
// keeps that. Redis notes when the newest entry that went for want of room was
// applied (flow.NeverCut), so every process says how far back is covered.
// Without such a note, as in a version that kept nothing, it may have been just
// now.

const (
	// marginFor is for how long applied entries are kept.
	marginFor = 60 * time.Second

	// marginEvery is how often is looked what has been kept for so long.
	marginEvery = 1 * time.Second

	// stretchFor and stretchOf bound a stretch: in time, and as a part of the room.
	stretchFor = 1 * time.Second
	stretchOf  = 8

	// marginFull is the part of Redis's memory in percent from which on nothing is
	// kept: room for what comes is worth more.
	marginFull = 85
)

// margins are the margins of the logs that this process stores.
type margins struct {
	store *StoreFollower
	room  int // bytes, of each log

	mu   sync.Mutex
	held map[int]*flow.Lease
	of   map[int]*margin // by partition
}

// margin is the applied entries that one log keeps, or the elements of one list.
type margin struct {
	lease   *flow.Lease
	at      sluice.Position // up to here its log is applied
	kept    []kept          // oldest first
	entries int             // of all of them, and those that could not be removed yet
	bytes   int

	// cut is when that was applied which went last for want of room; zero: nothing
	// has.
	cut time.Time
}

// kept is a stretch of applied entries.
type kept struct {
	flow.Stretch
	began, applied time.Time // its first entry, its last one
}

// begin finds out what the logs keep below their cursors, and removes what is too
// much. Logs for which Redis fails are left out.
func (m *margins) begin(ctx context.Context, s *StoreFollower, held map[int]*flow.Lease, e *entered) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held = held; m.store == nil { // a step of a session before may read these yet
		m.store, m.room = s, s.MarginBytes/max(1, len(s.Logs))
	}
	var live []int
	for _, p := range e.partitions {
		if e.failed[p] == nil {
			live = append(live, p)
		}
	}
	var failed map[int]error
	cursors := maps.Clone(e.cursors)
	m.of, failed = sideBySide(ctx, live, e.sure, func(ctx context.Context, p int) (*margin, error) {
		g := &margin{lease: held[p], at: cursors[p]}
		return g, m.look(ctx, p, g, cursors[p])
	})
	for _, p := range slices.Sorted(maps.Keys(failed)) {
		if err := e.leave(p, failed[p]); err != nil {
			return err
		}
	}
	m.tell()
	return nil
}

// look finds out what a log keeps below the cursor.
func (m *margins) look(ctx context.Context, partition int, g *margin, cursor sluice.Position) error {
	now := m.store.Clock.Now()
	log := m.store.Logs[partition]
	ago, known, err := log.Cut(ctx, g.lease)
	if err != nil {
		return err
	}
	g.cutBefore(ago, known || cursor.IsZero(), now)
	found, whole, err := log.Applied(ctx, cursor, max(1, m.room))
	if err != nil {
		return err
	}
	for i := len(found) - 1; i >= 0; i-- {
		g.add(found[i], now, m.room)
	}
	if !whole {
		g.cut = now
		if _, err := log.Trim(ctx, g.lease, found[len(found)-1].First); err != nil { // what it removes is not counted
			return err
		}
	}
	_, err = log.Settle(ctx, g.lease, sluice.Position{}, g.entries, g.cutAgo(now))
	return err
}

// cutBefore takes over what is noted of what went for want of room. If nothing is,
// something may have been applied and have gone just now.
func (g *margin) cutBefore(ago time.Duration, known bool, now time.Time) {
	switch {
	case !known:
		g.cut = now
	case ago >= 0:
		g.cut = now.Add(-ago)
	}
}

// add adds what was applied to what is kept.
func (g *margin) add(s flow.Stretch, now time.Time, room int) {
	g.entries, g.bytes = g.entries+s.Entries, g.bytes+s.Bytes
	if n := len(g.kept); n > 0 {
		last := &g.kept[n-1]
		if now.Sub(last.began) < stretchFor && last.Bytes+s.Bytes <= room/stretchOf {
			last.Last, last.Entries, last.Bytes, last.applied = s.Last, last.Entries+s.Entries, last.Bytes+s.Bytes, now
			return
		}
	}
	g.kept = append(g.kept, kept{s, now, now})
}

// over takes away what is kept no longer, and returns the oldest entry to keep;
// zero: nothing has gone.
func (g *margin) over(now time.Time, room int) (keep sluice.Position) {
	for len(g.kept) > 0 {
		oldest := &g.kept[0]
		full := g.bytes > room
		if !full && now.Sub(oldest.applied) < marginFor {
			break
		}
		if full {
			g.cut = oldest.applied
		}
		g.bytes -= oldest.Bytes
		keep = sluice.Position{Major: oldest.Last.Major, Minor: oldest.Last.Minor + 1}
		g.kept = g.kept[1:]
	}
	if len(g.kept) == 0 {
		g.kept = nil // and its memory
	}
	return keep
}

// covers is for how long back what was applied is kept.
func (g *margin) covers(now time.Time) time.Duration {
	if g.cut.IsZero() {
		return marginFor
	}
	return max(0, min(marginFor, now.Sub(g.cut)))
}

// cutAgo is what the next process is to know of what went for want of room.
func (g *margin) cutAgo(now time.Time) time.Duration {
	if covers := g.covers(now); covers < marginFor {
		return covers
	}
	return flow.NeverCut
}

// applied notes what was applied, and removes what is kept no longer.
func (m *margins) applied(ctx context.Context, entries map[int]flow.Stretch) error {
	if err := faults.Hit("trim"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.store.Clock.Now()
	group, ctx := errgroup.WithContext(ctx)
	for p, s := range entries {
		g := m.of[p]
		g.at = s.Last
		g.add(s, now, m.room)
		group.Go(func() error { return m.settle(ctx, p, g, now, m.room) })
	}
	err := group.Wait()
	m.tell()
	return err
}

// settle tells a log what of it is applied, and removes what is kept no longer.
func (m *margins) settle(ctx context.Context, partition int, g *margin, now time.Time, room int) error {
	keep := g.over(now, room)
	removed, err := m.store.Logs[partition].Settle(ctx, g.lease, keep, g.entries, g.cutAgo(now))
	g.entries -= min(g.entries, int(removed)) // less than what is kept no longer: a backup holds the rest
	return err
}

// tell says how much is covered.
func (m *margins) tell() {
	now := m.store.Clock.Now()
	covers := make(map[int]time.Duration, len(m.of))
	for p, g := range m.of {
		covers[p] = g.covers(now)
	}
	m.store.Stats.setMargins(m.store.Name(), covers)
}

// run removes what becomes too old while nothing is applied, until its context
// ends, or a cursor has gone back.
func (m *margins) run(ctx context.Context) error { return letGo(ctx, m.store.Log, m.let) }

// letGo calls let every marginEvery until its context ends, or a cursor has gone
// back.
func letGo(ctx context.Context, log *slog.Logger, let func(context.Context) error) error {
	for {
		if sluice.Pause(ctx, sluice.Rest(time.Now(), marginEvery)) != nil {
			return nil
		}
		err := let(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, sluice.ErrConflict):
			return err
		case err != nil && !errors.Is(err, sluice.ErrLeaseLost): // the session ends by itself, or tries again
			log.Debug("what is applied and kept no longer could not be removed", "error", err)
		}
	}
}

// let removes what is kept no longer, and all of it from a Redis that is nearly
// full: of a cluster, from each server that is. ErrConflict: a cursor has gone back.
func (m *margins) let(ctx context.Context) error {
	m.mu.Lock()
	at := make(map[int]sluice.Position)
	for p, g := range m.of {
		if len(g.kept) > 0 {
			at[p] = g.at
		}
	}
	m.tell()
	m.mu.Unlock()
	if len(at) == 0 {
		return nil
	}
	partitions := slices.Collect(maps.Keys(at))
	cursors, err := m.store.Store.Cursors(ctx, StoreRole, partitions)
	if err != nil {
		return err
	}
	for p, cursor := range cursors {
		if cursor.Before(at[p]) {
			return fmt.Errorf("keep what is applied of partition %d: %w: its cursor was at %s and is at %s; the database has gone back in time", p, sluice.ErrConflict, at[p], cursor)
		}
	}
	var logs []*flow.Log
	for _, p := range partitions {
		logs = append(logs, m.store.Logs[p])
	}
	used := flow.MemoryPercents(ctx, logs)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.store.Clock.Now()
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range partitions {
		room := m.room
		if used[p] >= marginFull {
			room = 0
		}
		if g := m.of[p]; len(g.kept) > 0 && (g.bytes > room || now.Sub(g.kept[0].applied) >= marginFor) {
			group.Go(func() error { return m.settle(ctx, p, g, now, room) })
		}
	}
	return group.Wait()
}
