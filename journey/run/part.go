package run

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/step"
	"sluice/store"
)

// cursor is the follower that commits count under: each commit is one more.
const cursor = flow.JourneysFollower

// Bounds of one commit, and of what is read for it.
const (
	// unitsAtOnce is how many units of records are worked off by one commit if all in
	// them are due: 2,044 people, of whom profiles are in memory meanwhile. Where few
	// are, it is more of them, unitsAtMost: 1.25 MB. Few people of each of many units
	// cost one statement and one commit then, not one each.
	unitsAtOnce = 4
	unitsAtMost = 160

	// queuedUnits is how many units that are due are noted at once.
	queuedUnits = 160

	// pendingEntries is how many entries of the partition's log may not be stored before
	// anybody moves who is due, or makes a mail. What waits is in Redis, and is to stay small.
	pendingEntries = 1_000

	// factPages is how many pages of facts are applied before people who are due move.
	factPages = 64

	// rangeFactor: profiles are read as a range of numbers if the range has at most so
	// many times the people wanted, else one by one.
	rangeFactor = 4
)

// part moves the people of one partition.
//
// The idea. One goroutine does everything for a partition, one commit after the other:
// facts, people who are due, people who enter. A commit of Redis (flow.Commit) has the
// new records, the mails and counts as items for the log, and how far the facts were
// read. Commits are numbered, with a number of their session, and each names the one
// before it. So a repeat changes nothing, and what another session has done meanwhile
// refuses it.
//
// The invariants. A record is read after the last commit that could have changed it. A
// person is decided about once for each commit. If a commit fails or its answer is
// lost, the session ends, and the next one reads what there is. Nothing is kept but
// the times of units, which are read again.
//
// What was dropped. Reading the next people while a commit is on its way: with as many
// partitions as a deployment has, others use that time. A comparison of each record in
// the script: the number of the commit says as much.
type part struct {
	log       *flow.Log
	lease     *flow.Lease
	store     Store
	clock     sluice.Clock
	busy      chan struct{} // has room for those who compute at a time
	at        flow.Reached  // the last commit: its number, and the session's
	session   uint64        // a number at random: two sessions never make one commit
	facts     sluice.Place  // up to where they were applied
	published int64         // the publish number under which the journeys were read
	journeys  []*inside
	byID      map[string]*inside
	turn      int             // of the journeys
	looked    sluice.Position // the end of the log, without own entries, when all facts had been applied, if told
	told      bool
	own       ownEntries
	horizon   horizon
	passed    uint32      // the second in which the last pass began
	more      bool        // facts are waiting behind those read last
	pages     int         // of facts in a row with more behind them
	behind    bool        // too much of the log is not stored
	crowd     crowd       // of mail that waits
	out       step.Result // of the last decision
	stats     *Stats

	left     string // the note of versions that nobody is inside, as Redis has it
	toldLeft bool   // it was compared with what the session knows

	storedBy string // the follower that stores the log
	caps     []journey.Cap
	control  int // percent of all people who get no marketing mail
	capping  capping
	contexts contexts // what people entered with

	saver  *saver
	every  time.Duration // between checkpoints; 0: checkpointEvery
	saving chan struct{} // has room for one who copies for a checkpoint; nil: nobody else does
	slog   *slog.Logger
	ending context.Context // ends when the process is to stop; nil: never

	// recovered is the second of the last recovery, or in which Redis became another one. Who
	// entered up to it may have got any mail of that time in the journey before. marker is the end of the log when it was over: what the store
	// had in hand until then is stored when it has passed that.
	recovered   uint32
	marker      sluice.Position
	movedLooked time.Time
	askedBehind time.Time // without an answer: while the store is behind
}

// inside is one journey in the partition.
type inside struct {
	*plans
	records  *flow.Records
	loaded   bool // which records there are was read
	occupied occupied
	dues     dues
	ready    []int64           // the first persons of units that are due
	atOnce   int               // units for the next commit
	scan     *scan             // nil: people do not enter at times
	goes     map[placeOf]bool  // steps that lead to a journey that people can go to
	closed   map[placeOf]bool  // steps that lead to a journey that people cannot go to now
	stay     map[placeOf]bool  // message steps whose mail cannot be made
	rate     rate              // of the mails that it makes
	keeps    bool              // some version looks at contexts behind waits
	share    int               // mails that it may make while a lane of its mails is crowded
	let      let               // how many the partition has let in, if that is limited
	letMore  bool              // more than its note says
	steps    map[placeOf]int64 // who is in which step, as its note says (journey.InSteps)
}

