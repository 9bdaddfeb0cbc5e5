package run

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/step"
	"sluice/store"
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
	for rest := facts; len(rest) > 0; {
		told, large, err := p.tellFacts(ctx, rest)
		if err != nil {
			return false, err
		}
		rest = rest[told:]
		if large {
			p.more = true
			break
		}
	}
	return true, nil
}

// tellFacts tells journeys of the first ones of some facts, as many as one commit has room for,
// and says how many. large: of no more of them the profiles were read, which are that large.
func (p *part) tellFacts(ctx context.Context, facts []journey.Fact) (told int, large bool, err error) {
	c := p.begin()
	asked, room, err := c.concerned(ctx, facts)
	if err != nil {
		return 0, false, err
	}
	profiles, told, err := p.profilesOf(ctx, facts[:room], asked)
	if err != nil {
		return 0, false, err
	}
	facts = facts[:told]
	g := p.pageOf(facts, profiles, asked)
	if err := p.lookForRoom(ctx); err != nil {
		return 0, false, err
	}
	c.page = g
	for i := range facts {
		f := &facts[i]
		for _, in := range p.journeys {
			if err := c.tell(ctx, in, f); err != nil {
				return 0, false, err
			}
		}
		if last := i == len(facts)-1; last || c.full() && facts[i+1].Place != f.Place {
			c.notes = append(c.notes, p.log.Note(flow.FactsNote, placeText(f.Place)))
			if err := c.commit(ctx); err != nil {
				return 0, false, err
			}
			p.facts = f.Place
			c = p.begin()
			c.page = g
		}
	}
	p.stats.Told.Add(int64(told))
	return told, told < room, nil
}

// concerned finds whom facts may move, as their records are now: of the others no profile is
// read. Mostly it is few of those who do something that a journey waits for. room is how many of
// the facts have records that one commit keeps.
func (c *change) concerned(ctx context.Context, facts []journey.Fact) (asked map[int64]bool, room int, err error) {
	asked = make(map[int64]bool)
	for i := range facts {
		f := &facts[i]
		if i > 0 && c.full() && f.Place != facts[i-1].Place {
			return asked, i, nil
		}
		for _, in := range c.part.journeys {
			if asked[f.Number] {
				break
			}
			_, v, _, err := c.hears(ctx, in, f)
			if err != nil {
				return nil, 0, err
			}
			asked[f.Number] = v != nil
		}
	}
	return asked, len(facts), nil
}

// hears returns where a person is, and the version that moves the person by a fact; nil: no
// fact of its kind and name changes that. closed: by it nobody enters.
func (c *change) hears(ctx context.Context, in *inside, f *journey.Fact) (r journey.Record, v *version, closed bool, err error) {
	if in.deaf(f) {
		return r, nil, false, nil
	}
	r, ok, err := c.record(ctx, in, f.Number)
	if err != nil || !ok {
		return r, nil, false, err
	}
	r = r.AsOf(c.momentOf(f).Add(-time.Second)) // in the second of Due conversions still count
	v = in.entered(f)
	closed = v == nil
	switch {
	case r.State == journey.StateInside || r.State == journey.StateWatching:
		own := in.versions[r.Version]
		closed, v = closed || own != v, own
	case r.Converts() && v == nil:
		v = in.versionOf(&r) // these convert in a pause as those do who are inside
	}
	if v == nil || !v.walk.Concerns(&r, f) {
		return r, nil, closed, nil // nobody enters any more, or it waits for something else
	}
	return r, v, closed, nil
}

// momentOf is when a fact came: as of then it is asked where people are.
func (c *change) momentOf(f *journey.Fact) time.Time { return step.Moment(f, c.part.clock.Now()) }

// deaf reports whether a journey takes nothing from a fact, of whomever it is.
func (in *inside) deaf(f *journey.Fact) bool {
	return in.stopped || f.Kind == journey.FactEntered && f.Name != in.id || !in.wants(f)
}

// tell tells a journey of a fact.
func (c *change) tell(ctx context.Context, in *inside, f *journey.Fact) error {
	switch {
	case f.Kind == journey.FactPlace:
		return c.takeOver(ctx, in, f)
	case f.Kind == journey.FactMerged && !in.deaf(f):
		if moved, err := c.handOver(ctx, in, f); moved || err != nil {
			return err
		}
	}
	r, v, closed, err := c.hears(ctx, in, f)
	if v == nil || err != nil {
		return err
	}
	person := c.part.person(f.Number, r, "")
	if person.Profile, err = c.page.profileOf(ctx, c.part, f.Number); err != nil {
		return err
	}
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
		person.Record, person.Given.Context = r.AsOf(c.momentOf(f)), f.Properties()
	} else if c.out.Waited {
		person.Given.Context = c.out.Context
		c.keep(in, f.Number, now, cmp.Or(v.keeps.Of(c.out.Context), nothingKept))
	}
	return c.settle(ctx, in, v, []step.Person{person})
}
