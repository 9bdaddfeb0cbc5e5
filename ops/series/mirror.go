// Package series brings the counts of the series to where others read them.
package series

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/lib/faults"
	"sluice/store"
)

// MirrorRole is the role of mirroring the series, and the name of its follower.
// It has one place.
const MirrorRole = "mirror"

// When the mirror works, and how much of it at once.
const (
	// mirrorLook is how often changes are looked for. mirrorRest is the
	// shortest time of a pass that has written: a document that changes all the
	// time is written that often.
	mirrorLook = 100 * time.Millisecond
	mirrorRest = 400 * time.Millisecond

	mirrorPage  = 2000 // changes, or days, in hand
	mirrorHours = 5000 // rows a step looks through to find all days

	// mirrorPasses is how many versions an epoch has.
	mirrorPasses = 1 << 32
)

// Mirror brings the totals of the series into a second store, where others read
// them.
//
// The idea. The exact counts are in SQL; the mirror sets the totals of the
// documents that have changed, and repeating it changes nothing. The store
// notes each change in the transaction that counts it (store.SeriesChange). A
// pass reads notes, then the totals of their days, writes the documents, and
// removes the notes that were not renewed meanwhile. If it dies anywhere, the
// notes are still there, and the next pass writes the same documents once more.
//
// The invariants. A version is the epoch of the session and the number of its
// write, so it only grows. Of two writes, the one with the larger version has
// read later. Within a session that holds because one write follows the other.
// Between two sessions it holds because nobody settles a note in an epoch that
// the database has left. So what an old session still writes is either written
// again by the new one, or was written by it already and is refused. A session
// that meets a newer document, or a newer epoch, ends.
//
// The epoch is counted by the mirror, and remembered by the database. A session
// that finds another number than the remembered one does not know the state of
// the mirror. The mirror is new, was emptied or restored, or the database was.
// Then all days of the series are written, beside the changes. Turning the
// mirror off forgets it. A database that its own tools have put back to a moment
// of the last epoch remembers that, and is not noticed: operators raise the epoch.
//
// Only versions grow. A database that went back has smaller totals, and the next
// session writes them.
//
// Days past the retention of the hours are left unchanged: the database deletes
// their rows, and the remaining rows are not their total. A missing row is
// never written as zero.
type Mirror struct {
	Store  store.MirrorStore
	To     store.SeriesMirror
	Leases *flow.Leases
	Clock  sluice.Clock
	Log    *slog.Logger
	Stats  *ingest.Stats
	Keep   ingest.Retention

	// OtherClock returns the main Redis's time, in milliseconds since 1970: the
	// keeper deletes nothing that is not past its retention by it.
	OtherClock func(ctx context.Context) (millis int64, err error)

	// Errors counts sessions that failed.
	Errors atomic.Int64

	mu      sync.Mutex
	held    bool
	pending bool      // there are changes that are not written
	since   time.Time // all that was committed before is written
}

// Run mirrors while this process has the lease, until fetch ends.
func (m *Mirror) Run(fetch, work context.Context) {
	flow.Follow(fetch, work, MirrorRole, m.Log, m.Stats, func(fetch, _ context.Context) error {
		err := m.session(fetch)
		if err != nil {
			m.Errors.Add(1)
		}
		return err
	})
}

// Lag returns how far the mirror is behind, if this process mirrors.
func (m *Mirror) Lag() (behind time.Duration, held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.held || !m.pending {
		return 0, m.held
	}
	return max(0, m.Clock.Now().Sub(m.since)), true
}

func (m *Mirror) note(held, pending bool, since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if held && !m.held || !since.IsZero() {
		if since.IsZero() {
			since = m.Clock.Now()
		}
		m.since = since
	}
	m.held, m.pending = held, pending
}