// open reads where the partition is. A Redis that is behind the checkpoint in SQL, or
// empty, takes it over as a whole.
func (p *part) open(ctx context.Context, all []*plans) error {
	have, err := p.openSaver(ctx)
	if err != nil {
		return err
	}
	if p.at, err = p.log.Cursor(ctx, cursor); err != nil {
		return err
	}
	p.session = rand.Uint64()
	if p.at.Major < p.saver.row.At.Major {
		if err := p.recover(ctx); err != nil {
			return err
		}
	}
	fields, err := p.log.JourneyFields(ctx)
	if err != nil {
		return err
	}
	if err := p.openNotes(ctx, fields); err != nil {
		return err
	}
	if err := p.openAll(ctx, all, fields, have); err != nil {
		return err
	}
	p.saver.opened()
	p.stats.Opened.Add(1)
	if err := p.openSteps(ctx, fields); err != nil {
		return err
	}
	if err := p.openContexts(ctx); err != nil {
		return err
	}
	if err := p.openCaps(ctx, p.caps); err != nil {
		return err
	}
	if err := p.passOver(ctx, fields); err != nil {
		return err
	}
	return p.tellLeft(ctx) // before a checkpoint takes what another session has said
}

// openAll reads where people are, of all journeys that have records: those of others
// than all do not move, but they are in the checkpoint.
func (p *part) openAll(ctx context.Context, all []*plans, fields map[string]string, have map[store.UnitKey]int64) error {
	differs := p.at.Position != p.saver.row.At
	see := func(journey int64, u *flow.Unit) {
		if differs {
			p.saver.see(have, store.UnitKey{Journey: journey, Unit: u.ID()}, u.Bytes())
		}
	}
	p.byID = make(map[string]*inside)
	for _, j := range all {
		p.byID[j.id] = &inside{plans: j, records: p.log.Records(int(j.number)), share: shareMails, steps: make(map[placeOf]int64)}
	}
	for _, j := range all {
		in := p.byID[j.id]
		if len(j.versions) == 0 { // all have ended
			continue
		}
		in.loaded = true
		in.findGoes(p.byID)
		err := in.records.Load(ctx, func(u *flow.Unit) error {
			see(j.number, u)
			in.note(u)
			in.countSteps(u)
			return nil
		})
		if err != nil {
			return fmt.Errorf("journey %s: %w", j.id, err)
		}
		if err := in.openScan(fields, p.published); err != nil {
			return err
		}
		if err := p.openLimits(ctx, in, fields); err != nil {
			return err
		}
		p.journeys = append(p.journeys, in)
	}
	if !differs {
		return nil
	}
	for _, number := range flow.JourneysIn(fields) {
		records := p.log.Records(number)
		one := func(u *flow.Unit) error { see(int64(number), u); return nil }
		var err error
		if at := slices.IndexFunc(p.journeys, func(in *inside) bool { return in.number == int64(number) }); at >= 0 {
			records = p.journeys[at].records
		} else {
			err = records.Load(ctx, one)
		}
		if err == nil {
			err = records.LoadWays(ctx, one)
		}
		if err != nil {
			return fmt.Errorf("journey %d: %w", number, err)
		}
	}
	p.saver.unseen(have)
	return nil
}

// run moves people until the session ends.
func (p *part) run(ctx, fetch context.Context, all []*plans) error {
	defer func() {
		if p.saver != nil {
			p.saver.close()
		}
	}()
	if _, err := p.log.Cursor(ctx, cursor); err != nil { // a Redis that does not answer takes no place of those that do
		return err
	}
	if err := p.working(ctx, func() error { return p.open(ctx, all) }); err != nil {
		return err
	}
	for ctx.Err() == nil && fetch.Err() == nil {
		worked := false
		err := p.saver.look(ctx)
		if err == nil {
			err = p.working(ctx, func() (err error) {
				worked, err = p.pass(ctx)
				return err
			})
		}
		if err != nil {
			return err
		}
		if !worked {
			p.rest(ctx, fetch)
		}
	}
	if ctx.Err() == nil && p.ending != nil && p.ending.Err() != nil {
		if err := p.saver.last(ctx); err != nil {
			p.say("the last checkpoint of where people are in journeys was not written; redis has all", err)
		}
	}
	return ctx.Err()
}

