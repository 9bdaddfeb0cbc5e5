package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/flow"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/lib/faults"
	"sluice/store"
	"sluice/user"
)

// change is a commit in the making: the records of people in one or more journeys, and
// what goes to the log with them.
type change struct {
	part  *part
	units map[unitKey]*flow.Unit
	order []unitKey // in which they were touched

	last   *flow.Unit // that was asked for: people come in the order of their numbers
	lastIn *inside
	items  []byte    // for the log
	tells  bool      // some of these change a profile, or a place: facts may come of them
	came   []*inside // the journeys that the people of this decision have entered by it
	notes  []flow.Operation
	out    *step.Result
	moved  int     // people whose time had come
	paced  *inside // of this journey those move whom the rate of mails had waiting; nil: others

	steps []stepChange // who came to a step, and went

	wayBytes int // of the units of ways that were read: those of large plans are large

	page    *page            // of facts; nil: others are at hand
	tallies map[int64]tally  // what the ledger has of people, for caps
	made    map[int64][]made // mail for people

	entered map[personOf]journey.Kept // what people enter with, if they are inside in the end
	left    map[personOf]journey.Kept // who was inside, and may have left
	kept    []journey.Kept            // what has items
	keptIn  []personOf                // whose it is

	byRun   bool // people enter by a run
	overdue bool // people go past messages: those who were due by a resume without them

	second   uint32 // of the fact that is told; 0: none is
	doubtful []doubtful
	bytes    int // of these
}

// moment is the second of what a person is moved by: a fact, what let the person in, or
// the time that was waited for. If the way is decided again, it is the same.
func (c *change) moment(p *step.Person) uint32 {
	at := cmp.Or(c.second, p.EnteredAt)
	if at == 0 && p.Record.Inside() { // of others Due is something else, as when they left
		at = p.Record.Due
	}
	return at
}

// unitKey names a unit: a journey, and the first person of the unit.
type unitKey struct {
	in    *inside
	first int64
	few   bool // of a chunk that is not divided
	ways  bool
}

func keyOf(in *inside, u *flow.Unit) unitKey {
	return unitKey{in, u.First(), u.Span() == flow.ChunkRecords, u.IsWays()}
}

func (p *part) begin() *change {
	p.out.GlobalControl, p.out.ByRun = p.control, false
	return &change{part: p, units: make(map[unitKey]*flow.Unit), out: &p.out, tallies: make(map[int64]tally), made: make(map[int64][]made),
		entered: make(map[personOf]journey.Kept), left: make(map[personOf]journey.Kept)}
}

// read reads units of a journey that the change has not read.
func (c *change) read(ctx context.Context, in *inside, units []*flow.Unit) error {
	var missing []*flow.Unit
	for _, u := range units {
		if key := keyOf(in, u); c.units[key] == nil {
			c.units[key] = u
			c.order = append(c.order, key)
			missing = append(missing, u)
		}
	}
	err := in.records.Read(ctx, missing)
	for _, u := range missing {
		if u.IsWays() {
			c.wayBytes += u.Size()
		}
	}
	return err
}

// unit returns the unit of a person, read before or now.
func (c *change) unit(ctx context.Context, in *inside, number int64) (*flow.Unit, error) {
	if c.lastIn == in && c.last.Has(number) {
		return c.last, nil
	}
	u := in.records.Of(number)
	if have := c.units[keyOf(in, u)]; have != nil {
		u = have
	} else if err := c.read(ctx, in, []*flow.Unit{u}); err != nil {
		return u, err
	}
	c.last, c.lastIn = u, in
	return u, nil
}

// record returns where a person is, as the change has it. False: a newer program has
// written it, and moves the person.
func (c *change) record(ctx context.Context, in *inside, number int64) (r journey.Record, ok bool, err error) {
	u, err := c.unit(ctx, in, number)
	if err != nil {
		return r, false, err
	}
	raw := u.Get(number)
	return r, r.Decode(raw[:]) == nil, nil
}

// postpone has people who cannot be moved looked at again later.
func (c *change) postpone(ctx context.Context, in *inside, people []step.Person, now time.Time) error {
	for i := range people {
		r := people[i].Record
		r.Due = uint32(now.Add(journey.LookAgain).Unix())
		if err := c.set(ctx, in, people[i].ID.Number, &r); err != nil {
			return err
		}
	}
	return nil
}

// set sets where a person is.
func (c *change) set(ctx context.Context, in *inside, number int64, r *journey.Record) error {
	var raw flow.Record
	r.Append(raw[:0])
	u, err := c.unit(ctx, in, number)
	if err != nil {
		return err
	}
	before := u.Get(number)
	c.keepLeft(in, number, before, r)
	c.countStep(in, &before, &raw)
	if u.Set(number, raw) {
		return nil
	}
	ways, err := c.ways(ctx, in, number) // those of the chunk still
	if err != nil {
		return err
	}
	c.last = nil
	for _, b := range append(in.records.Divide(u), in.records.DivideWays(ways)...) {
		key := keyOf(in, b)
		c.units[key] = b
		c.order = append(c.order, key)
	}
	if u, err = c.unit(ctx, in, number); err == nil && !u.Set(number, raw) {
		err = fmt.Errorf("journey %s: a block has no room for person %d", in.id, number)
	}
	return err
}

