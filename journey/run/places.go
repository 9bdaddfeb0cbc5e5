package run

import (
	"context"

	"sluice/flow"
	"sluice/journey"
	"sluice/journey/step"
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
			if ok && in.answers(&n.Need, &r, ways) {
				one.Given.Known |= 1 << n.bit
			}
		}
	}
	return nil
}

// answers answers a question about somebody who has this record.
func (in *inside) answers(n *rule.Need, r *journey.Record, ways []int) bool {
	v := in.versions[r.Version]
	return v != nil && v.walk.Plan().Answers(n, r, ways)
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
