package run

import (
	"context"
	"strconv"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey/step"
)

// nextCommit is what the partition's next commit is known by.
func (p *part) nextCommit() sluice.Position {
	return sluice.Position{Major: p.at.Major + 1, Minor: p.session}
}

// roomOf returns what takes room in a journey for people who enter by the commit in the
// making; nil: the journey lets all in. run is the second of the run that lets them in.
func (c *change) roomOf(ctx context.Context, in *inside, run uint32) func(int) (int, error) {
	if in.current == nil || len(in.current.limits(time.Time{}, run)) == 0 {
		return nil
	}
	return func(want int) (int, error) { return c.part.takeRoom(ctx, in, run, want) }
}

// limited reports whether anything bounds how many people enter a version.
func (v *version) limited() bool {
	e := &v.walk.Plan().Entry
	return e.Total > 0 || e.PerDay > 0 || e.PerRun > 0
}

// takeRoom takes room in a journey for people who want to enter. The next commit notes it.
func (p *part) takeRoom(ctx context.Context, in *inside, run uint32, want int) (int, error) {
	limits := in.current.limits(p.clock.Now(), run)
	n, err := p.log.Enter(ctx, in.number, p.session, want, limits)
	if err == nil && n > 0 {
		for _, l := range limits {
			in.let.add(l.Name, l.Period, int64(n))
		}
		in.letMore = true
	}
	return n, err
}

// limits are the bounds of a version on people who enter now, by a run or by what happens
// (0). In a run of each person's zone they are those of a day of UTC.
func (v *version) limits(now time.Time, run uint32) (all []flow.EntryLimit) {
	e := &v.walk.Plan().Entry
	if e.Total > 0 {
		all = append(all, flow.EntryLimit{Name: "total", Period: "ever", Most: e.Total})
	}
	if e.PerDay > 0 {
		all = append(all, flow.EntryLimit{Name: "day", Period: now.UTC().Format(time.DateOnly), Most: e.PerDay})
	}
	if e.PerRun > 0 && run != 0 {
		all = append(all, flow.EntryLimit{Name: "run", Period: v.period(run), Most: e.PerRun})
	}
	return all
}

// period names the run of a second for its limit.
func (v *version) period(run uint32) string {
	if at := v.schedule(); at != nil && at.Zone.User {
		return time.Unix(int64(run), 0).UTC().Format(time.DateOnly)
	}
	return strconv.FormatUint(uint64(run), 10)
}

// ofOneRun is how many of the first people share the limit of a run: one sweep may find
// moments of two days.
func (v *version) ofOneRun(people []step.Person, most int) int {
	if at := v.schedule(); at == nil || !at.Zone.User || v.walk.Plan().Entry.PerRun == 0 {
		return most
	}
	first := v.period(people[0].EnteredAt)
	for n := 1; n < most; n++ {
		if v.period(people[n].EnteredAt) != first {
			return n
		}
	}
	return most
}
