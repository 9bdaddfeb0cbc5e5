package run

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
)

// scanPeople is how many people one commit of a scan looks at.
const scanPeople = 2000

// scanGroup is how many of them are decided about at once: with the largest mails they
// come to some 500 KB for each message step before the first wait.
const scanGroup = 128

// scan lets the people of a partition into a journey that begins at times of its own.
//
// The idea. A run is named by its second. When one is due, all people of the partition
// are read in the order of their numbers, and those who may enter do; the note of how
// far that is moves in the same commit. So a run goes on where it was, and nobody is
// let in twice by it. A run that is still under way when the next is due is finished
// first. Of runs that were missed, while nothing ran or the journey was paused, only
// the last one is made up for.
type scan struct {
	last  int64     // the second of the last run
	after int64     // the number of the last person looked at by it; finished: the run is over
	next  time.Time // of the next run; zero: there is none

	sweep *sweep // not nil: the time is that of each person's zone
}

// finished is what after is when a run is over.
const finished = -1

// scanNote names the note of a journey's scan.
func scanNote(number int64) string { return "scan:" + strconv.FormatInt(number, 10) }

// openScan reads how far the last run is. Before the first there is the publication.
func (p *part) openScan(ctx context.Context, in *inside) error {
	if in.current == nil || len(schedules(in.current)) == 0 {
		return nil
	}
	text, err := p.log.NoteOf(ctx, scanNote(in.number))
	if err != nil {
		return err
	}
	in.scan = &scan{last: in.current.publishedMillis / 1000, after: finished}
	if text != "" {
		if err := in.scan.read(text); err != nil {
			return fmt.Errorf("journey %s: read how far its last run is: %q: %w", in.id, text, err)
		}
		if published := in.current.publishedMillis / 1000; in.scan.last < published && !in.scan.goesOn(in.current) { // of another version
			*in.scan = scan{last: published, after: finished}
		}
	}
	in.scan.plan(in.current)
	return nil
}

// goesOn reports whether a run of another version is under way that this one finishes:
// those whom it has not looked at are not forgotten by a publish. A sweep begins anew,
// since each version has zones and times of its own.
func (s *scan) goesOn(v *version) bool {
	return s.after != finished && s.sweep == nil && !schedules(v)[0].Zone.User
}

// read reads a note: the second of the last run, the number of the last person, and of
// a sweep the second from which on it looks.
func (s *scan) read(text string) (err error) {
	all := [3]int64{0, 0, 0}
	for i, part := range strings.SplitN(text, "/", len(all)) {
		if all[i], err = strconv.ParseInt(part, 10, 64); err != nil {
			return err
		}
	}
	s.last, s.after = all[0], all[1]
	if all[2] != 0 {
		s.sweep = &sweep{from: all[2]}
	}
	return nil
}

// note is what read reads.
func (s *scan) note(after int64) string {
	text := fmt.Sprintf("%d/%d", s.last, after)
	if s.sweep != nil {
		text += fmt.Sprintf("/%d", s.sweep.from)
	}
	return text
}

// schedules are the times at which a version lets people in.
func schedules(v *version) (all []*plan.Schedule) {
	for i := range v.walk.Plan().Entry.When {
		if on := &v.walk.Plan().Entry.When[i]; on.Kind == plan.OnSchedule {
			all = append(all, on.At)
		}
	}
	return all
}

// plan finds when the next run is.
func (s *scan) plan(v *version) {
	s.next = time.Time{}
	if at := schedules(v)[0]; at.Zone.User {
		s.next = s.planSweep(at)
		return
	}
	for _, at := range schedules(v) {
		if next, ok := at.Next(time.Unix(s.last, 0), nil); ok && (s.next.IsZero() || next.Before(s.next)) {
			s.next = next
		}
	}
}

// due begins a run if one is due, and reports whether one is under way.
func (s *scan) due(v *version, now time.Time) bool {
	if s.after != finished {
		return true
	}
	if s.sweep != nil && !s.next.IsZero() && !s.next.After(now) {
		s.sweep.begin(s.last)
		s.last, s.after = now.Unix(), 0
	}
	for s.sweep == nil && !s.next.IsZero() && !s.next.After(now) {
		s.last, s.after = s.next.Unix(), 0
		s.plan(v)
	}
	return s.after != finished
}

// scanOn lets some more people in, and reports whether a run is under way.
func (p *part) scanOn(ctx context.Context, in *inside) (worked bool, err error) {
	if in.scan == nil || in.current == nil || !in.scan.due(in.current, p.clock.Now()) {
		return false, nil
	}
	var people []step.Person
	looked, end := 0, int64(0)
	err = p.store.EachProfile(ctx, p.log.Partition(), in.scan.after, scanPeople, func(number int64, profile string) bool {
		looked, end = looked+1, number
		if at, due := in.scan.entry(in.current, profile); due {
			one := p.person(number, journey.Record{}, profile)
			one.EnteredAt = at
			people = append(people, one)
		}
		return true
	})
	if err != nil {
		return false, err
	}
	after := int64(finished)
	if looked == scanPeople {
		after = end
	}
	c := p.begin()
	for len(people) > 0 {
		some := people[:min(len(people), scanGroup)]
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
	c.notes = append(c.notes, p.log.Note(scanNote(in.number), in.scan.note(after)))
	if err := c.commit(ctx); err != nil {
		return false, err
	}
	if in.scan.after = after; after == finished && in.scan.sweep != nil {
		in.scan.plan(in.current)
	}
	return true, nil
}

// scans reports whether a run is under way, or is to begin by now.
func (in *inside) scans(now time.Time) bool {
	return in.scan != nil && (in.scan.after != finished || !in.scan.next.IsZero() && !in.scan.next.After(now))
}