// session waits for the lease and mirrors until it changes. Then, and when
// fetch ends, it stops where it is: what it leaves half done is done again.
func (m *Mirror) session(fetch context.Context) error {
	held, _ := m.Leases.Held(MirrorRole)
	if len(held) == 0 {
		m.note(false, false, time.Time{})
		m.Leases.WaitForChange(fetch, MirrorRole, held)
		return nil
	}
	m.note(true, true, time.Time{}) // until the first look
	ctx, stop := m.Leases.While(fetch, MirrorRole, held)
	defer stop()
	if err := m.mirror(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// mirror is a session with the lease. It ends with an error, or with ctx.
func (m *Mirror) mirror(ctx context.Context) error {
	s := &mirroring{Mirror: m}
	if err := s.begin(ctx); err != nil {
		return err
	}
	for {
		began := time.Now()
		busy, err := s.turn(ctx)
		if err != nil {
			return err
		}
		rest := mirrorLook
		if busy {
			rest = mirrorRest
		}
		if sluice.Pause(ctx, max(mirrorLook/10, rest-time.Since(began))) != nil {
			return nil
		}
	}
}

// Off ends the mirror: no changes are noted any more. A process that is not
// configured to mirror does it when it starts, and makes the row that says so.
func (m *Mirror) Off(ctx context.Context) error {
	state, err := m.Store.MirrorState(ctx)
	if err != nil || state.Epoch == 0 {
		return err
	}
	m.Log.Warn("mirroring of the series has ended, since the configuration has no timeseries: the mirror stays unchanged, and is brought up to date when timeseries is set again")
	return m.Store.SetMirrorState(ctx, state, store.MirrorState{})
}

// mirroring is a session.
type mirroring struct {
	*Mirror
	state  store.MirrorState
	writes int64             // of this epoch
	from   *store.SeriesHour // where the look at all days goes on
}

// begin opens an epoch.
func (s *mirroring) begin(ctx context.Context) error {
	before, err := s.Store.MirrorState(ctx)
	if err != nil {
		return err
	}
	epoch, err := s.To.Begin(ctx)
	if err != nil {
		return err
	}
	if err := faults.Hit("mirror-epoch"); err != nil {
		return err
	}
	s.state = store.MirrorState{Epoch: epoch, Whole: before.Whole && before.Epoch > 0 && epoch == before.Epoch+1}
	if err := s.Store.SetMirrorState(ctx, before, s.state); err != nil {
		return err
	}
	if !s.state.Whole {
		s.Log.Info("all days of the series are mirrored, beside what changes", "epoch", epoch)
	}
	return nil
}

// turn writes what has changed and, until all days are written, some of them.
// busy: there was something.
func (s *mirroring) turn(ctx context.Context) (busy bool, err error) {
	if busy, err = s.changed(ctx); err != nil || s.state.Whole {
		return busy, err
	}
	days, next, err := s.Store.SeriesDays(ctx, s.from, mirrorHours)
	if err != nil {
		return busy, err
	}
	if err := s.write(ctx, days); err != nil {
		return busy, err
	}
	if s.from = next; next != nil {
		return busy, nil
	}
	whole := store.MirrorState{Epoch: s.state.Epoch, Whole: true}
	if err := s.Store.SetMirrorState(ctx, s.state, whole); err != nil {
		return busy, err
	}
	s.state = whole
	s.Log.Info("all days of the series are mirrored", "epoch", s.state.Epoch)
	return busy, nil
}

// changed goes once through the changes.
func (s *mirroring) changed(ctx context.Context) (some bool, err error) {
	began := s.Clock.Now()
	var after *store.SeriesChange
	for {
		changes, err := s.Store.SeriesChanges(ctx, after, mirrorPage)
		if err != nil {
			return some, err
		}
		if len(changes) == 0 {
			break
		}
		some = true
		s.note(true, true, time.Time{})
		if err := s.write(ctx, daysOf(changes)); err != nil {
			return some, err
		}
		if err := faults.Hit("mirror-settle"); err != nil {
			return some, err
		}
		if err := s.Store.SettleSeries(ctx, s.state.Epoch, changes); err != nil {
			return some, err
		}
		s.Stats.Fine(MirrorRole)
		if len(changes) < mirrorPage {
			break
		}
		after = &changes[len(changes)-1]
	}
	if s.state.Whole {
		s.note(true, false, began)
	}
	return some, nil
}

// daysOf returns the days of changes, with their stripes beside each other.
func daysOf(changes []store.SeriesChange) (days []store.SeriesDay) {
	for _, c := range changes {
		if len(days) == 0 || days[len(days)-1] != c.SeriesDay {
			days = append(days, c.SeriesDay)
		}
	}
	return days
}

// write brings days up to date.
func (s *mirroring) write(ctx context.Context, days []store.SeriesDay) error {
	if len(days) == 0 {
		return nil
	}
	totals, err := s.Store.DayTotals(ctx, days)
	if err != nil {
		return err
	}
	if totals, err = s.kept(ctx, totals); err != nil || len(totals) == 0 {
		return err
	}
	if s.writes++; s.writes >= mirrorPasses {
		return fmt.Errorf("%w: the epoch has no more versions; the next one begins", sluice.ErrConflict)
	}
	if err := faults.Hit("mirror-write"); err != nil {
		return err
	}
	return s.To.Set(ctx, s.state.Epoch*mirrorPasses+s.writes, totals)
}

// kept leaves out the days that are past their retention by any clock. It is
// asked after the totals were read: what was deleted before that, was deleted
// at an earlier time.
func (s *mirroring) kept(ctx context.Context, totals []store.DayTotals) ([]store.DayTotals, error) {
	if s.Keep.SeriesHours == 0 {
		return totals, nil
	}
	other, err := s.OtherClock(ctx)
	if err != nil {
		return nil, fmt.Errorf("compare the clock before days are mirrored: %w", err)
	}
	now := s.Clock.Now()
	if theirs := time.UnixMilli(other); theirs.After(now) {
		now = theirs
	}
	before, _ := ingest.Cutoff(s.Keep.SeriesHours, now)
	kept := totals[:0]
	for _, d := range totals {
		if d.DayMillis >= before {
			kept = append(kept, d)
		}
	}
	return kept, nil
}
