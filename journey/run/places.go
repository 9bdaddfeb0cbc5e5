package run

import (
	"context"

	"sluice/flow"
	"sluice/journey"
	"sluice/journey/env"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/store"
	"sluice/user/rule"
)

// placeNeed is what a rule asks about where people are in a journey: the bit of
// rule.Given.Known answers it.
type placeNeed struct {
	rule.Need
	bit int
}

func placeNeedsOf(all []rule.Need) (needs []placeNeed) {
	for i, n := range all {
		if n.Journey != "" {
			needs = append(needs, placeNeed{n, i})
		}
	}
	return needs
}

// known sets what rules of a version ask about people beside their profiles. What those of
// another version were told, who come by a step of it, is forgotten: its bits mean other
// things.
func (c *change) known(ctx context.Context, v *version, people []step.Person) error {
	for i := range people {
		people[i].Given.Known, people[i].Ways = 0, nil
	}
	if err := c.part.known(ctx, v, people); err != nil {
		return err
	}
	return c.places(ctx, v, people)
}

// places answers what rules of a version ask about where people are, for a group of them
// by one statement for each journey. Records are in the partition of the person, and the
// change has those that it has changed: so the answer is as of this decision. A version
// that asks nothing costs nothing. A journey that was never published has nobody.
func (c *change) places(ctx context.Context, v *version, people []step.Person) error {
	for i := range v.where {
		n := &v.where[i]
		in := c.part.byID[n.Journey]
		if in == nil {
			continue
		}
		if err := in.load(ctx); err != nil {
			return err
		}
		if err := c.readPlaces(ctx, in, n.Passed(), people); err != nil {
			return err
		}
		for k := range people {
			one := &people[k]
			r, ok, err := c.record(ctx, in, one.ID.Number)
			if err != nil {
				return err
			}
			var ways []int
			if n.Passed() {
				if ways, err = c.waysOf(ctx, in, one.ID.Number); err != nil {
					return err
				}
				if n.Journey == v.walk.Plan().ID {
					one.Ways = ways
				}
			}
			if !ok {
				continue
			}
			holds, err := in.answers(ctx, c.part.store, &n.Need, &r, ways)
			if err != nil {
				return err
			}
			if holds {
				one.Given.Known |= 1 << n.bit
			}
		}
	}
	return nil
}

// load reads which records there are of a journey of which all versions have ended: it
// has no part in the session but for what is asked about its past.
func (in *inside) load(ctx context.Context) error {
	if in.loaded {
		return nil
	}
	err := in.records.Load(ctx, func(*flow.Unit) error { return nil })
	in.loaded = err == nil
	return err
}

// answers answers a question about somebody who has this record.
func (in *inside) answers(ctx context.Context, s store.JourneyStore, n *rule.Need, r *journey.Record, ways []int) (bool, error) {
	var p *plan.Plan
	if n.Passed() && r.State != journey.StateNone { // the others need none
		walk, err := in.walkOf(ctx, s, env.Anything{}, r)
		if walk == nil {
			return false, err
		}
		p = walk.Plan()
	}
	return p.Answers(n, r, ways), nil
}

// readPlaces reads the units that people are in.
func (c *change) readPlaces(ctx context.Context, in *inside, ways bool, people []step.Person) error {
	var units []*flow.Unit
	var last *flow.Unit
	for i := range people {
		if number := people[i].ID.Number; !last.Has(number) {
			last = in.records.Of(number)
			units = append(units, last)
			if ways {
				units = append(units, in.records.WaysOf(number))
			}
		}
	}
	return c.read(ctx, in, units)
}
