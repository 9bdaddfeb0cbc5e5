package storetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"sluice"
	"sluice/journey"
	"sluice/lib/faults"
	"sluice/store"
	"sluice/user"
)

func (f *fixture) journeys(t *testing.T) store.JourneyStore {
	t.Helper()
	return f.store.(store.JourneyStore)
}

// aJourney is one with what is hard to keep.
func aJourney(id string) store.Journey {
	return store.Journey{ID: id, Name: "für 🌍", Status: "draft", Draft: `{"a":"ä\\n\t'"}` + strings.Repeat("x", 200_000), CreatedMillis: 1_700_000_000_123, UpdatedMillis: 1_700_000_000_124}
}

// publish publishes a journey that is added for it.
func (f *fixture) publish(t *testing.T, id string, names journey.Names) (j store.Journey, published int64) {
	t.Helper()
	j, err := f.journeys(t).AddJourney(f.ctx, aJourney(id))
	must(t, err)
	version, published, err := f.journeys(t).Publish(f.ctx, j, j.Draft, names)
	must(t, err)
	want(t, "version", version, 1)
	j.Version, j.Revision = version, 1
	return j, published
}

func (f *fixture) registered(t *testing.T) *journey.Registered {
	t.Helper()
	r, err := f.journeys(t).Registered(f.ctx)
	must(t, err)
	return r
}

func wantCode(t *testing.T, err error, code sluice.Code) {
	t.Helper()
	if e, ok := errors.AsType[*sluice.Error](err); !ok || e.Code != code {
		t.Fatalf("got %v, want an error of code %s", err, code)
	}
}

// testJourneys: journeys are kept as they are, and only a caller that has read the last
// revision changes one.
func testJourneys(t *testing.T, f *fixture) {
	db := f.journeys(t)
	var all []store.Journey
	for _, id := range []string{"b", "a", "A"} {
		j, err := db.AddJourney(f.ctx, aJourney(id))
		must(t, err)
		all = append(all, j)
	}
	want(t, "numbers", fmt.Sprint(all[0].Number, all[1].Number, all[2].Number), "1 2 3")
	_, err := db.AddJourney(f.ctx, aJourney("b"))
	wantCode(t, err, sluice.CodeInvalid)
	_, err = db.Journey(f.ctx, "c")
	wantCode(t, err, sluice.CodeNotFound)
	b := all[0]
	b.Name, b.Status, b.Draft, b.UpdatedMillis = "other", "live", "{}", 1_700_000_000_999
	must(t, db.PutJourney(f.ctx, b))
	wantError(t, db.PutJourney(f.ctx, b), sluice.ErrConflict)
	_, _, err = db.Publish(f.ctx, b, "{}", journey.Names{})
	wantError(t, err, sluice.ErrConflict)
	b.Revision++
	got, err := db.Journey(f.ctx, "b")
	must(t, err)
	want(t, "journey", got, b)
	for after, ids := range map[string]string{"": "A a", "A": "a b", "a": "b", "b": ""} {
		list, err := f.Open(t).(store.JourneyStore).Journeys(f.ctx, after, 2)
		must(t, err)
		var found []string
		for _, j := range list {
			found = append(found, j.ID)
		}
		want(t, "after "+after, strings.Join(found, " "), ids)
	}
}

// testPutStatus: with a new status the publish number rises, and only then; a caller
// that has not read the last revision changes neither.
func testPutStatus(t *testing.T, f *fixture) {
	db := f.journeys(t)
	j, published := f.publish(t, "a", journey.Names{Events: []string{"e"}})
	j.Status, j.UpdatedMillis, j.SkipUntilMillis = journey.StatusPaused, 1_700_000_000_999, 1_700_000_000_123
	raised, err := db.PutStatus(f.ctx, j)
	must(t, err)
	if raised <= published || f.registered(t).Published() != raised || !f.registered(t).Names().HasEvent("e") {
		t.Fatalf("the number is %d after %d, %d is to be seen", raised, published, f.registered(t).Published())
	}
	if _, err = db.PutStatus(f.ctx, j); !errors.Is(err, sluice.ErrConflict) || f.registered(t).Published() != raised {
		t.Fatalf("a revision that is past: %v, the number is %d after %d", err, f.registered(t).Published(), raised)
	}
	j.Revision++
	got, err := db.Journey(f.ctx, "a")
	must(t, err)
	want(t, "journey", got, j)
	must(t, db.PutJourney(f.ctx, j))
	want(t, "number after a draft", f.registered(t).Published(), raised)
}