// working runs f while few others do.
func (p *part) working(ctx context.Context, f func() error) error {
	select {
	case p.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.busy }()
	return f()
}

// pass does a piece of each kind of work, and reports whether there was any.
func (p *part) pass(ctx context.Context) (worked bool, err error) {
	p.passed = uint32(p.clock.Now().Unix())
	if !sluice.Writes(sluice.JourneyForms) {
		return false, nil // mail would not say of which journey it is: for seconds in an emptied Redis, or while an older program runs
	}
	if ready, err := p.capsReady(ctx); err != nil || !ready {
		return false, err
	}
	if ready, err := p.contextsReady(ctx); err != nil || !ready {
		return false, err
	}
	if ready, err := p.settled(ctx); err != nil || !ready {
		return false, err
	}
	if err := p.lookMoved(ctx); err != nil {
		return false, err
	}
	if err := p.tellLeft(ctx); err != nil {
		return false, err
	}
	if err := p.lookPassed(ctx); err != nil {
		return false, err
	}
	p.crowd.looked, p.crowd.held = false, false
	worked, err = p.lookForFacts(ctx)
	if err != nil || p.behind {
		return worked, err
	}
	if p.more && p.pages < factPages {
		return worked, nil // what is waited for may be among them
	}
	p.pages = 0
	at, stands := p.horizon.at(), p.horizon.stands(p.clock.Now())
	for range p.journeys {
		p.turn = (p.turn + 1) % len(p.journeys)
		in := p.journeys[p.turn]
		if !in.mayMove(at) || stands && !in.stopped {
			continue
		}
		did, err := p.moveIn(ctx, in)
		if worked = worked || did; err != nil {
			return worked, err
		}
	}
	return worked, nil
}

// moveIn moves people of a journey, and lets others in by its times, as far as there is room.
func (p *part) moveIn(ctx context.Context, in *inside) (worked bool, err error) {
	few := unbounded
	if !in.stopped { // a journey without mails may lead to one that has some
		if err := p.lookForRoom(ctx); err != nil {
			return false, err
		}
		few = p.crowd.allows(in)
	}
	late, err := p.askLate(ctx, in) // whether there is room or not
	if err != nil {
		return false, err
	}
	if few == 0 {
		p.crowd.held = true
		return false, nil
	}
	worked, err = p.moveOn(ctx, in, few)
	if err != nil || late || few < unbounded { // a run would make more
		return worked, err
	}
	entered, err := p.scanOn(ctx, in)
	return worked || entered, err
}

// mayMove reports whether somebody may have something to do who is due by a moment.
func (in *inside) mayMove(at time.Time) bool {
	return !in.paused && (len(in.ready) > 0 || in.dues.next() <= uint32(at.Unix()) || in.scans(at) || in.rate.due(at))
}

// lookForFacts applies facts if there may be some: if the log has entries that are not
// stored, or had other ones when nothing was found last. So a log in which nothing
// happens costs no statement. It moves the horizon.
func (p *part) lookForFacts(ctx context.Context) (worked bool, err error) {
	now := p.clock.Now() // before the end is read
	last, err := p.log.Last(ctx)
	if err != nil {
		return false, err
	}
	entries, err := p.log.Entries(ctx)
	if err != nil {
		return false, err
	}
	if entries == 0 { // and so in their lanes
		p.crowd.empty()
	}
	last = p.own.without(last)
	p.horizon.look(now, last, slices.ContainsFunc(p.journeys, func(in *inside) bool { return in.mayMove(now) }))
	if p.behind = entries > pendingEntries; p.behind {
		return p.tellBehind(ctx)
	}
	if p.told && last == p.looked {
		p.horizon.tell(now, last, last, true)
		return false, nil
	}
	stored := last
	if entries > 0 && p.horizon.waits() {
		if stored, err = p.storedUpTo(ctx); err != nil {
			return false, err
		}
	}
	if worked, err = p.applyFacts(ctx); err != nil {
		return worked, err
	}
	if !worked && entries == 0 {
		p.looked, p.told = last, true
	}
	p.horizon.tell(now, stored, p.facts.Position, !p.more)
	return worked, nil
}

