package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/store"
)

// lateRun is how late a run begins by itself. One that is later, since all was down or its
// partition could not be reached, may be of no use any more. It is as long as a time takes to
// come in all zones, so of runs of every day none is so late: the last one is made.
const lateRun = sweepSpan

// late is the time of the run that is to begin, if it is later than lateRun; zero: it is not,
// or none is to begin. A journey that was published or resumed
// less than lateRun ago has been decided about (decidedMillis).
// A run that is under way goes on. One that waits for room, since mail has to wait for days
// until it leaves, is as late as any other, and so it is in each session.
func (s *scan) late(now time.Time, decidedMillis int64) time.Time {
	if s.after != finished || s.next.IsZero() || s.next.After(now) || now.Sub(s.next) <= lateRun {
		return time.Time{}
	}
	at := s.times.lastIn(s.last, now)
	if at.IsZero() || now.Sub(at) <= lateRun || now.Sub(time.UnixMilli(decidedMillis)) <= lateRun {
		return time.Time{}
	}
	return at
}

// askLate asks about a run that is late, and reports whether none may begin.
func (p *part) askLate(ctx context.Context, in *inside) (held bool, err error) {
	if in.scan == nil || in.current == nil {
		return false, nil
	}
	at := in.scan.late(p.horizon.at(), in.scan.decided)
	if at.IsZero() {
		return false, nil
	}
	return true, p.holdLate(ctx, in, at)
}

// lastIn is the last time behind a second and up to now, in the zone in which that is longest
// ago; zero: there is none.
func (t timetable) lastIn(after int64, now time.Time) (first time.Time) {
	for hours := -12; hours <= 14; hours++ {
		zone, last := time.FixedZone("", hours*3600), time.Time{}
		for at, ok := t.next(after, zone); ok && !at.After(now); at, ok = t.next(at.Unix(), zone) {
			last = at
		}
		if !last.IsZero() && (first.IsZero() || last.Before(first)) {
			first = last
		}
	}
	return first
}

// skip passes over runs up to a second: the journey was resumed without what was due by then.
func (s *scan) skip(until int64) {
	if s.last < until {
		s.last, s.after = until, finished
	}
}

// holdLate pauses a journey of which a run is late, and says why. Who resumes it decides: the
// run is made then, or passed over.
func (p *part) holdLate(ctx context.Context, in *inside, at time.Time) error {
	j, err := p.store.Journey(ctx, in.id)
	if sluice.IsNotFound(err) || err == nil && j.Status != journey.StatusLive {
		return nil // the session ends
	}
	if err != nil {
		return err
	}
	published, err := p.store.Published(ctx) // behind the journey: it has the last decision
	if err != nil {
		return err
	}
	decided := decidedMillis(j.UpdatedMillis, published)
	if in.scan.late(p.horizon.at(), decided).IsZero() {
		in.decided(&j, decided)
		return nil
	}
	now := p.clock.Now()
	j.Status, j.UpdatedMillis = journey.StatusPaused, now.UnixMilli()
	j.Hold = fmt.Sprintf("people were to enter at %s, and that is %s ago: resume it with overdue send, and they enter now; or with skip, and they do not", at.UTC().Format(time.RFC3339), now.Sub(at).Round(time.Minute))
	_, err = p.store.PutStatus(ctx, j)
	if errors.Is(err, sluice.ErrConflict) {
		return nil // another one has done it, or somebody changes it: the next look tells
	}
	if err == nil {
		p.say("a journey was paused: a run of it is late, and an operator decides whether it is made", nil, "journey", j.ID, "due", at.UTC().Format(time.RFC3339))
	}
	return err
}

// decided goes on with a run that somebody has decided about since the session read the
// journey. If what is due is left out, or another version is the newest one, the session is
// about to end, and its successor knows.
func (in *inside) decided(j *store.Journey, millis int64) {
	if j.SkipUntilMillis == in.skip && j.Version == in.newest {
		in.scan.decided = millis
	}
}

// decidedMillis is the last millisecond in which somebody may have decided about a journey, by
// when its row changed and by the publish number. The row changes with the draft too. The number
// does not, but it rises with each decision about any journey, and with the end of a version.
// A draft that is saved counts as a decision where both have changed since.
func decidedMillis(updated, published int64) int64 { return min(updated, published) }
