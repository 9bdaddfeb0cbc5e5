package run

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sluice"
	"testing"
	"time"

	"sluice/flow"
	"sluice/journey"
	"sluice/lib/faults"
	"sluice/store"
)

// Wherever a session ends, before a commit or behind it with its answer lost, the next
// one goes on: everybody takes one way, and gets each mail once.
func TestASessionMayEndAnywhere(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const people = 9000
	b := newBed(t, people)
	b.publish(welcome)
	b.enterAll(people)
	ended := 0
	for range 3 {
		ended += b.endAnywhereBy(random)
		b.clock.Move(time.Hour)
	}
	if ended < 5 {
		t.Errorf("only %d sessions ended in the middle: the test does not see it", ended)
	}
	f := b.read()
	for n := 1; n <= people; n++ {
		want := 2
		if n%3 == 0 {
			want = 1
		}
		if got := f.sends[fmt.Sprintf("u%d@example.com", n)]; got != want {
			t.Fatalf("person %d has %d mails, want %d", n, got, want)
		}
	}
	if got := f.counts["journey/welcome/pause/entered"]; got != people {
		t.Errorf("%d people have entered, want %d", got, people)
	}
}

// endAnywhere works until nothing is left to do, by sessions that end before a commit or
// behind one.
func (b *bed) endAnywhere() {
	b.Helper()
	seed := rand.Uint64()
	b.Logf("seed %d", seed)
	b.endAnywhereBy(rand.New(rand.NewPCG(seed, 0)))
}

// endAnywhereBy is endAnywhere, and returns how many sessions ended in the middle.
func (b *bed) endAnywhereBy(random *rand.Rand) (ended int) {
	b.Helper()
	for done := false; !done; {
		disarm, err := faults.Arm(fmt.Sprintf("%s=error,%d", []string{"journey", "journey-moved"}[random.IntN(2)], 1+random.IntN(2)))
		if err != nil {
			b.Fatal(err)
		}
		p, err := b.tryOpen()
		for !done && err == nil {
			var worked bool
			worked, err = p.pass(b.Context())
			done = err == nil && !worked
		}
		disarm()
		if err != nil && !errors.Is(err, faults.ErrInjected) {
			b.Fatal(err)
		}
		if err != nil {
			ended++
		}
	}
	return ended
}

// A process that has lost the partition to another changes nothing any more.
func TestAZombieMovesNobody(t *testing.T) {
	b := newBed(t, 10)
	b.publish(welcome)
	b.enterAll(10)
	zombie, other := b.open(), b.open()
	b.passes(other)
	b.clock.Move(time.Hour)
	if _, err := zombie.pass(t.Context()); err == nil {
		t.Fatal("a session goes on where another has moved people meanwhile")
	}
	b.passes(b.open())
	if f := b.read(); len(f.sends) != 10 || f.counts["journey/welcome/pause/entered"] != 10 {
		t.Errorf("%d people have mail, %d have entered, want 10", len(f.sends), f.counts["journey/welcome/pause/entered"])
	}
}

