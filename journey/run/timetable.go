package run

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"sluice/flow"
	"sluice/journey"
	"sluice/journey/plan"
)

// timetable is when a journey lets people in at times of its own: by each of its versions
// from its publish up to that of the next one.
//
// The idea. A partition may come to a run late: its process has died, its lanes are
// crowded, its store is behind. Another version may be published meanwhile. The run was
// due before that all the same, and other partitions have made it. So what is due is asked
// of the version that was the last one then, and people enter the one of now.
//
// A version whose next one has ended owes nothing any more, for that one ended only when
// neither did (occupied). So no time of the one that has ended is taken for its.
//
// What was dropped. To have only runs that were begun go on: a partition that is late has begun none.
type timetable []tenure

// tenure is the time in which a version was the last one: behind a second, up to another.
type tenure struct {
	at          *plan.Schedule // nil: the version lets nobody in at times
	from, until int64
}

// timetable is that of the versions in use; nil: none lets anybody in at times.
func (j *plans) timetable() (t timetable) {
	all := make([]*version, 0, len(j.versions))
	for _, v := range j.versions {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b *version) int { return cmp.Compare(a.number, b.number) })
	some := false
	for i, v := range all {
		x := tenure{at: v.schedule(), from: v.publishedMillis / 1000, until: math.MaxInt64}
		if i < len(all)-1 {
			x.until = all[i+1].publishedMillis / 1000
			if all[i+1].number != v.number+1 {
				x.at = nil // the next one has ended
			}
		}
		t, some = append(t, x), some || x.at != nil
	}
	if !some {
		return nil
	}
	return t
}

// schedule is when a version lets people in: it has no other trigger then. nil: it has none.
func (v *version) schedule() *plan.Schedule {
	for i := range v.walk.Plan().Entry.When {
		if on := &v.walk.Plan().Entry.When[i]; on.Kind == plan.OnSchedule {
			return on.At
		}
	}
	return nil
}

// next is the first time behind a second at which somebody of a zone enters; false: there
// is none.
func (t timetable) next(after int64, own *time.Location) (time.Time, bool) {
	for _, x := range t {
		if x.at == nil || x.until <= after {
			continue
		}
		if at, ok := x.at.Next(time.Unix(max(after, x.from), 0), own); ok && at.Unix() <= x.until {
			return at, true
		}
	}
	return time.Time{}, false
}

// first is where sweeps behind a second begin: a time comes in all zones within sweepSpan.
// False: nobody's time is in the tenure any more.
func (x *tenure) first(last int64) (time.Time, bool) {
	if x.at == nil || x.until <= last {
		return time.Time{}, false
	}
	end, ok := x.at.Next(time.Unix(max(last, x.from), 0), west)
	first := end.Add(-sweepSpan)
	return first, ok && first.Unix() <= x.until
}

// sweeps reports whether what is to come behind a second is of each person's zone.
func (t timetable) sweeps(last int64) bool {
	return slices.ContainsFunc(t, func(x tenure) bool {
		_, left := x.first(last)
		return x.at != nil && x.at.Zone.User && (left || x.until == math.MaxInt64)
	})
}

// published is when the version of now was.
func (t timetable) published() int64 { return t[len(t)-1].from }

// owes reports whether the scan of a journey needs versions before the one of now. A run of
// theirs that is under way does: without a version that has times there is no scan.
func (in *inside) owes() bool {
	s := in.scan
	switch {
	case s == nil:
		return false
	case s.after != finished && s.sweep != nil:
		return s.sweep.from < s.times.published()
	case s.after != finished:
		return s.last <= s.times.published()
	}
	return !s.next.IsZero() && s.next.Unix() <= s.times.published()
}

// passOver notes of journeys that are paused that times of before a publish do not come any
// more, if the publish came in the pause. A run that is under way goes on behind the pause, and
// needs its versions until then. So it is with one that was due by a publish before the pause.
func (p *part) passOver(ctx context.Context, fields map[string]string) error {
	c := p.begin()
	for _, in := range p.journeys {
		times := in.timetable()
		if !in.paused || times == nil {
			continue
		}
		s := scan{last: times[0].from, after: finished, times: times}
		if err := s.read(flow.NoteIn(fields, journey.RunsNote(in.number))); err != nil {
			return err
		}
		if s.after != finished {
			in.scan = &s
			continue
		}
		if in.pausedLater() {
			s.skip(in.plans.skip / 1000)
			s.planOwed()
			in.scan = &s
			continue
		}
		if s.last < times.published() {
			s.last = times.published()
			c.notes = append(c.notes, p.log.Note(journey.RunsNote(in.number), s.note(finished)))
		}
	}
	return c.commit(ctx)
}

// pausedLater reports whether a journey was paused behind its last publish, by hand or for its
// mail. Where a draft was saved behind a publish in the pause it says so too. Then times of
// before the publish count as owed, unless a session has passed over them before.
func (j *plans) pausedLater() bool {
	newest := j.versions[uint8(j.newest)]
	return newest != nil && j.restored == 0 && j.updated > newest.publishedMillis
}
