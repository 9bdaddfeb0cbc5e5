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
		last, after, found := strings.Cut(text, "/")
		var errs [2]error
		in.scan.last, errs[0] = strconv.ParseInt(last, 10, 64)
		in.scan.after, errs[1] = strconv.ParseInt(after, 10, 64)
		if !found || errs[0] != nil || errs[1] != nil {
			return fmt.Errorf("journey %s: read how far its last run is: %q is no second and number", in.id, text)
		}
		if published := in.current.publishedMillis / 1000; in.scan.last < published { // of another version
			in.scan.last, in.scan.after = published, finished
		}
	}
	in.scan.plan(in.current)
	return nil
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
	for !s.next.IsZero() && !s.next.After(now) {
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
	err = p.store.EachProfile(ctx, p.log.Partition(), in.scan.after, scanPeople, func(number int64, profile string) bool {
		one := p.person(number, journey.Record{}, profile)
		one.EnteredAt = uint32(in.scan.last)
		people = append(people, one)
		return true
	})
	if err != nil {
		return false, err
	}
	after := int64(finished)
	if len(people) == scanPeople {
		after = people[len(people)-1].ID.Number
	}
	c := p.begin()
	for len(people) > 0 {
		some := people[:min(len(people), scanGroup)]
		people = people[len(some):]
		last := some[len(some)-1].ID.Number
		if err := c.enter(ctx, in, some); err != nil {
			return false, err
		}
		if c.full() && len(people) > 0 {
			after = last
			break
		}
	}
	c.notes = append(c.notes, p.log.Note(scanNote(in.number), fmt.Sprintf("%d/%d", in.scan.last, after)))
	if err := c.commit(ctx); err != nil {
		return false, err
	}
	in.scan.after = after
	return true, nil
}

// scans reports whether a run is under way, or is to begin by now.
func (in *inside) scans(now time.Time) bool {
	return in.scan != nil && (in.scan.after != finished || !in.scan.next.IsZero() && !in.scan.next.After(now))
}