// records reads where people are.
func (b *bed) records(j store.Journey) map[int64]journey.Record {
	b.Helper()
	all := make(map[int64]journey.Record)
	err := b.log.Records(int(j.Number)).Load(b.Context(), func(u *flow.Unit) error {
		u.Each(func(number int64, raw *flow.Record) {
			var r journey.Record
			if err := r.Decode(raw[:]); err != nil {
				b.Fatal(err)
			}
			all[number] = r
		})
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return all
}

// A session that does not know a version yet leaves the facts that are for it to one that
// does.
func TestFactsOfAPublishToCome(t *testing.T) {
	b := newBed(t, 3)
	b.publish(welcome)
	old := b.open()
	j := b.publish(cart)
	b.fact(1, 1, journey.FactEvent, "cart", `{"items":2}`)
	if worked, err := old.pass(t.Context()); worked || !errors.Is(err, errChanged) {
		t.Errorf("a session of before the publish has worked: %v, %v", worked, err)
	}
	b.passes(b.open())
	if r := b.records(j)[1]; r.State != journey.StateInside {
		t.Errorf("the fact was passed over: the person is %s", r.State)
	}
}

// cart waits for a purchase for a day, and mails to the others.
const cart = `
id: cart
tags: cart
entry:
  when: {event: cart, where: {property: items, is: greater_than, value: 0}}
  again_after: 1h
steps:
  - {id: wait, wait_for: {within: 1d, paths: [{name: bought, when: {purchase: "*"}, next: thanks}], otherwise: remind}}
  - {id: remind, message: {template: x}}
  - {id: thanks, message: {template: x}}
exit_when: {attribute: plan, to: gold}
`

// Facts let people in, move those who wait for them, and take people out, each once and
// in their order, also several of one person at once.
func TestFacts(t *testing.T) {
	b := newBed(t, 10)
	j := b.publish(cart)
	filled := func(minor uint64, number int64) { b.fact(minor, number, journey.FactEvent, "cart", `{"items":2}`) }
	filled(1, 1)
	filled(2, 2)
	b.fact(3, 2, journey.FactPurchase, "shoe", `{"currency":"EUR","price":1}`)
	filled(4, 3)
	b.fact(5, 3, journey.FactAttributes, "", `{"plan":["free","gold"]}`)
	b.fact(6, 4, journey.FactEvent, "cart", `{"items":0}`)
	b.fact(7, 5, journey.FactEvent, "other", ``)
	filled(8, 6)
	b.fact(9, 6, journey.FactAttributes, "", `{"plan":["gold","free"]}`)
	filled(10, 7)
	b.fact(11, 7, journey.FactDeleted, "", "")
	filled(12, 1)  // is inside
	filled(13, 2)  // was inside a moment ago
	filled(14, 99) // nobody
	p := b.open()
	b.passes(p)
	want := map[int64]journey.State{1: journey.StateInside, 2: journey.StateFinished, 3: journey.StateExited, 6: journey.StateInside, 7: journey.StateExited}
	got := b.records(j)
	for n, state := range want {
		if got[n].State != state {
			t.Errorf("person %d is %s, want %s", n, got[n].State, state)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d people have records, want %d: %v", len(got), len(want), got)
	}
	b.clock.Move(time.Hour)
	filled(15, 2) // for the second time
	b.passes(p)
	if r := b.records(j)[2]; r.State != journey.StateInside || r.Occurrence != 1 {
		t.Errorf("an hour later a person is %+v, want inside for the second time", r)
	}
	b.clock.Move(24 * time.Hour)
	b.passes(b.open())
	f := b.read()
	for n, want := range map[int]int{1: 1, 2: 2, 3: 0, 4: 0, 6: 1, 7: 0} {
		if got := f.sends[fmt.Sprintf("u%d@example.com", n)]; got != want {
			t.Errorf("person %d has %d mails, want %d", n, got, want)
		}
	}
	if n := f.counts["journey/cart/wait/passed/bought"]; n != 1 {
		t.Errorf("%d people have bought in time, want 1", n)
	}
}

// A fact that is met again, after Redis has lost what came of it, makes the same mail: its
// name is that of the fact's moment, not of the moment of reading.
func TestAFactMetAgainMakesTheSameMail(t *testing.T) {
	b := newBed(t, 10)
	b.publish(`
id: hello
entry: {when: {event: signup}}
steps:
  - {id: hello, message: {template: x}}
`)
	b.apply(&store.Effect{JourneyFacts: []journey.Fact{{Place: sluice.Place{Position: sluice.Position{Major: uint64(b.clock.Now().UnixMilli()), Minor: 1}}, Number: 3, Kind: journey.FactEvent, Name: "signup", TimeMillis: 1}}})
	b.passes(b.open())
	if f := b.read(); len(f.ids) != 1 {
		t.Fatalf("%d mails, want 1", len(f.ids))
	}
	if err := b.log.ClearJourneys(t.Context(), 0); err != nil { // as if it had gone back
		t.Fatal(err)
	}
	b.clock.Move(3 * time.Second)
	b.passes(b.open())
	f := b.read()
	if len(f.ids) != 1 || f.sends["u3@example.com"] != 2 {
		t.Errorf("read twice, a fact makes %d mails of %d names, want 2 of one", f.sends["u3@example.com"], len(f.ids))
	}
}

// People who cannot be moved, of a version that is not there, keep none of the others
// waiting, and are looked at again when it is.
func TestAVersionThatIsGoneStopsNobody(t *testing.T) {
	const people = 100
	b := newBed(t, people)
	j := b.publish(welcome)
	b.enterAll(people)
	p := b.open()
	b.passes(p)
	c := p.begin()
	lost := b.records(j)[7]
	lost.Version = 9
	if err := c.set(t.Context(), p.journeys[0], 7, &lost); err != nil {
		t.Fatal(err)
	}
	if err := c.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.clock.Move(time.Hour)
	b.passes(b.open())
	if n := len(b.read().sends); n != people-1 {
		t.Errorf("%d people have mail, want %d", n, people-1)
	}
	if r := b.records(j)[7]; r.State != journey.StateInside || r.Due <= uint32(b.clock.Now().Unix()) {
		t.Errorf("the one of a version that is gone is %+v, want inside and later", r)
	}
}