// testPutHold: a journey that is paused with a reason stands, and says why, until it is
// resumed. A pause without a reason leaves none.
func testPutHold(t *testing.T, f *fixture) {
	db := f.journeys(t)
	put := func(id, status, why string) {
		t.Helper()
		j, err := db.Journey(f.ctx, id)
		must(t, err)
		j.Status, j.Hold = status, why
		_, err = db.PutStatus(f.ctx, j)
		must(t, err)
		j, err = db.Journey(f.ctx, id)
		must(t, err)
		want(t, "why "+id+" stands", j.Hold, why[:min(len(why), store.MaxHoldBytes)])
	}
	f.publish(t, "a", journey.Names{})
	f.publish(t, "b", journey.Names{})
	put("a", journey.StatusPaused, "")
	put("b", journey.StatusPaused, "too much of it came back"+strings.Repeat(".", store.MaxHoldBytes))
	held, err := db.HeldJourneys(f.ctx)
	must(t, err)
	n, err := db.Held(f.ctx)
	must(t, err)
	if len(held) != 1 || n != 1 || !strings.HasPrefix(held["b"], "too much of it") {
		t.Fatalf("these stand: %v, %d", held, n)
	}
	put("b", journey.StatusLive, "")
	held, err = db.HeldJourneys(f.ctx)
	must(t, err)
	want(t, "journeys that stand", len(held), 0)
}

// testPublish: the names of the versions in use are those that are registered, and each
// change of them raises the publish number.
func testPublish(t *testing.T, f *fixture) {
	db := f.journeys(t)
	number := func(want int64) {
		t.Helper()
		if got, err := db.Published(f.ctx); err != nil || got != want {
			t.Fatalf("the publish number is %d, %v, want %d", got, err, want)
		}
	}
	number(0)
	first := f.registered(t)
	number(first.Published())
	if first.Any() || first.Published() == 0 || f.registered(t).Published() != first.Published() {
		t.Fatalf("at first: %+v", first)
	}
	names := journey.Names{Events: []string{"b", "ä'\\"}, Purchases: []string{"*"}, Attributes: []string{"plan"}, Groups: []string{"news"}}
	j, published := f.publish(t, "a", names)
	number(published)
	r := f.registered(t)
	if r.Published() != published || published <= first.Published() || !r.Any() || !reflect.DeepEqual(*r.Names(), names) {
		t.Fatalf("published %d after %d: %+v", published, first.Published(), r)
	}
	v, err := db.JourneyVersion(f.ctx, j.Number, 1)
	must(t, err)
	if v.Document != j.Draft || !reflect.DeepEqual(v.Names, names) || v.EndedMillis != 0 || v.CreatedMillis != j.UpdatedMillis {
		t.Fatalf("version: %+v", v)
	}
	_, err = db.JourneyVersion(f.ctx, j.Number, 2)
	wantCode(t, err, sluice.CodeNotFound)
	for _, bad := range []string{"", "\xff", strings.Repeat("é", 256)} {
		_, _, err = db.Publish(f.ctx, j, "{}", journey.Names{Events: []string{bad}})
		wantCode(t, err, sluice.CodeInvalid)
	}
	version, second, err := db.Publish(f.ctx, j, "{}", journey.Names{Events: []string{"c"}})
	must(t, err)
	if r := f.registered(t); version != 2 || second <= published || !r.Names().HasEvent("b") || !r.Names().HasEvent("c") || r.Published() != second {
		t.Fatalf("version %d, published %d after %d: %+v", version, second, published, r)
	}
	must(t, db.EndVersions(f.ctx, j.Number, []int{1, 7}, 1_700_000_001_000))
	if r := f.registered(t); r.Published() <= second || r.Names().HasEvent("b") || !r.Names().HasEvent("c") || r.Names().HasPurchase("x") {
		t.Fatalf("after version 1: %+v", r)
	}
	ended := f.registered(t).Published()
	must(t, db.EndVersions(f.ctx, j.Number, []int{1}, 1_700_000_009_000))
	want(t, "number after a version that has ended before", f.registered(t).Published(), ended)
	used, err := db.VersionsInUse(f.ctx)
	must(t, err)
	if len(used) != 1 || used[0].Version != 2 {
		t.Fatalf("in use: %+v", used)
	}
	v, err = db.JourneyVersion(f.ctx, j.Number, 1)
	must(t, err)
	want(t, "ended", v.EndedMillis, 1_700_000_001_000)
}

