package ingest_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice"
	"sluice/ingest"
	"sluice/journey"
	"sluice/lib/faults"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/users"
)

// publisher publishes versions of one journey, as another process does.
type publisher struct {
	*bed
	store   *sqlstore.Store
	journey store.Journey
}

func newPublisher(b *bed) *publisher {
	b.Helper()
	db, err := sqlstore.Open(b.Context(), b.url, calm)
	b.must(err)
	b.Cleanup(func() { _ = db.Close() })
	p := &publisher{bed: b, store: db}
	p.journey, err = db.AddJourney(b.Context(), store.Journey{ID: "cart", Status: "live", CreatedMillis: 1, UpdatedMillis: 1})
	b.must(err)
	return p
}

func (p *publisher) publish(names journey.Names) {
	p.Helper()
	version, _, err := p.store.Publish(p.Context(), p.journey, "{}", names)
	p.must(err)
	p.journey.Version, p.journey.Revision = version, p.journey.Revision+1
}

// allFacts are those of all partitions, in the order of their places: as they are read, for a
// row of the table may have many.
func (b *bed) allFacts() (all []journey.Fact) {
	b.Helper()
	db, err := sqlstore.Open(b.Context(), b.url, sqlstore.Options{})
	b.must(err)
	defer db.Close()
	for part := range testPartitions {
		after := sluice.Place{Partition: part, Index: -1}
		for {
			page, err := db.Facts(b.Context(), part, after, store.MinFacts)
			b.must(err)
			if len(page) == 0 {
				break
			}
			all, after = append(all, page...), page[len(page)-1].Place
		}
	}
	return all
}

// countFacts counts the facts in the table.
func (b *bed) countFacts() (n int) {
	b.Helper()
	b.must(b.db.QueryRowContext(b.Context(), "SELECT COALESCE(SUM(CASE WHEN kind = 256 THEN number ELSE 1 END), 0) FROM journey_facts").Scan(&n))
	return n
}

// facts are the facts of a user in the order of their times, without their places.
func (b *bed) facts(id user.ID) (all []string) {
	b.Helper()
	found := b.allFacts()
	slices.SortStableFunc(found, func(x, y journey.Fact) int { return cmp.Compare(x.TimeMillis, y.TimeMillis) })
	for _, f := range found {
		if f.Number == id.Number && f.Place.Partition == id.Partition {
			all = append(all, strings.TrimRight(fmt.Sprintf("%d|%s|%s", f.Kind, f.Name, f.Body), "|"))
		}
	}
	return all
}