// settle takes what the last decision came to: it is about these people, in this
// version.
func (c *change) settle(ctx context.Context, in *inside, v *version, people []step.Person) error {
	v.noteRests(people, c.out.Records, c.overdue)
	for i := range people {
		r, before := &c.out.Records[i], &people[i].Record
		if *r == *before {
			continue
		}
		// Else it is of the version that it was: somebody who was taken out, or is in the
		// control group, converts by the newest one, and the step stays one of its own.
		if r.Entered != before.Entered || r.Occurrence != before.Occurrence {
			r.Version = v.place
		}
		if err := c.set(ctx, in, people[i].ID.Number, r); err != nil {
			return err
		}
	}
	c.keepEntered(in, v, people)
	if err := c.keepWays(ctx, in, v, people); err != nil {
		return err
	}
	if err := c.askLedger(ctx, v, people); err != nil {
		return err
	}
	if err := c.readWays(ctx, in, v, people); err != nil {
		return err
	}
	for _, did := range c.out.Mails {
		variant, err := c.variantOf(ctx, in, v, &people[did.Person], did.Step)
		if err != nil {
			return err
		}
		c.mail(in, v, &people[did.Person], did, variant)
	}
	for _, did := range c.out.Updates {
		c.update(in, v, &people[did.Person], did)
	}
	goes, stay := c.goNow(v, people)
	for _, did := range stay {
		c.out.Stay(did.Step)
	}
	c.count(v)
	return c.goOn(ctx, in, v, people, goes, stay)
}

// target is the journey that a step leads to. wait: it is not known yet, or paused.
func (c *change) target(from *version, at int) (in *inside, wait bool) {
	in = c.part.byID[from.walk.Plan().Steps[at].Journey]
	return in, in == nil || in.paused
}

// goOn lets people into the journeys that they have gone to.
//
// Journeys may lead to each other in a circle, as those do that take turns over the weeks.
// Where nothing in the circle waits, people would walk in it for ever. So nobody enters a
// journey twice by one decision: who comes to it again has finished the way. A decision may be
// divided (goNow). All parts of it have people enter as of the same second, by which the later
// parts know where the first have been (cameBefore).
func (c *change) goOn(ctx context.Context, in *inside, from *version, people []step.Person, goes, stay []step.Did) error {
	for _, did := range stay {
		if err := c.stayToGo(ctx, in, from, &people[did.Person], did); err != nil {
			return err
		}
	}
	if len(goes) == 0 {
		return nil
	}
	if !people[0].Record.Inside() { // these have just entered, all of them
		c.came = append(c.came, in)
		defer func() { c.came = c.came[:len(c.came)-1] }()
	}
	to := make(map[*inside][]step.Person)
	var order []*inside
	for _, did := range goes {
		target, _ := c.target(from, did.Step)
		p := people[did.Person]
		if target.current == nil || slices.Contains(c.came, target) {
			continue // it was stopped, or is where they come from
		}
		if to[target] == nil {
			order = append(order, target)
		}
		p.Given.Context, _ = plan.SplitWaited(p.Given.Context) // steps of the other journey have waited for nothing
		p.By, p.EnteredAt = from.goesBy(&p), c.entersAt(from, &p, target)
		p.Record = journey.Record{} // of the other journey it is not read yet
		to[target] = append(to[target], p)
	}
	for _, in := range order {
		if err := c.enter(ctx, in, to[in], 0); err != nil {
			return err
		}
	}
	return nil
}

// goNow finds who goes on into another journey by this commit, and who stays at the step: the
// other journey is not known yet or paused, or the commit has as much as it may.
func (c *change) goNow(from *version, people []step.Person) (goes, stay []step.Did) {
	g := goers{c: c, bytes: c.bytesNow(), many: make(map[*inside]int)}
	for _, did := range c.out.Goes {
		if target, wait := c.target(from, did.Step); wait || !g.takes(target, &people[did.Person], did.Step) {
			stay = append(stay, did)
		} else {
			goes = append(goes, did)
		}
	}
	return goes, stay
}

// stayToGo leaves somebody at a step go: until the next commit or, if the other journey is not
// there, until another session finds it. The person is due as of the time by which it would
// have gone on, for by that its mails are named: if it entered by this decision, as of the entry.
func (c *change) stayToGo(ctx context.Context, in *inside, from *version, p *step.Person, did step.Did) error {
	r := c.out.Records[did.Person]
	entered := r.Entered != p.Record.Entered || r.Occurrence != p.Record.Occurrence
	r.State, r.Step, r.Version = journey.StateInside, uint16(did.Step), from.place
	r.Rank = from.restOf(p, &r, c.overdue)
	switch target, _ := c.target(from, did.Step); {
	case entered:
		r.Due = r.Entered
	case c.overdue: // the next commit is to know it
		r.Due = p.Record.Due
	default:
		r.Due = c.entersAt(from, p, target)
	}
	return c.set(ctx, in, p.ID.Number, &r)
}

