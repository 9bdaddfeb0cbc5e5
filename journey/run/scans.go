package run

import (
	"context"
	"fmt"
	"time"

	"sluice/flow"
	"sluice/journey"
	"sluice/journey/step"
)

// scanPeople is how many people one commit of a scan looks at, and scanBytes is of how many
// bytes of profiles, and up to a profile more.
const (
	scanPeople = 2000
	scanBytes  = 32 << 20
)

// scanGroup is how many of them are decided about at once, at most: with the largest mails
// they come to some 500 KB for each message step before the first wait.
const scanGroup = 128

// scan lets the people of a partition into a journey that begins at times of its own.
//
// The idea. A run is named by its second. When one is due, all people of the partition
// are read in the order of their numbers, and those who may enter do; the note of how
// far that is moves in the same commit. So a run goes on where it was, and nobody is
// let in twice by it. A run that is still under way when the next is due is finished
// first. Of runs that were missed, while nothing ran or the journey was paused, only
// the last one is made up for. If that is later than lateRun, an operator decides (late_run.go).
//
// Who was accepted before the run is due is looked at by it: it begins when the horizon is
// there. Who is due by its second is out by then, or is not: it looks at nobody before all of
// them have moved, or awaitsFor has passed. Whom an earlier run keeps at a step for want of
// room is due too, and may be for days. Whom it keeps itself is due as of its second, so it
// waits at its begin alone. One that waits has not begun, and may be late.
type scan struct {
	last  int64     // the second of the last run
	after int64     // the number of the last person looked at by it; finished: the run is over
	next  time.Time // of the next run; zero: there is none
	times timetable

	decided int64 // the millisecond of the last decision about the journey that is known

	sweep *sweep // not nil: the time is that of each person's zone
}

// finished is what after is when a run is over.
const finished = journey.RunsFinished

// openScan reads how far the last run is. Before the first there is the publication. A run
// that was under way when another version was published goes on, and one that was due by
// then is made: timetable.
func (in *inside) openScan(fields map[string]string, published int64) error {
	times := in.timetable()
	if in.current == nil || times == nil {
		return nil
	}
	in.scan = &scan{last: times[0].from, after: finished, times: times, decided: decidedMillis(in.updated, published)}
	if err := in.scan.read(flow.NoteIn(fields, journey.RunsNote(in.number))); err != nil {
		return fmt.Errorf("journey %s: %w", in.id, err)
	}
	in.scan.skip(in.plans.skip / 1000)
	if in.scan.after == finished {
		in.scan.planOwed()
	}
	return nil
}

// planOwed is plan where a session begins: times that nobody has come to long before the last
// publish are passed over.
func (s *scan) planOwed() {
	s.last = max(s.last, s.times.published()-int64(sweepSpan/time.Second))
	s.plan()
}

// read reads the note. Without one nothing changes.
func (s *scan) read(text string) error {
	r, found, err := journey.ReadRuns(text)
	if !found {
		return err
	}
	s.last, s.after = r.Last, r.After
	if r.From != 0 {
		s.sweep = &sweep{from: r.From}
	}
	return nil
}

// note is what read reads.
func (s *scan) note(after int64) string {
	r := journey.Runs{Last: s.last, After: after}
	if s.sweep != nil {
		r.From = s.sweep.from
	}
	return r.Text()
}

// plan finds when the next run is. None is under way.
func (s *scan) plan() {
	switch {
	case !s.times.sweeps(s.last):
		s.sweep = nil
		s.next, _ = s.times.next(s.last, nil)
	default:
		s.next = s.planSweep()
	}
}

// due begins a run if one is due, and reports whether one is under way.
func (s *scan) due(now time.Time) bool {
	if s.after != finished {
		return true
	}
	if s.sweep != nil && !s.next.IsZero() && !s.next.After(now) {
		s.sweep.begin(s.last)
		s.last, s.after = now.Unix(), 0
	}
	for s.sweep == nil && !s.next.IsZero() && !s.next.After(now) {
		s.last, s.after = s.next.Unix(), 0
		s.next, _ = s.times.next(s.last, nil)
	}
	return s.after != finished
}

// scanOn lets some more people in, and reports whether a run is under way.
func (p *part) scanOn(ctx context.Context, in *inside) (worked bool, err error) {
	if in.scan == nil || in.current == nil {
		return false, nil
	}
	if at := p.horizon.at(); in.scan.awaits(in.dues.next(), at) || !in.scan.due(at) {
		return false, nil
	}
	var people []step.Person
	looked, end, bytes := 0, int64(0), 0
	err = p.store.EachProfile(ctx, p.log.Partition(), in.scan.after, scanPeople, func(number int64, profile string) bool {
		looked, end, bytes = looked+1, number, bytes+len(profile)
		if at, due := in.scan.entry(profile); due {
			one := p.person(number, journey.Record{}, profile)
			one.EnteredAt = at
			people = append(people, one)
		}
		return bytes < scanBytes
	})
	if err != nil {
		return false, err
	}
	after := int64(finished)
	if looked == scanPeople || bytes >= scanBytes {
		after = end
	}
	c := p.begin()
	c.byRun = true
	for len(people) > 0 {
		some := people[:in.current.ofOneRun(people, min(len(people), scanGroup, in.current.atOnce))]
		people = people[len(some):]
		last := some[len(some)-1].ID.Number
		if err := c.enter(ctx, in, some, some[0].EnteredAt); err != nil {
			return false, err
		}
		if c.full() && len(people) > 0 {
			after = last
			break
		}
	}
	c.notes = append(c.notes, p.log.Note(journey.RunsNote(in.number), in.scan.note(after)))
	if err := c.commit(ctx); err != nil {
		return false, err
	}
	if in.scan.after = after; after == finished {
		in.scan.plan()
		in.occupied.changed = true // for what it owes no version
	}
	return true, nil
}

// awaitsFor is for how long a run waits for those who are due by its second.
const awaitsFor = 10 * time.Minute

// awaits reports whether a run that is to begin by now has to wait, where the next people who
// move are due at a second: not behind that of the run, or the first moment of a sweep.
func (s *scan) awaits(due uint32, now time.Time) bool {
	if s.after != finished || s.next.IsZero() || s.next.After(now) || now.Sub(s.next) >= awaitsFor {
		return false
	}
	last := s.next
	for s.sweep == nil {
		next, ok := s.times.next(last.Unix(), nil)
		if !ok || next.After(now) {
			break
		}
		last = next
	}
	return int64(due) <= last.Unix()
}

// scans reports whether a run is under way, or is to begin by now.
func (in *inside) scans(now time.Time) bool {
	return in.scan != nil && (in.scan.after != finished || !in.scan.next.IsZero() && !in.scan.next.After(now))
}