func (b *bed) wantFacts(id user.ID, want ...string) {
	b.Helper()
	if got := b.facts(id); !slices.Equal(got, want) {
		b.Errorf("facts of %s:\n%s\nwant\n%s", id, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// idOf is the user of a key.
func (p *people) idOf(k user.Key) user.ID {
	p.Helper()
	a, err := p.e.store.(user.Store).Users(p.Context(), user.Query{Keys: []user.Key{k}})
	p.must(err)
	if len(a.ByKey[k]) == 0 {
		p.Fatalf("there is no user %v", k)
	}
	return a.ByKey[k][0]
}

// An event that names an existing user is a fact, whichever way it comes in, with its
// properties, and a repeat is none. What names nobody, or is no part of a profile, is none.
func TestFactsOfEachWayIn(t *testing.T) {
	onEach(t, func(b *bed) {
		newPublisher(b).publish(journey.Names{Events: []string{"cart"}, Purchases: []string{journey.Any}})
		apart := eventList("id")
		apart.name, apart.apart = "apart", true
		p := startPeopleWith(b, setup{lists: []listSetup{eventList("id"), apart}})
		p.send(attributes(external(1), `{"n":1}`))
		p.awaitUser("the user is there", external(1), func(*profile.Profile) bool { return true })
		at := 1_700_000_000
		one := func(event, user, rest string) string {
			at++
			return fmt.Sprintf(`{"event":%q,"time":%d,"user_id":%q%s}`, event, at, user, rest)
		}
		known := external(1).Name
		list := one("cart", known, `,"id":"a","items":1`)
		b.push("q", list, list, one("cart", "nobody", ""), one("visit", known, ""))
		b.push("apart", one("cart", known, ""))
		b.awaitSum("events", 4)
		request := one("cart", known, `,"event_id":"b","items":2`)
		p.post(request)
		b.awaitSum("events", 5)
		p.post(request)
		b.push("q", list)
		im := ingest.Import{Logs: p.e.logs, Source: "spill:b", Clock: sluice.SystemClock{}, Counts: true, Reject: func(_ store.Line, reason error) error { return reason }}
		_, err := im.Run(b.Context(), linesOf(one("cart", known, `,"items":3`)), func(ingest.Imported) {})
		b.must(err)
		p.send(user.Update{Op: user.OpEvent, Key: external(1), Name: "cart", Body: `{"items":4}`, TimeMillis: 1_700_001_000_000},
			user.Update{Op: user.OpPurchase, Key: external(1), Name: "hat", Body: `{"currency":"EUR","price":9.5}`, TimeMillis: 1_700_002_000_000})
		b.awaitSum("events", 8)
		b.eventually("the repeats are known", func() bool { return p.e.stats.Duplicates.Load() == 3 })
		p.e.stop()
		b.wantFacts(p.idOfAfter(external(1)), `1|cart|{"items":1}`, `1|cart|{"items":2}`, `1|cart|{"items":3}`, `1|cart|{"items":4}`, `2|hat|{"currency":"EUR","price":9.5}`)
		if n := b.countFacts(); n != 5 {
			b.Errorf("%d facts, want 5", n)
		}
	})
}

// idOfAfter is idOf when the engine has ended.
func (p *people) idOfAfter(k user.Key) user.ID {
	p.Helper()
	db, err := sqlstore.Open(p.Context(), p.url, sqlstore.Options{})
	p.must(err)
	defer db.Close()
	a, err := db.Users(p.Context(), user.Query{Keys: []user.Key{k}})
	p.must(err)
	return a.ByKey[k][0]
}

// Somebody unknown leaves a cart, and signs in: the known user's journeys learn of it,
// and those of the unknown one whom it now is. Both live in partitions of their own.
func TestFactsOfAnUnknownVisitor(t *testing.T) {
	onEach(t, func(b *bed) {
		newPublisher(b).publish(journey.Names{Events: []string{"cart"}, Attributes: []string{"email", "plan", "size"}, Groups: []string{"news"}})
		p := startPeople(b)
		ann, visitor := external(1), user.AliasKey("visitor", "0")
		for i := 1; visitor.Partition(testPartitions) == ann.Partition(testPartitions); i++ {
			visitor = user.AliasKey("visitor", fmt.Sprint(i))
		}
		step := int64(1_700_000_000_000)
		say := func(up user.Update) { step += 1000; up.TimeMillis = step; p.send(up) }
		say(attributes(ann, `{"email":"ann@example.com","plan":"gold"}`))
		p.awaitUser("ann is there", ann, func(*profile.Profile) bool { return true })
		say(user.Update{Op: user.OpAlias, Key: visitor, Body: visitor.Name})
		say(attributes(visitor, `{"size":"L","plan":"free"}`))
		say(user.Update{Op: user.OpEvent, Key: visitor, Name: "cart", Body: `{"items":2}`})
		say(user.Update{Op: user.OpGroup, Key: visitor, Name: "news", Body: "subscribed"})
		p.awaitUser("the visitor has a group", visitor, func(u *profile.Profile) bool { return len(u.Groups) == 1 })
		goes, stays := p.idOf(visitor), p.idOf(ann)
		say(user.Update{Op: user.OpIdentify, Key: visitor, Name: ann.Name, Body: "merge"})
		p.awaitUser("it is ann", ann, func(u *profile.Profile) bool { return u.Custom.Get("size") == `"L"` })
		say(user.Update{Op: user.OpEvent, Key: visitor, Name: "cart", Body: `{"items":3}`})
		p.awaitUser("her cart", ann, func(u *profile.Profile) bool { n, _, _ := counted(u, "cart"); return n == 2 })
		say(user.Update{Op: user.OpDelete, Key: ann})
		b.eventually("she is gone", func() bool { return p.who(ann) == nil })
		p.e.stop()
		b.wantFacts(goes, `3||{"plan":[null,"free"],"size":[null,"L"]}`, `1|cart|{"items":2}`, `4||{"news":[null,"subscribed"]}`, "5|"+stays.String())
		b.wantFacts(stays, `3||{"email":[null,"ann@example.com"],"plan":[null,"gold"]}`, `3||{"size":[null,"L"]}`, `4||{"news":[null,"subscribed"]}`, "6|"+goes.String(), `1|cart|{"items":3}`, "7")
		if n := b.countFacts(); n != 10 {
			b.Errorf("%d facts, want 10", n)
		}
	})
}

// Whatever is accepted after a publish is looked at with the new names, while the store
// works on, and no publish is a failure of the store.
func TestPublishWhileStoring(t *testing.T) {
	onEach(t, func(b *bed) {
		pub := newPublisher(b)
		p := startPeopleWith(b, setup{writers: 2, calm: true})
		p.send(attributes(external(1), `{"n":1}`))
		p.awaitUser("the user is there", external(1), func(*profile.Profile) bool { return true })
		const rounds, each = 12, 5
		var names journey.Names
		others := 0 // people who come while it is published
		for round := range rounds {
			name := fmt.Sprint("e", round)
			stop := make(chan struct{})
			busy := make(chan struct{})
			go func() { // ends when stop is closed
				defer close(busy)
				for {
					select {
					case <-stop:
						return
					default:
						p.send(user.Update{Op: user.OpEvent, Key: external(2 + others), Name: "other"})
						others++
					}
				}
			}()
			names.AddEvent(name)
			pub.publish(names)
			for range each {
				p.send(user.Update{Op: user.OpEvent, Key: external(1), Name: name})
			}
			close(stop)
			<-busy
		}
		p.awaitUser("all are counted", external(1), func(u *profile.Profile) bool {
			n, _, _ := counted(u, fmt.Sprint("e", rounds-1))
			return n == each
		})
		b.eventually("the users of other partitions are stored", func() bool { return b.count("users") == others+1 }) // by another writer
		p.e.stop()
		written := make(map[string]int)
		for _, f := range b.allFacts() {
			written[f.Name]++
		}
		for round := range rounds {
			if got := written[fmt.Sprint("e", round)]; got != each {
				b.Errorf("round %d: %d facts, want %d", round, got, each)
			}
		}
		if got := b.query("SELECT SUM(count) FROM series_hours WHERE name = 'new_user'"); got[0] != fmt.Sprint(others+1) || b.count("users") != others+1 {
			b.Errorf("%s users are counted and %d are there, want %d", got[0], b.count("users"), others+1)
		}
		if !p.e.log.has("the names that journeys ask for have changed") {
			b.Error("no publish met a store at work: this test shows nothing")
		}
		if p.e.log.has("follower failed") || p.e.log.has("follower starts over") || b.count("dead_letters") > 0 {
			b.Errorf("a publish is a failure of the store")
		}
	})
}

// A transaction too large to be kept for a first publish is read again, at once.
func TestPublishBeforeALargeTransaction(t *testing.T) {
	onEachAlone(t, func(b *bed) {
		const n = 9000
		pub := newPublisher(b)
		e := newEngine(b, setup{partitions: 1, calm: true})
		batch := sluice.NewBatch(n * 64)
		for i := range n {
			batch = user.AppendUpdate(batch, &user.Update{Op: user.OpEvent, Key: external(i % 100), Name: "cart", TimeMillis: 1_700_000_000_000})
		}
		e.write(0, "test", batch)
		file := filepath.Join(b.TempDir(), "go-on")
		disarm, err := faults.Arm("load=pause:" + file)
		b.must(err)
		defer disarm()
		e.run()
		b.eventually("it is about to store", func() bool { _, err := os.Stat(file + ".reached"); return err == nil })
		pub.publish(journey.Names{Events: []string{"cart"}})
		b.must(os.WriteFile(file, nil, 0o600))
		b.awaitSum("events", n)
		e.stop()
		if got := b.countFacts(); got != n {
			b.Errorf("%d facts of %d events", got, n)
		}
		if !e.log.has("what was not stored is read again") || e.log.has("follower failed") {
			b.Error("the session has not begun anew, or has failed")
		}
	})
}

// A session that ends anywhere, and a database that goes back, leave each fact once, at
// the place that it had.
func TestFactsAreExactlyOnce(t *testing.T) {
	const n, each = 10, 40
	onEachAlone(t, func(b *bed) {
		newPublisher(b).publish(journey.Names{Events: []string{"cart"}})
		p := startPeople(b)
		for i := range n {
			p.send(attributes(external(i), `{"x":1}`))
		}
		b.eventually("all are there", func() bool { return b.count("users") == n })
		putBack := b.putBack()
		total := 0
		for _, spec := range []string{"commit=error,1", "committed=error,1", "load=error,2", "transaction=error,1"} {
			disarm, err := faults.Arm(spec)
			b.must(err)
			for i := range n * each {
				p.insist(user.Update{Op: user.OpEvent, Key: external(i % n), Name: "cart", Body: fmt.Sprintf(`{"i":%d}`, total+i)})
			}
			total += n * each
			b.awaitSum("events", total)
			disarm()
		}
		before := b.allFacts()
		if len(before) != total {
			b.Errorf("%d facts of %d events", len(before), total)
		}
		putBack()
		b.eventually("the store has noticed", func() bool {
			p.insist(user.Update{Op: user.OpEvent, Key: external(0), Name: "other"})
			return p.e.log.has("follower starts over", "follower=store")
		})
		b.eventually("all is there again", func() bool { return b.countFacts() >= total })
		p.e.stop()
		if after := b.allFacts(); !slices.Equal(before, after) {
			b.Errorf("%d facts are not the %d that there were", len(after), len(before))
		}
	})
}

// Facts go with the transactions of the store, up to where they were read, and no further.
func TestFactsGoWhenTheyAreRead(t *testing.T) {
	onEach(t, func(b *bed) {
		newPublisher(b).publish(journey.Names{Events: []string{"cart"}})
		var read sync.Map // places by partition
		p := startPeopleWith(b, setup{factsUpTo: func(partition int) (sluice.Place, bool) {
			at, ok := read.Load(partition)
			if !ok {
				return sluice.Place{}, false
			}
			return at.(sluice.Place), true
		}})
		const n, each = 8, 10
		say := func(name string) {
			for i := range n {
				p.send(user.Update{Op: user.OpEvent, Key: external(i), Name: name})
			}
		}
		for range each {
			say("cart")
		}
		b.awaitSum("events", n*each)
		if got := b.countFacts(); got != n*each {
			b.Fatalf("%d facts, want %d", got, n*each)
		}
		var left []journey.Fact
		for part := range testPartitions {
			facts, err := p.e.store.(store.JourneyStore).Facts(b.Context(), part, sluice.Place{}, n*each)
			b.must(err)
			if len(facts) > 0 { // half of them were read
				at := facts[len(facts)/2].Place
				read.Store(part, at)
				left = append(left, slices.DeleteFunc(facts, func(f journey.Fact) bool { return !behind(f.Place, at) })...)
			}
		}
		b.eventually("what was read is gone", func() bool {
			say("other")
			rows := 0 // a row has the place of the last of its facts
			read.Range(func(part, at any) bool {
				to := at.(sluice.Place)
				rows += b.count(fmt.Sprintf("journey_facts WHERE part = %d AND (pos_major < %d OR pos_major = %d AND (pos_minor < %d OR pos_minor = %d AND item <= %d))",
					part, to.Position.Major, to.Position.Major, to.Position.Minor, to.Position.Minor, to.Index))
				return true
			})
			return rows == 0
		})
		p.e.stop()
		all := slices.DeleteFunc(b.allFacts(), func(f journey.Fact) bool {
			at, ok := read.Load(f.Place.Partition)
			return ok && !behind(f.Place, at.(sluice.Place)) // it is in a row with later ones
		})
		if !slices.Equal(all, left) {
			b.Errorf("%d facts are left, want %d", len(all), len(left))
		}
	})
}

// behind reports whether a place of a partition comes later than another.
func behind(p, at sluice.Place) bool {
	return cmp.Or(p.Position.Compare(at.Position), cmp.Compare(p.Index, at.Index)) > 0
}

// When the last version has ended, facts that nobody has read go as well.
func TestFactsThatNobodyReadsGo(t *testing.T) {
	onEach(t, func(b *bed) {
		pub := newPublisher(b)
		pub.publish(journey.Names{Events: []string{"cart"}})
		p := startPeopleWith(b, setup{factsUpTo: func(part int) (sluice.Place, bool) {
			return sluice.Place{Partition: part, Position: sluice.Position{Major: 1}}, true
		}})
		p.send(user.Update{Op: user.OpEvent, Key: external(1), Name: "cart"})
		b.awaitSum("events", 1)
		p.send(user.Update{Op: user.OpEvent, Key: external(1), Name: "other"})
		b.awaitSum("events", 2)
		if n := b.countFacts(); n != 1 {
			b.Fatalf("%d facts, want 1", n)
		}
		b.must(pub.store.EndVersions(b.Context(), pub.journey.Number, []int{1}, 2))
		b.eventually("the fact is gone", func() bool {
			p.send(user.Update{Op: user.OpEvent, Key: external(1), Name: "other"})
			return b.countFacts() == 0
		})
		p.e.stop()
	})
}

// Facts of which nothing is asked cost no row.
func TestNoFactsWithoutJourneys(t *testing.T) {
	onEach(t, func(b *bed) {
		pub := newPublisher(b)
		p := startPeople(b)
		p.send(user.Update{Op: user.OpEvent, Key: external(1), Name: "cart"}, user.Update{Op: user.OpMerge, Key: external(1), Name: users.MergeName(external(2))})
		b.awaitSum("events", 1)
		pub.publish(journey.Names{Events: []string{"cart"}})
		b.must(pub.store.EndVersions(b.Context(), pub.journey.Number, []int{1}, 2))
		p.send(user.Update{Op: user.OpEvent, Key: external(1), Name: "cart"}, user.Update{Op: user.OpDelete, Key: external(1)})
		b.eventually("the user is gone", func() bool { return p.who(external(1)) == nil && b.count("events") == 2 })
		p.e.stop()
		if n := b.countFacts(); n != 0 {
			b.Errorf("%d facts", n)
		}
	})
}