// testPublishRestored: no number is given twice where a database goes back, and one that
// was made without a number gets one.
func testPublishRestored(t *testing.T, f *fixture) {
	db := f.store.(store.DumpStore)
	f.publish(t, "a", journey.Names{Events: []string{"e"}})
	dump := Dump(t, db)
	_, lost := f.publish(t, "b", journey.Names{Events: []string{"lost"}})
	for _, table := range []string{"", "journey_publish"} {
		delete(dump, table)
		r, err := db.BeginRestore(f.ctx, true)
		must(t, err)
		PutBack(t, r, dump)
		must(t, r.Finish(f.ctx, nil, nil))
		got := f.registered(t)
		if got.Published() <= lost || !got.Names().HasEvent("e") || got.Names().HasEvent("lost") {
			t.Fatalf("without %q the number is %d after %d: %+v", table, got.Published(), lost, got)
		}
		lost = got.Published()
	}
}

// testContexts: of one person and journey the last counts, an end leaves the body, and what
// has ended goes after a while, in pieces. What is applied again changes nothing.
func testContexts(t *testing.T, f *fixture) {
	f.start(t)
	const many = 6000
	kept := func(part int, number, of int64, entered uint32, body string) journey.Kept {
		return journey.Kept{Partition: part, Journey: of, Number: number, Entered: entered, Occurrence: 2, Body: body}
	}
	end := func(k journey.Kept, millis int64) journey.Kept {
		k.Body, k.EndedMillis = "", millis
		return k
	}
	all := []journey.Kept{kept(3, 1, 7, 5, `{"a":"ä"}`), kept(3, 1, 8, 5, `{"b":1}`), kept(4, 1, 7, 6, `{}`), kept(3, 2, 7, 4, `{"old":1}`), end(kept(3, 2, 7, 4, ""), 1000), kept(3, 2, 7, 9, `{"new":1}`),
		kept(3, 3, 7, 5, `{"c":1}`), end(kept(3, 3, 7, 5, ""), 2000)}
	for range 2 {
		f.apply(t, store.Effect{Contexts: all}, 0, 0)
	}
	f.apply(t, store.Effect{Contexts: []journey.Kept{end(kept(3, 1, 7, 5, ""), 3000), end(kept(3, 99, 7, 5, ""), 3000)}}, 0, 0)
	journeys := f.store.(store.JourneyStore)
	read := func() map[int64]journey.Kept {
		found, err := journeys.Contexts(f.ctx, 3, 7, []int64{1, 2, 3, 99})
		must(t, err)
		by := make(map[int64]journey.Kept)
		for _, k := range found {
			by[k.Number] = k
		}
		return by
	}
	first, third := all[0], all[6]
	first.EndedMillis, third.EndedMillis = 3000, 2000
	want(t, "contexts", fmt.Sprint(read()), fmt.Sprint(map[int64]journey.Kept{1: first, 2: all[5], 3: third}))
	keep := f.store.(store.RetentionStore)
	n, more, err := keep.DeleteContexts(f.ctx, 2001)
	must(t, err)
	want(t, "deleted", fmt.Sprint(n, more), "1 false")
	var wave []journey.Kept
	for i := range int64(many) {
		wave = append(wave, kept(5, i+1, 7, 5, `{"a":1}`))
	}
	f.apply(t, store.Effect{Contexts: wave}, 0, 0)
	for i := range wave {
		wave[i] = end(wave[i], 10_000+int64(i))
	}
	f.apply(t, store.Effect{Contexts: wave}, 0, 0)
	for n, more = 0, true; more; {
		var some int
		some, more, err = keep.DeleteContexts(f.ctx, 20_000)
		must(t, err)
		n += some
	}
	want(t, "deleted of the wave and one", n, many+1)
	n, err = keep.EraseFacts(f.ctx, []store.Erasure{{Name: user.ID{Partition: 3, Number: 1}.String()}, {Name: user.ID{Partition: 3, Number: 2}.String()}})
	must(t, err)
	want(t, "erased", n, 2)
	want(t, "contexts of others", f.count(t, "journey_context WHERE part = 4"), 1)
	want(t, "contexts", f.count(t, "journey_context"), 1)
}

