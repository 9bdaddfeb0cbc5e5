package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/store"
)

// ListRole is the role of draining the foreign lists and hashes.
const ListRole = "intake"

// Lister drains one foreign list, or the hashes of a server. It follows the
// list under the lease of its place in ListRole, in sessions (package flow).
type Lister struct {
	List   *flow.List
	Place  int // of the list in ListRole
	Leases *flow.Leases
	Store  store.Store
	Clock  sluice.Clock
	Log    *slog.Logger
	Stats  *Stats

	// Gaps is where it says at which gap it stands still, and learns that somebody
	// accepts it; nil: nowhere.
	Gaps *flow.Gaps

	// AcceptGaps lets the follower go on behind gaps instead of standing still:
	// the operator has decided that what is missing is lost.
	AcceptGaps bool

	// MarginBytes is how much the list may keep of what is applied, if it goes to
	// tables (margin_list.go).
	MarginBytes int

	last   *flow.Lease      // of the session before
	over   *flow.GapError   // accepted, and perhaps not passed yet; nil: there is none
	listed *sluice.Position // the cursor of the gap that is listed, and not passed; nil: there is none
}

// session waits for the lease and runs one session of the list under it. The
// session ends when the lease is lost.
func (l *Lister) session(fetch, work context.Context, run func(fetch, work context.Context, lease *flow.Lease) error) error {
	for {
		held, _ := l.Leases.Held(ListRole)
		lease := held[l.Place]
		if lease == nil {
			l.Leases.WaitForChange(fetch, ListRole, held)
			if fetch.Err() != nil {
				return nil
			}
			continue
		}
		if lease != l.last {
			l.last, l.over = lease, nil // another process may have passed it
			l.Stats.beginList(l.List.Source(), l.Clock.Now())
		}
		ctx, stop := context.WithCancelCause(fetch)
		defer stop(nil)
		go func() { // ends with the session
			for ctx.Err() == nil {
				l.Leases.WaitForChange(ctx, ListRole, held)
				if held, _ = l.Leases.Held(ListRole); held[l.Place] != lease {
					stop(sluice.ErrLeaseLost)
				}
			}
		}()
		err := run(ctx, work, lease)
		if err == nil && fetch.Err() == nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

// TableFollower stores the elements of a list straight in a table of the
// user's own. Its effect is rows, so its cursor is in the database and moves
// in the transaction that inserts them.
type TableFollower struct {
	Lister
	Table  store.Table
	Mapper *RowMapper
}

// Run follows the list until fetch ends.
func (t *TableFollower) Run(fetch, work context.Context) {
	flow.Follow(fetch, work, t.name(), t.Log, t.Stats, func(fetch, work context.Context) error {
		return t.session(fetch, work, t.follow)
	})
}

func (t *TableFollower) name() string { return "table:" + t.List.Name() }

// tableUnit is one transaction, prepared.
type tableUnit struct {
	prepared store.Prepared
	taken    time.Time // when its first element was read
	to       sluice.Position
	pages    []flow.Stretch
}

func (t *TableFollower) follow(fetch, work context.Context, lease *flow.Lease) error {
	follower := t.List.Source()
	// The table may have become another since the session before.
	table, err := t.Store.OpenTable(work, t.Table.Spec())
	if err != nil {
		return err
	}
	t.Table = table
	cursors, err := t.Store.Cursors(work, follower, []int{0})
	if err != nil {
		return fmt.Errorf("read cursor of %s: %w", follower, err)
	}
	cursor := cursors[0]
	t.passed(work, cursor)
	committed := cursor
	err = t.keeping(fetch, work, lease, cursor, func(fetch context.Context, reader *flow.ListReader, kept *listMargin) error {
		return flow.Pipe(fetch, work, func(ctx context.Context, emit func(tableUnit) error) error {
			return t.read(ctx, reader, cursor, emit)
		}, func(ctx context.Context, u tableUnit) error {
			if _, err := apply(ctx, t.Store, t.Stats, t.name(), u.prepared); err != nil {
				return err
			}
			committed = u.to
			t.Stats.setListLag(follower, u.to, u.taken, t.Clock.Now())
			kept.applied(u.to, u.pages)
			t.committed(ctx, u.to)
			return nil
		})
	})
	if gap := t.accepted(work, err); gap != nil {
		return t.moveOver(work, committed, gap)
	}
	return err
}

// read gathers pages to transactions: full ones at once while there is much,
// smaller ones soon when it is quiet.
func (t *TableFollower) read(ctx context.Context, reader *flow.ListReader, cursor sluice.Position, emit func(tableUnit) error) error {
	ahead := flow.ReadAhead(ctx, reader)
	defer ahead.Stop()
	last := 0 // rows of the transaction before: the next is about as large
	for {
		g := t.newGather(cursor, last)
		if err := gatherPages(ctx, t.Clock, flushWait, ahead, g.add, g.size); err != nil {
			return err
		}
		t.Stats.Read.Observe(t.Clock.Now().Sub(g.taken))
		prepared, err := prepare(t.Store, t.Stats, &g.effect)
		if err != nil {
			return err
		}
		t.Stats.taken(g.rows.Source, g.to)
		if err := emit(tableUnit{prepared, g.taken, g.to, g.pages}); err != nil {
			return err
		}
		t.Stats.Accepted.Add(int64(g.elements))
		cursor, last = g.to, g.elements
	}
}

// pages is where the pages of a list come from, as flow.ListReader gives them.
type pages interface {
	Next(ctx context.Context, wait bool) (flow.Page, error)
}

// gatherPages adds pages until a transaction is full, or what was there is
// taken and has waited long enough. It adds at least one page. A unit holds at
// most flushRows or flushBytes and one page more.
func gatherPages(ctx context.Context, clock sluice.Clock, wait time.Duration, reader pages, add func(flow.Page), size func() (rows, bytes int)) error {
	page, err := reader.Next(ctx, true)
	if err != nil {
		return err
	}
	add(page)
	deadline := clock.Now().Add(wait)
	for {
		rows, bytes := size()
		if rows >= flushRows || bytes >= flushBytes {
			return nil
		}
		page, err := reader.Next(ctx, false)
		if errors.Is(err, sluice.ErrGap) {
			return nil // what comes before it is applied; the next call meets it again
		}
		if err != nil {
			return err
		}
		if len(page.Elements) > 0 {
			add(page)
			continue
		}
		if rows >= flushSoon || !clock.Now().Before(deadline) {
			return nil
		}
		if sluice.Pause(ctx, 5*time.Millisecond) != nil {
			return nil // what is in hand is still applied
		}
	}
}

// gather is a transaction that fills.
type gather struct {
	t        *TableFollower
	effect   store.Effect
	rows     store.TableRows
	dead     []sluice.DeadLetter
	from, to sluice.Position
	taken    time.Time
	elements int
	bytes    int
	pages    []flow.Stretch
}

func (t *TableFollower) newGather(cursor sluice.Position, rows int) *gather {
	g := &gather{t: t, from: cursor, to: cursor}
	g.rows = store.TableRows{
		Table: t.Table, Source: t.List.Source(),
		Cells:  make([]store.Cell, 0, rows*len(t.Table.Spec().Columns)),
		Raw:    make([]string, 0, rows),
		Places: make([]sluice.Place, 0, rows),
	}
	return g
}

func (g *gather) size() (int, int) { return g.elements, g.bytes }

// add adds the rows of a page; elements that are no rows become dead letters.
func (g *gather) add(page flow.Page) {
	if g.elements == 0 {
		g.taken = g.t.Clock.Now()
		g.t.Stats.taking(g.rows.Source, g.taken)
	}
	for i, raw := range page.Elements {
		place := sluice.Place{Position: sluice.Position{Major: page.From.Major, Minor: page.From.Minor + uint64(i)}}
		g.bytes += len(raw)
		cells, err := g.t.Mapper.Append(raw, g.rows.Cells)
		if err != nil {
			g.dead = append(g.dead, sluice.DeadLetter{
				Source: g.rows.Source, Form: sluice.FormElement, Place: place,
				Reason: err.Error(), Payload: []byte(raw), TimeMillis: g.taken.UnixMilli(),
			})
			continue
		}
		g.rows.Cells = cells
		g.rows.Raw = append(g.rows.Raw, raw)
		g.rows.Places = append(g.rows.Places, place)
	}
	g.elements += len(page.Elements)
	g.pages = append(g.pages, page.Stretch())
	g.to = page.To
	g.effect = store.Effect{
		Moves: []store.Move{{Follower: g.t.List.Source(), From: g.from, To: g.to}},
		Rows:  []store.TableRows{g.rows},
		Dead:  g.dead,
	}
}
