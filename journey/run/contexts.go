package run

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/step"
	"sluice/store"
)

const (
	// contextsKept is how long contexts stay in hand after the store has them: a database
	// that goes back by less has them no more.
	contextsKept = time.Minute

	// contextsBytes bounds what stays in hand of a partition although the store has it.
	contextsBytes = 4 << 20
)

// contexts is what people entered with, as far as the store may not have it yet.
//
// The idea. The commit by which a person enters, and then waits, has an item with those
// members of the context that the version looks at later. The store makes a row of it,
// which is read when the person goes on. Who goes on before the store has come so far is
// found in hand. The commit by which a person leaves has an item too: the row goes a day
// later, for a Redis that goes back may have the person inside again.
//
// The invariants. Records and contexts change in one commit. A session begins to move
// people when the store has passed the end that the log had when it began: what its
// predecessor had in hand is in the table then. A version that looks at no context behind
// a wait costs nothing.
//
// What was dropped. Contexts in Redis beside the records: up to 4 KiB a person. A row that
// the journey follower writes itself before its commit: a database that goes back loses it
// for good, while the log has the item again. To keep the fact: it has all properties, and
// a merge would have to find it.
type contexts struct {
	asks  bool            // some version keeps contexts
	end   sluice.Position // of the log when the session began
	ready bool            // the store has passed it

	passed sluice.Position // by the store, as far as is known
	hand   map[personOf]held
	order  []personOf // as they were added; one that is in hand anew is there twice
	bytes  int
}

// personOf is somebody in a journey.
type personOf struct {
	in     *inside
	number int64
}

func (k personOf) compare(other personOf) int {
	return cmp.Or(cmp.Compare(k.in.number, other.in.number), cmp.Compare(k.number, other.number))
}

// held is a context in hand.
type held struct {
	journey.Kept
	at     sluice.Position // of its item
	millis int64
}

func (p *part) openContexts(ctx context.Context) (err error) {
	p.contexts = contexts{ready: true, hand: make(map[personOf]held)}
	for _, in := range p.journeys {
		for _, v := range in.versions {
			in.keeps = in.keeps || v.keeps.Any()
		}
		p.contexts.asks = p.contexts.asks || in.keeps
	}
	if p.contexts.asks {
		p.contexts.ready = false
		p.contexts.end, err = p.log.Last(ctx)
	}
	return err
}

// contextsReady reports whether contexts can be read by now.
func (p *part) contextsReady(ctx context.Context) (ready bool, err error) {
	x := &p.contexts
	if !x.ready {
		x.ready, err = p.stored(ctx, x.end)
	}
	return x.ready, err
}

// contextsOf is what people entered a journey with, by their numbers.
type contextsOf map[int64]journey.Kept

// readContexts reads what people entered a journey with, from the database.
func (p *part) readContexts(ctx context.Context, in *inside, people []step.Person) (contextsOf, error) {
	all := make(contextsOf)
	numbers := make([]int64, len(people))
	for i := range people {
		numbers[i] = people[i].ID.Number
	}
	for some := range slices.Chunk(numbers, store.MaxContexts) {
		kept, err := p.store.Contexts(ctx, p.log.Partition(), in.number, some)
		if err != nil {
			return nil, err
		}
		for _, k := range kept {
			all[k.Number] = k
		}
	}
	return all, nil
}

// contexts sets what people who are inside entered with, if their version looks at it.
func (c *change) contexts(ctx context.Context, in *inside, v *version, people []step.Person) error {
	if !v.keeps.Any() {
		return nil
	}
	read, err := c.part.readContexts(ctx, in, people)
	for i := range people {
		c.contextOf(in, &people[i], read)
	}
	return err
}

// contextOf sets what a person who is inside entered with: as this change, the hand or the
// database has it. A row that says that the person has left is of before Redis went back:
// it is written anew.
func (c *change) contextOf(in *inside, p *step.Person, read contextsOf) {
	key := personOf{in, p.ID.Number}
	k := c.entered[key]
	if !k.Of(&p.Record) {
		k = c.part.contexts.hand[key].Kept
	}
	if !k.Of(&p.Record) {
		k = read[p.ID.Number]
	}
	if !k.Of(&p.Record) {
		return
	}
	p.Given.Context = k.Body
	if k.EndedMillis != 0 {
		c.keep(in, p.ID.Number, &p.Record, k.Body)
	}
}