// testStaleNames: an effect that was made with the names of before a publish writes
// nothing, by either path, and so does one that knows a number that never was.
func testStaleNames(t *testing.T, f *fixture) {
	f.start(t)
	old := f.registered(t).Published()
	e := store.Effect{Published: old, Events: []store.StoredEvent{event(1)}, JourneyFacts: []journey.Fact{aFact(0, 5, 0, 1, journey.FactEvent)}}
	f.apply(t, e, 1, 0)
	_, published := f.publish(t, "a", journey.Names{Events: []string{"e"}})
	e.Events, e.JourneyFacts = []store.StoredEvent{event(2)}, []journey.Fact{aFact(0, 6, 0, 1, journey.FactEvent)}
	for _, number := range []int64{old, published + 1} {
		e.Published = number
		p := f.prepare(t, f.step(e))
		for _, apply := range []func() (store.Applied, error){
			func() (store.Applied, error) { return f.store.Apply(f.ctx, p) },
			func() (store.Applied, error) { return f.store.ApplyEach(f.ctx, p) },
		} {
			if _, err := apply(); !errors.Is(err, store.ErrPublished) || errors.Is(err, sluice.ErrConflict) || errors.Is(err, sluice.ErrRefused) {
				t.Fatalf("got %v, want %v", err, store.ErrPublished)
			}
			f.wantCursor(t)
			want(t, "facts and events", f.count(t, "journey_facts")+f.count(t, "events"), 2)
		}
	}
	e.Published = published
	f.apply(t, e, 1, 0)
	e.Published, e.Events, e.JourneyFacts = 0, nil, nil
	f.apply(t, e, 0, 0) // it goes by no names
}

// testFrozenAtPublish: a process that is frozen in its transaction before it looks at
// the publish number does not hold a publish up, and commits nothing after it. One that
// is frozen behind the look has the publish wait for its commit.
func testFrozenAtPublish(t *testing.T, f *fixture) {
	if f.Waiting == "" {
		return // it has one writer: nothing is published within another's transaction
	}
	f.start(t)
	z := &frozen{fixture: f, other: f.Open(t).(store.JourneyStore)}
	z.journey, z.published = f.publish(t, "a", journey.Names{Events: []string{"e"}})
	committed, refused := 0, 0
	for tries := 0; committed < 2 || refused < 2; tries++ {
		if tries == 10 {
			t.Fatalf("in ten tries %d effects were committed and %d refused", committed, refused)
		}
		switch err := z.try(t, "transaction"); {
		case err == nil:
			t.Fatal("an effect is committed after a publish that it does not know")
		case errors.Is(err, store.ErrPublished):
			refused++ // else it was frozen for so long that the server has ended its session
		}
		want(t, "facts after a publish", f.count(t, "journey_facts"), committed)
		if err := z.try(t, "commit"); err == nil {
			committed++
		}
		want(t, "facts", f.count(t, "journey_facts"), committed)
	}
}

// frozen is a process that is frozen while another publishes.
type frozen struct {
	*fixture
	other     store.JourneyStore
	journey   store.Journey
	published int64
	item      uint64
}

