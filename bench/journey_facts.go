package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	moving "sluice/journey/run"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
)

// The part `facts` of `bench journey`: events of which two sevenths are such as a journey
// waits for. The store writes a fact of each of these, the journey reads it, and the store
// deletes it.
//
// At saturation all events are in the logs before the store begins, and name people. The
// store's speed without facts, with facts that are written, and with facts that are read
// and deleted too, is that of the same events in turns. At a rate, five sevenths of the
// events are of mail, as those of `bench events`, and name nobody. There too the store has
// turns without facts: what it does not store then is beyond the machine (factsLimit).
const (
	factPeople   = 16_384
	factNames    = 7 // of which two are registered
	factsTurns   = 3 // of the three
	factsRuns    = 3 // at a rate
	factsRate    = 70_000
	factsTick    = 10 * time.Millisecond
	factsLooked  = 100 * time.Millisecond
	factsTries   = 100
	factsAtOnce  = 16_000  // events of one call
	factsWaiting = 1 << 30 // bytes of a log that wait to be stored

	factsBacklog, factsBacklogQuick = 300_000, 20_000
	factsSpan, factsSpanQuick       = 16 * time.Second, 2 * time.Second
)

// factsJourney lets people in by one event and out by another, as often as they come.
const factsJourney = `
id: facts
entry: {when: {event: event-1}, again_after: 0s}
steps:
  - id: waits
    wait_for: {within: 7d, paths: [{name: came, when: {event: event-4}, next: exit}], otherwise: exit}
`

type factsBench struct {
	*journeyBench
	db     database
	writer *flow.Writer
	people []string // names
	parts  []int    // partitions of these
	next   int64    // the number of the next event
	asked  int64    // how many of those before are registered
	begin  int64    // the time of the first event, in milliseconds

	mu   sync.Mutex
	read [journeyPartitions]sluice.Place // up to where the journey has read facts
}

// journeyFacts measures on an empty database.
func journeyFacts(ctx context.Context, e *env, db database, kind string) (err error) {
	b := &factsBench{journeyBench: &journeyBench{env: e, name: kind, clock: &benchClock{}}, db: db, begin: time.Now().UnixMilli()}
	closed, err := b.open(ctx, db)
	defer func() { err = errors.Join(err, closed()) }()
	if err != nil {
		return err
	}
	if err := b.makePeople(ctx); err != nil {
		return err
	}
	if _, err := publish(ctx, b.store, factsJourney, noEnv{}); err != nil {
		return err
	}
	leasing, unlease := b.lease(ctx)
	defer func() { err = errors.Join(err, unlease()) }()
	b.writer = flow.NewWriter(b.logs, "bench:"+b.leases.ID(), factsWaiting)
	if _, err := b.hold(ctx); err != nil {
		return err
	}
	for n := range factsTurns {
		turn := []string{factsNone, factsWritten, factsAll}
		if n%2 == 1 {
			turn = []string{factsAll, factsWritten, factsNone}
		}
		for _, what := range turn {
			if err := b.saturated(ctx, leasing, what); err != nil {
				return fmt.Errorf("at saturation, facts %s: %w", what, err)
			}
		}
	}
	for n := range pick(b.run, factsRuns, 1) { // in turns: a machine is not as fast in one minute as in the next
		turn := []string{factsNone, factsAll}
		if n%2 == 1 {
			turn = []string{factsAll, factsNone}
		}
		for _, what := range turn {
			if err := b.paced(ctx, leasing, what); err != nil {
				return err
			}
		}
	}
	return nil
}

// makePeople stores the people whom events name.
func (b *factsBench) makePeople(ctx context.Context) error {
	changes := &user.Changes{}
	var last [journeyPartitions]int64
	for i := range factPeople {
		name := fmt.Sprint("user-", i)
		k := user.Key{Kind: user.KeyExternal, Name: name}
		p := k.Partition(journeyPartitions)
		last[p]++
		id := user.ID{Partition: p, Number: last[p]}
		changes.Put = append(changes.Put, user.Row{ID: id, UpdatedMillis: b.begin, Profile: journeyProfile(int64(i))})
		changes.AddKeys = append(changes.AddKeys, user.KeyRow{Key: k, ID: id})
		b.people, b.parts = append(b.people, name), append(b.parts, p)
	}
	p, err := b.store.Prepare(&store.Effect{Users: changes})
	if err == nil {
		_, err = b.store.Apply(ctx, p)
	}
	return err
}

