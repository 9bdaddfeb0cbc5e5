package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/flow"
	"sluice/journey"
	"sluice/journey/step"
)

// moveOn moves people of a journey whom the rate of mails has waiting, and others who are
// due, few people at most.
func (p *part) moveOn(ctx context.Context, in *inside, few int) (worked bool, err error) {
	defer p.crowd.grant(nil)
	for _, move := range [...]func(context.Context, *inside, int) (bool, error){p.moveMails, p.moveDue} {
		if few == unbounded {
			p.crowd.grant(in)
		}
		moved, err := move(ctx, in, few)
		if worked = worked || moved; err != nil {
			return worked, err
		}
	}
	return worked, nil
}

// moveDue works off some units of a journey in which somebody is due, few people at most,
// and reports whether there were any.
func (p *part) moveDue(ctx context.Context, in *inside, few int) (worked bool, err error) {
	if len(in.ready) == 0 {
		in.ready = in.dues.take(p.horizon.second, queuedUnits)
	}
	if len(in.ready) == 0 {
		return false, nil
	}
	most := cmp.Or(in.atOnce, unitsAtOnce)
	if few < unbounded {
		most = 1
	}
	firsts := in.ready[:min(most, len(in.ready))]
	done, moved, err := p.moveUnits(ctx, in, firsts, few, false)
	in.ready = in.ready[done:]
	switch {
	case few < unbounded:
	case p.crowd.spent(), done < len(firsts):
		in.atOnce = max(done, 1)
	default:
		in.atOnce = min(unitsAtOnce*flow.BlockRecords*len(firsts)/max(moved, 1), unitsAtMost)
	}
	return true, err
}

// moveUnits moves the people of some units who are due: those whom the rate of mails has
// waiting, or the others; few at most, or until their mails are spent. The first done of
// the units need not be looked at again.
func (p *part) moveUnits(ctx context.Context, in *inside, firsts []int64, few int, paced bool) (done, moved int, err error) {
	now := p.clock.Now()
	slices.Sort(firsts) // a turn may go on from the last to the first: profiles are read in one order
	var pacedIn *inside
	if paced {
		pacedIn = in
	}
	c := p.begin()
	c.paced = pacedIn
	units := make([]*flow.Unit, len(firsts))
	for i := range units {
		units[i] = in.records.Of(firsts[i])
	}
	if err := c.read(ctx, in, units); err != nil {
		return 0, 0, err
	}
	var people []step.Person // whose units the change has read
	for i, u := range units {
		if u, err = c.unit(ctx, in, u.First()); err != nil { // again, if it was read before a commit
			return done, moved, err
		}
		people = append(people, p.waiting(in, u, paced)...)
		people = people[:min(len(people), few-moved)]
		if len(people) < flow.BlockRecords && i < len(units)-1 {
			continue
		}
		n, err := p.moveGroups(ctx, c, in, people, now)
		if moved += n; err != nil {
			return done, moved, err
		}
		if n < len(people) {
			break
		}
		done, people = i+1, people[:0]
		if p.crowd.spent() {
			break
		}
		if c.full() && i < len(units)-1 {
			if err := c.commit(ctx); err != nil {
				return done, moved, err
			}
			c = p.begin()
			c.paced = pacedIn
		}
	}
	return done, moved, c.commit(ctx)
}

// moveGroups moves people, the first of them if their mails are spent, or the change has as
// much as it may.
func (p *part) moveGroups(ctx context.Context, c *change, in *inside, people []step.Person, now time.Time) (moved int, err error) {
	for group := range in.groups(people) {
		for len(group) > 0 {
			if p.crowd.spent() || moved > 0 && c.heavy() {
				return moved, nil
			}
			n, err := p.moveGroup(ctx, c, in, group, now)
			if err != nil {
				return moved, err
			}
			for i := range group[:n] {
				group[i].Profile = "" // the next ones have theirs
			}
			moved, group = moved+n, group[n:]
		}
	}
	return moved, nil
}

// overdue reports whether somebody's time came before the journey was resumed without the
// messages of then, or the person has come from a journey of which that is true (rankSkips).
func (j *plans) overdue(r *journey.Record) bool {
	if r.Due != 0 && int64(r.Due)*1000 <= j.skip {
		return true
	}
	v := j.versions[r.Version]
	return r.Rank == rankSkips && v != nil && v.rests(r)
}

// groups cuts people into groups of one version, who are all overdue or all not, as many
// as are decided about at once.
func (j *plans) groups(people []step.Person) func(yield func([]step.Person) bool) {
	kind := func(p *step.Person) int {
		if j.overdue(&p.Record) {
			return int(p.Record.Version)*2 + 1
		}
		return int(p.Record.Version) * 2
	}
	slices.SortStableFunc(people, func(a, b step.Person) int { return cmp.Compare(kind(&a), kind(&b)) })
	return func(yield func([]step.Person) bool) {
		for len(people) > 0 {
			n, most := 1, step.MaxPeople
			if v := j.versions[people[0].Record.Version]; v != nil {
				most = v.atOnce
			}
			for n < min(len(people), most) && kind(&people[n]) == kind(&people[0]) {
				n++
			}
			if !yield(people[:n]) {
				return
			}
			people = people[n:]
		}
	}
}

// moveGroup moves people of one version, the first n of them if their profiles are large.
func (p *part) moveGroup(ctx context.Context, c *change, in *inside, group []step.Person, now time.Time) (n int, err error) {
	v := in.versions[group[0].Record.Version]
	if v == nil {
		p.stats.Lost.Add(int64(len(group)))
		return len(group), c.postpone(ctx, in, group, now)
	}
	if in.stopped {
		c.moved += len(group)
		v.walk.Stop(group, now, c.out)
		return len(group), c.settle(ctx, in, v, group)
	}
	if n, err = p.readProfiles(ctx, group); err != nil {
		return 0, err
	}
	group = group[:n]
	c.moved += n
	if err := c.known(ctx, v, group); err != nil {
		return 0, err
	}
	if err := c.contexts(ctx, in, v, group); err != nil {
		return 0, err
	}
	walk := c.dueWalkOf(in, v)
	if c.overdue = in.overdue(&group[0].Record); c.overdue {
		walk = v.skips
	}
	if err := walk.Due(group, now, c.out); err != nil {
		return 0, fmt.Errorf("journey %s: %w", in.id, err)
	}
	return n, c.settle(ctx, in, v, group)
}