// lateEntry is how long after their time people enter as of that time who come from
// another journey. Mails are named by it, so a way that is decided again names them the
// same. Who has waited for longer, as for a journey that was paused, enters a whole number of
// these behind their time: as of now the names would be other ones in each decision. They are
// so still if it is decided again behind the end of such an hour.
//
// In a circle all parts of a decision have people enter as of the second in which it began,
// however long a rate or quiet hours divide it: by that cameBefore knows where they have been.
const lateEntry = time.Hour

func (c *change) entersAt(from *version, p *step.Person, target *inside) uint32 {
	now := c.part.clock.Now()
	late := func(at uint32) bool { return time.Unix(int64(at), 0).Add(lateEntry).Before(now) }
	began := cmp.Or(c.second, p.EnteredAt) // 0: the decision has this person go on who was inside
	if from.rests(&p.Record) {
		began = p.Record.Entered
	}
	switch due := c.moment(p); {
	case began != 0 && (target != nil && target.circle || !late(began)):
		return began
	case !late(due):
		return due
	case began != 0 || due != 0:
		from := cmp.Or(began, due)
		times := now.Sub(time.Unix(int64(from), 0)) / lateEntry
		return from + uint32(times*lateEntry/time.Second)
	}
	return uint32(now.Unix())
}

// enter lets people into the current version of a journey, those who may. run is the second
// of the run that lets them in; 0: none does.
func (c *change) enter(ctx context.Context, in *inside, people []step.Person, run uint32) error {
	now := c.part.clock.Now()
	some := people[:0]
	for _, p := range people {
		r, ok, err := c.record(ctx, in, p.ID.Number)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		p.Record = r.AsOf(time.Unix(int64(max(p.EnteredAt, c.part.horizon.second)), 0))
		if cameBefore(&p, &r) {
			continue // by the circle that leads here: see goOn
		}
		if in.current.walk.MayEnter(&p, now) && !in.scan.tooSoon(&p) {
			some = append(some, p)
		}
	}
	if len(some) == 0 {
		return nil
	}
	if err := c.known(ctx, in.current, some); err != nil {
		return err
	}
	c.out.Room, c.out.ByRun = c.roomOf(ctx, in, run), run != 0
	walk := c.walkOf(in, in.current)
	if c.overdue { // up to their next wait, which may be in this journey
		walk = in.current.skips
	}
	if _, err := walk.Enter(some, now, c.out); err != nil {
		return fmt.Errorf("journey %s: %w", in.id, err)
	}
	return c.settle(ctx, in, in.current, some)
}

// full reports whether the change is to be committed before more is added.
func (c *change) full() bool {
	return c.heavy() || len(c.order) >= changeUnits
}

// changeUnits bounds the units that a change keeps: 4 MB.
const changeUnits = 512

// commit carries a change out.
func (c *change) commit(ctx context.Context) error {
	p := c.part
	next := flow.Reached{Position: p.nextCommit()}
	if err := c.addDoubtful(ctx); err != nil {
		return err
	}
	if err := c.addContexts(ctx); err != nil {
		return err
	}
	byJourney := make(map[*inside][]*flow.Unit)
	var changed []store.UnitKey
	for _, key := range c.order {
		u := c.units[key]
		byJourney[key.in] = append(byJourney[key.in], u)
		if u.Changed() {
			changed = append(changed, store.UnitKey{Journey: key.in.number, Unit: u.ID()})
		}
	}
	operations := c.notes
	for _, in := range p.journeys { // in one order
		if in.letMore {
			operations = append(operations, p.log.Note(letNote(in.number), in.let.text()))
		}
		operations = append(operations, in.records.Operations(byJourney[in])...)
		if in.takeSteps(c.steps) {
			operations = append(operations, p.log.Note(journey.InStepsNote(in.number), in.inSteps()))
		}
	}
	if len(operations) == 0 && len(c.items) == 0 {
		return nil
	}
	if err := faults.Hit("journey"); err != nil {
		return err
	}
	commit := &flow.Commit{Follower: cursor, From: p.at, To: next, Operations: operations, Log: c.items}
	if _, err := p.log.Commit(ctx, p.lease, commit, p.clock.Now().UnixMilli()); err != nil {
		return fmt.Errorf("move people of partition %d through journeys: %w", p.log.Partition(), err)
	}
	p.at = next
	for _, in := range p.journeys {
		in.letMore = false
	}
	p.crowd.commit(commit.Appended)
	p.own.add(commit, c.tells)
	p.saver.touch(changed)
	p.capping.keepMade(c.made, commit.Appended, p.clock.Now())
	p.keepKept(ctx, c, commit.Appended)
	p.stats.Commits.Add(1)
	p.stats.Moved.Add(int64(c.moved))
	for _, key := range c.order {
		if key.ways {
			continue
		}
		key.in.note(c.units[key])
	}
	return faults.Hit("journey-moved")
}

// person makes one of a record and a profile.
func (p *part) person(number int64, r journey.Record, profile string) step.Person {
	return step.Person{ID: user.ID{Partition: p.log.Partition(), Number: number}, Record: r, Profile: profile}
}