// feed writes the next events to the logs. Those that no journey waits for name people, or
// are of mail.
func (b *factsBench) feed(ctx context.Context, events int, mail bool) error {
	parts := make([]flow.Part, journeyPartitions)
	var texts []byte
	for range events {
		i := b.next
		b.next++
		name := i % factNames
		if mail && name != 1 && name != 4 {
			x := at(i)
			texts = x.appendEmail(texts[:0])
			e := sluice.Event{Kind: sluice.KindMail, Name: x.stored, ID: fmt.Sprint(x.id), TimeMillis: b.begin + i/100, Email: string(texts)}
			texts = append(x.appendRest(append(texts[:0], '{')), '}')
			e.Properties = string(texts)
			b.put(parts, user.Key{Kind: user.KeyEmail, Name: e.Email}.Partition(journeyPartitions), &e)
			continue
		}
		if name == 1 || name == 4 {
			b.asked++
		}
		person := int(uint32(i) * 2654435761 % factPeople)
		b.put(parts, b.parts[person], &sluice.Event{Kind: sluice.KindCustom, Name: eventNames[name], User: b.people[person], TimeMillis: b.begin + i/100, Properties: `{"items":3,"total":29.5,"sku":"A-17"}`})
	}
	return b.writer.Write(ctx, parts...)
}

func (b *factsBench) put(parts []flow.Part, p int, e *sluice.Event) {
	parts[p].Partition = p
	parts[p].Items = sluice.AppendEvent(parts[p].Items, e)
	parts[p].Count++
}

var eventNames = func() (all [factNames]string) {
	for i := range all {
		all[i] = fmt.Sprint("event-", i)
	}
	return all
}()

// What becomes of facts.
const (
	factsNone    = "none"    // there are none
	factsWritten = "written" // they stay
	factsAll     = "all"     // they are read and deleted
)

// storing runs the store, and what moves people if facts are read, until stop is called.
func (b *factsBench) storing(ctx, leasing context.Context, what string) (stored *ingest.Stats, journeys *moving.Follower, stop func(), err error) {
	stored = &ingest.Stats{}
	writers, closed, err := b.writers(ctx, stored, what)
	if err != nil {
		return nil, nil, func() { _ = closed() }, err
	}
	running, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	if what == factsAll {
		journeys = b.follower(b.clock)
		all.Go(func() { journeys.Run(running, leasing) })
		all.Go(func() { b.watchRead(running) })
		err = until(ctx, journeyWithin, func() bool { return journeys.Stats.Opened.Load() == journeyPartitions })
	}
	for _, f := range writers {
		all.Go(func() { f.Run(running, leasing) })
	}
	return stored, journeys, func() { cancel(); all.Wait(); _ = closed() }, err
}

// writers are as many followers of the store as the program has, each with a store of its
// own, unless they take turns at a file.
func (b *factsBench) writers(ctx context.Context, stored *ingest.Stats, what string) (all []*ingest.StoreFollower, closed func() error, err error) {
	var own []*sqlstore.Store
	closed = func() (err error) {
		for _, s := range own {
			err = errors.Join(err, s.Close())
		}
		return err
	}
	many, _, err := b.store.Writers(ctx, 0, len(b.logs), nil)
	if err != nil {
		return nil, closed, err
	}
	for i := range many {
		s := b.store
		if i > 0 && !s.TakesTurns() {
			if s, err = sqlstore.Open(ctx, b.db.url(), sqlstore.Options{Beside: b.store}); err != nil {
				return nil, closed, err
			}
			own = append(own, s)
		}
		f := &ingest.StoreFollower{Logs: b.logs, Leases: b.leases, Writer: i, Writers: many, TakeTurns: s.TakesTurns(), Store: s, Users: s, Clock: sluice.SystemClock{}, Log: slog.New(slog.DiscardHandler), Stats: stored, MarginBytes: 64 << 20}
		if what != factsNone {
			f.Journeys = s
		}
		if what == factsAll {
			f.FactsUpTo = b.readUpTo
		}
		all = append(all, f)
	}
	return all, closed, nil
}

// readUpTo says up to where facts may go.
func (b *factsBench) readUpTo(partition int) (sluice.Place, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read[partition], !b.read[partition].Position.IsZero()
}

// watchRead looks how far the journey has read, as the checkpoints tell it in the program.
func (b *factsBench) watchRead(ctx context.Context) {
	for pause(ctx, factsLooked) == nil {
		for p := range b.read {
			text, err := b.logs[p].NoteOf(ctx, flow.FactsNote)
			place := sluice.Place{Partition: p}
			if n, _ := fmt.Sscanf(text, "%d-%d/%d", &place.Position.Major, &place.Position.Minor, &place.Index); err == nil && n == 3 {
				b.mu.Lock()
				b.read[p] = place
				b.mu.Unlock()
			}
		}
	}
}

// forgetFacts removes the facts of the run before. In SQLite another connection may be
// writing.
func (b *factsBench) forgetFacts(ctx context.Context) (err error) {
	for range factsTries {
		if _, err = b.db.handle().ExecContext(ctx, "DELETE FROM journey_facts"); err == nil {
			return nil
		}
		if err := pause(ctx, factsLooked); err != nil {
			return err
		}
	}
	return fmt.Errorf("remove the facts of the run before: %w", err)
}

