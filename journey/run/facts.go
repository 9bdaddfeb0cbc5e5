package run

import (
	"cmp"
	"context"
	"fmt"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/step"
	"sluice/store"
	"sluice/user"
)

// factsAtOnce is how many facts are read at once.
const factsAtOnce = 1024

// factsRead returns up to where the partition has read facts.
func (p *part) factsRead(ctx context.Context) (at sluice.Place, err error) {
	text, err := p.log.NoteOf(ctx, flow.FactsNote)
	if err != nil || text == "" {
		return sluice.Place{Partition: p.log.Partition(), Index: -1}, err
	}
	return parsePlace(p.log.Partition(), text)
}

// placeText and parsePlace have a place as a note: its position and index.
func placeText(at sluice.Place) string { return fmt.Sprintf("%s/%d", at.Position, at.Index) }

func parsePlace(partition int, text string) (at sluice.Place, err error) {
	at.Partition = partition
	if _, err = fmt.Sscanf(text, "%d-%d/%d", &at.Position.Major, &at.Position.Minor, &at.Index); err != nil {
		err = fmt.Errorf("read up to where facts were read in partition %d: %q is no place: %w", partition, text, err)
	}
	return at, err
}

// applyFacts tells journeys of some facts, and reports whether there were any. Facts
// are applied in their order, and a commit ends behind all of a place.
//
// The store writes facts for a version as soon as it is published. A session that does
// not know the version yet would pass them over. So the publish number is asked for after
// the facts were read: if it is that of the session, so are the facts.
func (p *part) applyFacts(ctx context.Context) (worked bool, err error) {
	facts, err := p.store.Facts(ctx, p.log.Partition(), p.facts, factsAtOnce)
	bytes := 0
	for i := range facts {
		bytes += len(facts[i].Body)
	}
	p.more = len(facts) >= factsAtOnce/2 || bytes >= store.FactsBytes
	if p.more {
		p.pages++
	}
	if err != nil || len(facts) == 0 {
		return false, err
	}
	if now, err := p.store.Published(ctx); err != nil {
		return false, err
	} else if now != p.published {
		return false, errChanged
	}
	profiles, told, err := p.profilesOf(ctx, facts)
	if err != nil {
		return false, err
	}
	if told < len(facts) {
		facts, p.more = facts[:told], true
	}
	g := p.pageOf(facts, profiles)
	if err := p.lookForRoom(ctx); err != nil {
		return false, err
	}
	c := p.begin()
	c.page = g
	for i := range facts {
		f := &facts[i]
		for _, in := range p.journeys {
			if err := c.tell(ctx, in, f, profiles); err != nil {
				return false, err
			}
		}
		if last := i == len(facts)-1; last || c.full() && facts[i+1].Place != f.Place {
			c.notes = append(c.notes, p.log.Note(flow.FactsNote, placeText(f.Place)))
			if err := c.commit(ctx); err != nil {
				return false, err
			}
			p.facts = f.Place
			c = p.begin()
			c.page = g
		}
	}
	p.stats.Told.Add(int64(len(facts)))
	return true, nil
}

// tell tells a journey of a fact.
func (c *change) tell(ctx context.Context, in *inside, f *journey.Fact, profiles map[user.ID]string) error {
	switch {
	case f.Kind == journey.FactPlace:
		return c.takeOver(ctx, in, f)
	case in.stopped, f.Kind == journey.FactEntered && f.Name != in.id, !in.wants(f):
		return nil
	case f.Kind == journey.FactMerged:
		if moved, err := c.handOver(ctx, in, f); moved || err != nil {
			return err
		}
	}
	r, ok, err := c.record(ctx, in, f.Number)
	if err != nil || !ok {
		return err
	}
	v := in.entered(f)
	closed := v == nil
	switch {
	case r.State == journey.StateInside || r.State == journey.StateWatching:
		v = in.versions[r.Version]
	case r.Converts() && v == nil:
		v = in.versionOf(&r) // these convert in a pause as those do who are inside
	}
	if v == nil {
		return nil // nobody enters any more
	}
	person := c.part.person(f.Number, r, "")
	person.Profile = profiles[person.ID]
	if of := in.versions[r.Version]; of != nil && of != v {
		person.Of = of.walk
	}
	if err := c.page.knownOf(ctx, c.part, v, &person); err != nil {
		return err
	}
	if err := c.page.contextOf(ctx, c, in, v, &person); err != nil {
		return err
	}
	one := []step.Person{person}
	if err := c.places(ctx, v, one); err != nil {
		return err
	}
	person = one[0]
	c.out.Room, c.out.Closed = c.roomOf(ctx, in, 0), closed
	c.second = uint32(f.Place.Position.Major / 1000)
	defer func() { c.second = 0 }()
	changed, err := c.walkOf(in, v).Fact(&person, f, c.part.clock.Now(), c.out)
	if err != nil {
		return fmt.Errorf("journey %s: %w", in.id, err)
	}
	if !changed {
		return nil
	}
	if r.Version == v.place { // what was taken of another one has other numbers
		if err := c.countPaths(ctx, in, v, f.Number); err != nil {
			return err
		}
	}
	if now := &c.out.Records[0]; now.Entered != r.Entered || now.Occurrence != r.Occurrence {
		person.Given.Context = f.Properties()
	} else if c.out.Waited {
		person.Given.Context = c.out.Context
		c.keep(in, f.Number, now, cmp.Or(v.keeps.Of(c.out.Context), nothingKept))
	}
	return c.settle(ctx, in, v, []step.Person{person})
}