// try freezes an effect at a point, until a publish has come as far as it can, and returns
// what became of the effect.
func (z *frozen) try(t *testing.T, point string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "go-on")
	disarm, err := faults.Arm(point + "=pause:" + file)
	must(t, err)
	defer disarm()
	z.item++
	effect := z.step(store.Effect{Published: z.published, JourneyFacts: []journey.Fact{aFact(0, z.item, 0, 1, journey.FactEvent)}})
	p := z.prepare(t, effect)
	applied, done := make(chan error, 1), make(chan error, 1)
	go func() { _, err := z.store.Apply(z.ctx, p); applied <- err }() // ends when it may go on
	z.until(t, "it is frozen", func() bool { _, err := os.Stat(file + ".reached"); return err == nil })
	before := z.count(t, "journey_facts")
	go func() { // ends with the publish
		var err error
		z.journey.Version, z.published, err = z.other.Publish(z.ctx, z.journey, "{}", journey.Names{Events: []string{"e", point}})
		z.journey.Revision++
		done <- err
	}()
	z.until(t, "the publish is done, or waits for the commit", func() bool {
		return len(done) > 0 || point == "commit" && z.Query(t, z.Waiting)[0][0] != "0"
	})
	overtaken := len(done) > 0
	must(t, os.WriteFile(file, nil, 0o600))
	err = <-applied
	must(t, <-done)
	if err == nil {
		z.at = effect.Moves[0].To
		if after := z.count(t, "journey_facts"); overtaken && point == "commit" {
			t.Fatalf("it was published in the middle of a commit: %d facts by then, %d now", before, after)
		}
	}
	return err
}

// testPublishBesideStores: many effects and publishes at once come to no deadlock, and
// no effect is committed under a number that is past.
func testPublishBesideStores(t *testing.T, f *fixture) {
	f.start(t)
	j, _ := f.publish(t, "a", journey.Names{Events: []string{"e"}})
	const publishes = 15
	stop, failed := make(chan struct{}), make(chan error, 2)
	if _, err := f.store.Cursors(f.ctx, follower, []int{0, 1}); err != nil {
		t.Fatal(err)
	}
	for part := range 2 {
		db := f.Open(t)
		go func() { failed <- storeOn(f, db, part, stop) }() // ends when stop is closed
	}
	last := int64(0)
	for range publishes {
		version, published, err := f.journeys(t).Publish(f.ctx, j, "{}", journey.Names{Events: []string{"e"}})
		must(t, err)
		// What is committed by now under an older number is all that ever will be.
		older := "journey_facts WHERE number < " + strconv.FormatInt(published, 10)
		before := f.count(t, older)
		if last > 0 && before < int(last) {
			t.Fatalf("%d facts, there were %d", before, last)
		}
		f.until(t, "a fact of the new number", func() bool {
			return f.count(t, "journey_facts WHERE number >= "+strconv.FormatInt(published, 10)) > 0 || len(failed) > 0
		})
		if after := f.count(t, older); after != before {
			t.Errorf("%d facts of older numbers when it was published, %d later", before, after)
		}
		j.Version, j.Revision, last = version, j.Revision+1, int64(before)
	}
	close(stop)
	must(t, <-failed)
	must(t, <-failed)
}

// storeOn applies effects in a partition until stop is closed, each with a fact whose
// number is the publish number that it goes by.
func storeOn(f *fixture, db store.Store, part int, stop chan struct{}) error {
	at, number := sluice.Position{}, int64(0)
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		next := sluice.Position{Major: at.Major + 1}
		fact := aFact(part, next.Major, 0, number, journey.FactEvent)
		effect := &store.Effect{Published: number, JourneyFacts: []journey.Fact{fact}, Moves: []store.Move{{Follower: follower, Partition: part, From: at, To: next}}}
		p, err := db.Prepare(effect)
		if err == nil && number > 0 {
			_, err = db.Apply(f.ctx, p)
		}
		if number == 0 || errors.Is(err, store.ErrPublished) {
			r, err := db.(store.JourneyStore).Registered(f.ctx)
			if err != nil {
				return err
			}
			number = r.Published()
			continue
		}
		if err != nil {
			return fmt.Errorf("partition %d: %w", part, err)
		}
		at = next
	}
}
