package ingest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
)

// The margin of the lists.
//
// Elements of a list, or of hashes, that go straight into tables are in no log.
// So their chunks stay in Redis for as long as applied entries of logs do, and
// for the same reason (margin.go). The session that finds the cursor moved back
// reads them again.

// listMargin is what is kept of one list.
type listMargin struct {
	lister *Lister
	reader *flow.ListReader

	mu sync.Mutex
	margin
}

// keeping opens the list at a cursor and keeps the applied part of it. It calls
// follow with a context that ends when fetch does, or when the cursor has gone
// back.
func (l *Lister) keeping(fetch, work context.Context, lease *flow.Lease, cursor sluice.Position, follow func(fetch context.Context, reader *flow.ListReader, kept *listMargin) error) error {
	reader, err := l.List.OpenKeeping(work, lease, cursor)
	if err != nil {
		return err
	}
	kept, err := l.keepsOf(work, reader, lease, cursor)
	if err != nil {
		return err
	}
	defer l.Stats.setListMargin(l.List.Name(), -1)
	fetch, stop := context.WithCancel(fetch)
	defer stop()
	letting := make(chan error, 1)
	go func() { // ends with the session
		err := letGo(fetch, l.Log, kept.let)
		stop()
		letting <- err
	}()
	err = follow(fetch, reader, kept)
	stop()
	if failed := <-letting; err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	return reader.Close(work)
}

// keepsOf finds out what the list keeps below the cursor.
func (l *Lister) keepsOf(ctx context.Context, reader *flow.ListReader, lease *flow.Lease, cursor sluice.Position) (*listMargin, error) {
	m := &listMargin{lister: l, reader: reader, margin: margin{lease: lease, at: cursor}}
	now := l.Clock.Now()
	ago, known, err := reader.Cut(ctx)
	if err != nil {
		return nil, err
	}
	m.cutBefore(ago, known || cursor.IsZero(), now)
	found, whole, err := reader.Kept(ctx, max(1, l.MarginBytes))
	if err != nil {
		return nil, err
	}
	for i := len(found) - 1; i >= 0; i-- {
		m.add(found[i], now, l.MarginBytes)
	}
	keep := sluice.Position{}
	if !whole {
		keep, m.cut = found[len(found)-1].First, now
	}
	reader.KeepFrom(keep, m.cutAgo(now))
	m.tell(now)
	return m, nil
}

// applied notes up to where the list is applied, and in which pages that was read.
func (m *listMargin) applied(to sluice.Position, pages []flow.Stretch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.lister.Clock.Now()
	m.at = to
	for _, page := range pages {
		m.add(page, now, m.lister.MarginBytes)
	}
	m.keepFrom(now, m.lister.MarginBytes)
	m.reader.Committed(to)
	m.tell(now)
}

// keepFrom tells the reader what is kept no longer.
func (m *listMargin) keepFrom(now time.Time, room int) {
	keep := m.over(now, room)
	m.reader.KeepFrom(keep, m.cutAgo(now))
}

// tell says how much is covered.
func (m *listMargin) tell(now time.Time) {
	l := m.lister
	l.Stats.setListMargin(l.List.Name(), m.covers(now))
}

// let lets go what is kept no longer, and all of it in a Redis that is nearly full.
// ErrConflict: the cursor has gone back.
func (m *listMargin) let(ctx context.Context) error {
	l := m.lister
	m.mu.Lock()
	m.tell(l.Clock.Now())
	at, some := m.at, len(m.kept) > 0
	m.mu.Unlock()
	if !some {
		return nil
	}
	cursors, err := l.Store.Cursors(ctx, l.List.Source(), []int{0})
	if err != nil {
		return err
	}
	if cursors[0].Before(at) {
		return fmt.Errorf("keep what is applied of %s: %w: its cursor was at %s and is at %s; the database has gone back in time", l.List, sluice.ErrConflict, at, cursors[0])
	}
	room := l.MarginBytes
	if used, err := l.List.MemoryPercent(ctx); err == nil && used >= marginFull {
		room = 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keepFrom(l.Clock.Now(), room)
	return nil
}
