package run

import (
	"context"

	"sluice"
	"sluice/flow"
	"sluice/journey/step"
)

// ways returns the unit that has the ways of a person, read before or now.
func (c *change) ways(ctx context.Context, in *inside, number int64) (*flow.Unit, error) {
	u := in.records.WaysOf(number)
	if have := c.units[keyOf(in, u)]; have != nil {
		return have, nil
	}
	err := c.read(ctx, in, []*flow.Unit{u})
	return u, err
}

// keepWays notes which branches people took by the last decision. What those took before
// who have entered by it is forgotten. A version without branches has no ways.
func (c *change) keepWays(ctx context.Context, in *inside, v *version, people []step.Person) error {
	if v.walk.Plan().Branches == 0 {
		return nil
	}
	var units []*flow.Unit
	var last *flow.Unit // people come in the order of their numbers: few names of units are made
	touch := func(number int64) {
		if !last.Has(number) {
			last = in.records.WaysOf(number)
			units = append(units, last)
		}
	}
	for _, w := range c.out.Ways {
		touch(people[w.Person].ID.Number)
	}
	var entered []int64
	for i := range people {
		r, before := &c.out.Records[i], &people[i].Record
		if r.Entered != before.Entered || r.Occurrence != before.Occurrence {
			entered = append(entered, people[i].ID.Number)
			touch(people[i].ID.Number)
		}
	}
	if err := c.read(ctx, in, units); err != nil {
		return err
	}
	last = nil
	unit := func(number int64) *flow.Unit {
		if !last.Has(number) {
			last = c.units[keyOf(in, in.records.WaysOf(number))]
		}
		return last
	}
	for _, number := range entered {
		unit(number).ClearWays(number)
	}
	for _, w := range c.out.Ways {
		number := people[w.Person].ID.Number
		unit(number).Take(number, w.Branch)
	}
	return nil
}

// takeWays notes these branches of a person, and none beside.
func (c *change) takeWays(ctx context.Context, in *inside, number int64, branches []int) error {
	u, err := c.ways(ctx, in, number)
	if err != nil {
		return err
	}
	u.ClearWays(number)
	for _, branch := range branches {
		u.Take(number, branch)
	}
	return nil
}

// waysOf are the branches that a person took.
func (c *change) waysOf(ctx context.Context, in *inside, number int64) ([]int, error) {
	u, err := c.ways(ctx, in, number)
	return u.Taken(number), err
}

// readWays reads the ways of those at once for whose mails they have to be known.
func (c *change) readWays(ctx context.Context, in *inside, v *version, people []step.Person) error {
	var units []*flow.Unit
	var last *flow.Unit
	for _, did := range c.out.Mails {
		if number := people[did.Person].ID.Number; v.walk.AsksWays(did.Step) && !last.Has(number) {
			last = in.records.WaysOf(number)
			units = append(units, last)
		}
	}
	return c.read(ctx, in, units)
}

// variantOf is the path of a random step that a person took last before a message step.
func (c *change) variantOf(ctx context.Context, in *inside, v *version, p *step.Person, at int) (string, error) {
	if !v.walk.AsksWays(at) {
		return v.walk.Variant(at, nil), nil
	}
	ways, err := c.waysOf(ctx, in, p.ID.Number)
	return v.walk.Variant(at, ways), err
}

// countPaths counts the conversions of the last decision, of one person, by the paths of
// experiments that the person has taken.
func (c *change) countPaths(ctx context.Context, in *inside, v *version, number int64) error {
	if !v.walk.HasExperiments() {
		return nil
	}
	for k := range c.out.Counts {
		if k.What != step.Converted {
			continue
		}
		ways, err := c.waysOf(ctx, in, number)
		if err != nil {
			return err
		}
		for _, x := range v.walk.Experiments(ways) {
			name := v.walk.PathCountName(x, k.Path)
			if len(name) > sluice.MaxNameBytes { // four long ids: a series has no room for them
				continue
			}
			c.items = sluice.AppendCount(c.items, &sluice.Count{
				Kind: sluice.KindSystem, Name: name, TimeMillis: c.part.clock.Now().UnixMilli(), By: 1,
			})
		}
	}
	return nil
}