// saturated measures how fast the store works off what waits.
func (b *factsBench) saturated(ctx, leasing context.Context, what string) error {
	if err := b.forgetFacts(ctx); err != nil {
		return err
	}
	events := pick(b.run, factsBacklog, factsBacklogQuick)
	b.run.say("%s: %d events, facts: %s", b.name, events, what)
	asked := b.asked
	for fed := 0; fed < events; fed += factsAtOnce {
		if err := b.feed(ctx, min(factsAtOnce, events-fed), false); err != nil {
			return err
		}
	}
	began := time.Now()
	stored, journeys, stop, err := b.storing(ctx, leasing, what)
	defer stop()
	if what == factsAll {
		began = time.Now() // the records of the journey are read
	}
	if err == nil {
		err = until(ctx, journeyWithin, func() bool { return stored.Stored.Load() >= int64(events) })
	}
	if err != nil {
		return fmt.Errorf("%d of %d events were stored: %w", stored.Stored.Load(), events, err)
	}
	b.add("facts_"+what, "events that the store works off, facts: "+what, "1/s", float64(events)/time.Since(began).Seconds())
	if what == factsNone {
		return nil
	}
	if what == factsAll {
		if err := until(ctx, journeyWithin, func() bool { return journeys.Stats.Told.Load() >= b.asked-asked }); err != nil {
			return fmt.Errorf("%d of %d facts were read: %w", journeys.Stats.Told.Load(), b.asked-asked, err)
		}
		b.add("facts_read", "facts that are read at that", "1/s", float64(b.asked-asked)/time.Since(began).Seconds())
		return nil
	}
	have, err := b.factsThere(ctx)
	if err != nil || have != b.asked-asked {
		return fmt.Errorf("verify the facts: %d of %d were written: %w", have, b.asked-asked, err)
	}
	return nil
}

// factsThere counts the facts in the table.
func (b *factsBench) factsThere(ctx context.Context) (n int64, err error) {
	const all = "SELECT COALESCE(SUM(CASE WHEN kind = 256 THEN number ELSE 1 END), 0) FROM journey_facts"
	if err := b.db.handle().QueryRowContext(ctx, all).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the facts: %w", err)
	}
	return n, nil
}

// paced writes events at a rate while all is at work, and measures how far it is behind.
// Without facts it is the limit of the machine at that rate, in this run.
func (b *factsBench) paced(ctx, leasing context.Context, what string) error {
	if err := b.forgetFacts(ctx); err != nil {
		return err
	}
	b.run.say("%s: %d events a second, facts: %s", b.name, factsRate, what)
	stored, journeys, stop, err := b.storing(ctx, leasing, what)
	defer stop()
	if err != nil {
		return err
	}
	asked, span := b.asked, pick(b.run, factsSpan, factsSpanQuick)
	var fed int64
	var pace pacer
	began := time.Now()
	for since := time.Duration(0); since < span; since = time.Since(began) {
		if n := int64(since.Seconds()*factsRate) - fed; n > 0 {
			if err := b.feed(ctx, int(n), true); err != nil {
				return err
			}
			fed += n
		}
		pace.look(stored.Stored.Load(), since >= span/2)
		if err := pause(ctx, factsTick); err != nil {
			return err
		}
	}
	ended := time.Now()
	all := func() bool { return stored.Stored.Load() >= fed }
	if what == factsNone {
		b.add("facts_none_rate", "events stored a second at the same rate, facts: none", "1/s", pace.perSecond())
		return until(ctx, journeyWithin, all)
	}
	b.add("facts_rate", "events stored a second, of which two sevenths are read as facts and deleted", "1/s", pace.perSecond())
	for _, x := range []struct {
		id, label string
		done      func() bool
	}{
		{"facts_stored_lag", "from the last event until all are stored", all},
		{"facts_told_lag", "from the last event until all facts are read", func() bool { return journeys.Stats.Told.Load() >= b.asked-asked }},
	} {
		if err := until(ctx, journeyWithin, x.done); err != nil {
			return fmt.Errorf("%s: %d of %d events are stored, %d of %d facts are read: %w", x.label, stored.Stored.Load(), fed, journeys.Stats.Told.Load(), b.asked-asked, err)
		}
		b.add(x.id, x.label, "s", time.Since(ended).Seconds())
	}
	return b.deleted(ctx)
}

// pacer measures a rate from commit to commit: each stores tens of thousands of events at
// once.
type pacer struct {
	stored, first int64
	from, to      time.Time
}

// look takes in how much is stored. measured: what is stored from here on counts.
func (p *pacer) look(stored int64, measured bool) {
	if stored == p.stored {
		return
	}
	p.stored, p.to = stored, time.Now()
	if measured && p.from.IsZero() {
		p.first, p.from = stored, p.to
	}
}

// perSecond is 0 if fewer than two commits were measured.
func (p *pacer) perSecond() float64 {
	if p.from.IsZero() || p.to == p.from {
		return 0
	}
	return float64(p.stored-p.first) / p.to.Sub(p.from).Seconds()
}

// deleted notes how many facts are left of those that were read: the store deletes them
// with what it stores, so those of the last transactions stay.
func (b *factsBench) deleted(ctx context.Context) error {
	left, err := b.factsThere(ctx)
	if err != nil {
		return err
	}
	b.add("facts_left", "facts that are read and not deleted yet, at the end", "1", float64(left))
	return nil
}