// behindEvery is how often facts are asked for while the store is behind: it has enough to do.
const behindEvery = time.Second

// tellBehind applies facts while the store is behind. Nobody who is due moves, and nobody comes
// past a step that makes a mail or an update. But who is stored to have left has left: mail
// that was made before asks for that.
func (p *part) tellBehind(ctx context.Context) (worked bool, err error) {
	if time.Since(p.askedBehind) < behindEvery {
		return false, nil
	}
	if worked, err = p.applyFacts(ctx); err == nil && !worked {
		p.askedBehind = time.Now()
	}
	return worked, err
}

// restFor is how long nothing is to be done. Tokens of a rate are asked for as soon as there
// may be some: the bucket of a slow rate has room for one, and what comes in later is lost.
func (p *part) restFor() time.Duration {
	wait, now := pollEvery, p.clock.Now()
	if p.crowd.held {
		wait = crowdRest
	}
	wait = min(wait, p.horizon.rest())
	until := func(due time.Time) {
		if due.Unix() > int64(p.passed) { // else they must wait for something
			wait = min(wait, max(due.Sub(now), 0))
		}
	}
	for _, in := range p.journeys {
		until(time.Unix(int64(in.dues.next()), 0))
		if in.scan != nil && !in.scan.next.IsZero() {
			until(in.scan.next)
		}
		if in.perMinute > 0 && !in.paused && in.rate.dues.next() <= uint32(now.Unix()) {
			if until := time.Until(in.rate.ask); until > 0 {
				wait = min(wait, until)
			}
		}
	}
	return wait
}

// rest waits until somebody is due, it is time to ask for facts, or it is this partition's
// turn to copy for a checkpoint.
func (p *part) rest(ctx, fetch context.Context) {
	timer := time.NewTimer(p.restFor())
	defer timer.Stop()
	select {
	case <-timer.C:
	case p.saver.turns() <- struct{}{}:
		p.saver.turn = true
	case <-ctx.Done():
	case <-fetch.Done():
	}
}

// note notes when somebody in a unit is due. In a journey that was stopped all are who
// are inside.
func (in *inside) note(u *flow.Unit) {
	due, mails := uint32(never), uint32(never)
	var versions versionSet
	if in.plain() {
		u.Each(func(_ int64, raw *flow.Record) {
			s := journey.SketchOf(raw[:])
			if s.Inside {
				versions.add(s.Version)
				due = min(due, s.Due)
			}
		})
		in.tell(u, due, mails, versions)
		return
	}
	u.Each(func(_ int64, raw *flow.Record) {
		var r journey.Record
		e := r.Decode(raw[:])
		if e != nil || r.Inside() {
			versions.add(r.Version)
		}
		switch {
		case e != nil: // of a newer program, which moves it
		case in.stops(&r):
			due = 0
		case r.Waits() && in.paces(&r):
			mails = min(mails, r.Due)
		case r.Waits():
			due = min(due, in.dueOf(&r))
		}
	})
	in.tell(u, due, mails, versions)
}

// plain reports whether a person of the journey is due when the record says so.
func (in *inside) plain() bool {
	return !in.stopped && in.perMinute == 0 && len(in.goes)+len(in.stay)+len(in.closed) == 0
}

// tell keeps what note has found in a unit.
func (in *inside) tell(u *flow.Unit, due, mails uint32, versions versionSet) {
	if !in.stopped {
		versions.drop(uint8(in.newest)) // people enter it
	}
	in.occupied.set(u, versions)
	in.dues.set(u, due)
	if in.perMinute > 0 {
		in.rate.dues.set(u, mails)
	}
}

// waiting are the people of a unit who are due, as moveUnits says, in the order of their numbers.
func (p *part) waiting(in *inside, u *flow.Unit, paced bool) (people []step.Person) {
	second, plain := p.horizon.second, in.plain()
	u.Each(func(number int64, raw *flow.Record) {
		if plain && journey.SketchOf(raw[:]).Due > second {
			return
		}
		var r journey.Record
		if r.Decode(raw[:]) == nil && r.Waits() && in.dueOf(&r) <= second && in.paces(&r) == paced || in.stops(&r) {
			people = append(people, p.person(number, r, ""))
		}
	})
	slices.SortFunc(people, func(a, b step.Person) int { return a.ID.Compare(b.ID) })
	return people
}