// contextNow is what one person entered with, to be given to somebody else.
func (c *change) contextNow(ctx context.Context, in *inside, number int64, r *journey.Record) (string, error) {
	v := in.versions[r.Version]
	if v == nil || r.State != journey.StateInside {
		return "", nil
	}
	one := []step.Person{c.part.person(number, *r, "")}
	err := c.contexts(ctx, in, v, one)
	return one[0].Given.Context, err
}

// contextOf sets what one person of the page entered with.
func (g *page) contextOf(ctx context.Context, c *change, in *inside, v *version, p *step.Person) (err error) {
	if !v.keeps.Any() || p.Record.State != journey.StateInside {
		return nil
	}
	if g.contexts[in] == nil {
		if g.contexts[in], err = c.part.readContexts(ctx, in, g.people); err != nil {
			return err
		}
	}
	c.contextOf(in, p, g.contexts[in])
	return nil
}

// nothingKept takes the place of a context that may be kept already.
const nothingKept = "{}"

// keep notes what a person enters with, if anything. The commit keeps it if the person is
// inside then.
func (c *change) keep(in *inside, number int64, r *journey.Record, context string) {
	if context != "" {
		k := c.keptOf(in, number, r)
		k.Body = context
		c.entered[personOf{in, number}] = k
		c.bytes += len(context)
	}
}

// keepEntered notes what those entered with who did by the last decision.
func (c *change) keepEntered(in *inside, v *version, people []step.Person) {
	if !v.keeps.Any() {
		return
	}
	for i := range people {
		r, before := &c.out.Records[i], &people[i].Record
		if r.Entered != before.Entered || r.Occurrence != before.Occurrence {
			c.keep(in, people[i].ID.Number, r, v.keeps.Of(people[i].Given.Context))
		}
	}
}

// keepLeft notes that somebody leaves who was inside, if what the person entered with is
// kept.
func (c *change) keepLeft(in *inside, number int64, before flow.Record, now *journey.Record) {
	var r journey.Record
	if !in.keeps || r.Decode(before[:]) != nil || r.State != journey.StateInside {
		return
	}
	k := c.keptOf(in, number, &r)
	if v := in.versions[r.Version]; v != nil && v.keeps.Any() && (now.State != journey.StateInside || !k.Of(now)) {
		c.left[personOf{in, number}] = k
	}
}

func (c *change) keptOf(in *inside, number int64, r *journey.Record) journey.Kept {
	return journey.Kept{Partition: c.part.log.Partition(), Journey: in.number, Number: number, Entered: r.Entered, Occurrence: r.Occurrence}
}

// addContexts adds the items of those who have left, and of those who have entered and
// wait now. While a program runs beside this one that does not read them there are none.
func (c *change) addContexts(ctx context.Context) error {
	if len(c.entered)+len(c.left) == 0 || !sluice.WritesNewForms() {
		return nil
	}
	now := c.part.clock.Now().UnixMilli()
	for n, some := range []map[personOf]journey.Kept{c.left, c.entered} {
		leaves := n == 0
		for _, key := range slices.SortedFunc(maps.Keys(some), personOf.compare) {
			r, _, err := c.record(ctx, key.in, key.number)
			if err != nil {
				return err
			}
			k := some[key]
			if inside := r.State == journey.StateInside && k.Of(&r); inside == leaves {
				continue
			}
			if leaves {
				k.EndedMillis = now
			} else {
				c.kept = append(c.kept, k)
				c.keptIn = append(c.keptIn, key)
			}
			c.items = k.Append(c.items)
		}
	}
	return nil
}

// keepKept has in hand what a commit has added, and lets go of what the store has had for
// a while.
func (p *part) keepKept(ctx context.Context, c *change, at sluice.Position) {
	x, now := &p.contexts, p.clock.Now().UnixMilli()
	for i, key := range c.keptIn {
		x.bytes += len(c.kept[i].Body) - len(x.hand[key].Body)
		x.hand[key] = held{c.kept[i], at, now}
		x.order = append(x.order, key)
	}
	old := now - contextsKept.Milliseconds()
	asked := false
	for len(x.order) > 0 {
		key := x.order[0]
		h, ok := x.hand[key]
		if ok && h.millis > old && x.bytes < contextsBytes {
			return
		}
		if ok && x.passed.Before(h.at) && !asked {
			asked = true
			if at, err := p.storedUpTo(ctx); err == nil { // else it stays
				x.passed = at
			}
		}
		if ok && x.passed.Before(h.at) {
			return
		}
		x.bytes -= len(h.Body)
		delete(x.hand, key)
		x.order = x.order[1:]
	}
}
