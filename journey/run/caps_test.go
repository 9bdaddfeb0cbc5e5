package run

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/journey/step"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
	"sluice/user/rule"
)

// storedBy is the follower that stores the log.
const storedBy = "store"

// stored stores up to n entries of the log, as the store does: the sends of them.
func (b *bed) stored(n int64) {
	b.Helper()
	cursors, err := b.store.Cursors(b.Context(), storedBy, []int{0})
	if err != nil {
		b.Fatal(err)
	}
	at := cursors[0]
	batches, err := b.log.Read(b.Context(), at, n, 0)
	if err != nil || len(batches) == 0 {
		if err != nil {
			b.Fatal(err)
		}
		return
	}
	e := &store.Effect{}
	for i := range batches {
		r, err := sluice.ReadBatch(batches[i].Data)
		if err != nil {
			b.Fatal(err)
		}
		for r.Next() {
			if r.Item.Kind == sluice.ItemContext {
				k := journey.Kept{Partition: b.log.Partition()}
				if err := k.Decode(r.Item.Payload); err != nil {
					b.Fatal(err)
				}
				e.Contexts = append(e.Contexts, k)
			}
			if r.Item.Kind != sluice.ItemSend {
				continue
			}
			s := mail.StoredSend{Place: sluice.Place{Position: batches[i].Position, Index: r.Index}}
			if err := mail.DecodeSend(r.Item.Payload, &s.Send); err != nil {
				b.Fatal(err)
			}
			e.Sends = append(e.Sends, s)
		}
	}
	e.Moves = []store.Move{{Follower: storedBy, From: at, To: batches[len(batches)-1].Position}}
	b.apply(e)
}

// everything is more entries than a log of a test has.
const everything = 10_000

// ledger is how many sends each person has, by address.
func (b *bed) ledger(people int) map[string]int {
	b.Helper()
	all := make(map[string]int)
	for n := 1; n <= people; n++ {
		rows, err := b.store.UserSends(b.Context(), user.ID{Number: int64(n)}, mail.SendKey{}, 100)
		if err != nil {
			b.Fatal(err)
		}
		all[profileAddress(n)] = len(rows)
	}
	return all
}

func profileAddress(n int) string { return fmt.Sprintf("u%d@example.com", n) }

// named gives people keys, so that the ledger knows whose a send is.
func (b *bed) named(people int) {
	b.Helper()
	changes := &user.Changes{}
	for n := range people {
		changes.AddKeys = append(changes.AddKeys, user.KeyRow{Key: user.Key{Kind: user.KeyExternal, Name: fmt.Sprintf("u%d", n+1)}, ID: user.ID{Number: int64(n) + 1}})
	}
	b.apply(&store.Effect{Users: changes})
}

// often sends a mail at once, and two more, an hour apart.
const often = `
id: %s
tags: [%s]
entry: {when: {event: signup}, again_after: 0s}
steps:
  - {id: first, message: {template: x}, next: pause}
  - {id: pause, delay: {for: 1h}, next: second}
  - {id: second, message: {template: x}, next: again}
  - {id: again, delay: {for: 1h}, next: third}
  - {id: third, message: {template: x}}
`

// Of two journeys everybody gets as many mails as the cap allows, and no more, however
// far the store is behind and whichever process makes them. When the window has passed
// it is as many again.
func TestCaps(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const people = 700
	b := newBed(t, people)
	b.named(people)
	b.caps = []journey.Cap{{Name: "two", Class: mail.ClassMarketing, Messages: 2, Window: 24 * time.Hour}}
	b.publish(fmt.Sprintf(often, "a", "red"))
	b.publish(fmt.Sprintf(often, "b", "blue"))
	b.enterAll(people)
	p := b.open()
	for hour := range 5 {
		for done := false; !done; {
			worked, err := p.pass(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			done = !worked && p.capping.ready
			switch n := random.IntN(10); {
			case n == 0:
				p = b.open() // another process
			case n < 4 || !p.capping.ready:
				b.stored(1 + random.Int64N(3))
			}
		}
		if hour < 4 {
			b.clock.Move(time.Hour)
		}
	}
	f := b.read()
	for n := 1; n <= people; n++ {
		if got := f.sends[profileAddress(n)]; got != 2 {
			t.Fatalf("person %d has %d mails, want 2", n, got)
		}
	}
	if got := f.counts["journey/a/first/capped"] + f.counts["journey/a/second/capped"] + f.counts["journey/a/third/capped"] + f.counts["journey/b/first/capped"] + f.counts["journey/b/second/capped"] + f.counts["journey/b/third/capped"]; got != 4*people {
		t.Errorf("%d mails are counted as capped, want %d", got, 4*people)
	}
	b.stored(everything)
	b.clock.Move(24 * time.Hour)
	b.again(people)
	b.passes(p)
	f = b.read()
	for n := 1; n <= people; n++ {
		if got := f.sends[profileAddress(n)]; got != 4 {
			t.Fatalf("person %d has %d mails when the window has passed, want 4", n, got)
		}
	}
}

// again lets everybody in once more.
func (b *bed) again(people int) {
	b.Helper()
	var facts []journey.Fact
	for n := range people {
		facts = append(facts, journey.Fact{Place: sluice.Place{Position: sluice.Position{Major: 2, Minor: uint64(n) + 1}}, Number: int64(n) + 1, Kind: journey.FactEvent, Name: "signup", TimeMillis: 1})
	}
	b.apply(&store.Effect{JourneyFacts: facts})
}

// A process that takes a partition over makes no mail before the store has passed what
// its predecessor has made.
func TestASuccessorCountsBehindTheStore(t *testing.T) {
	b := newBed(t, 1)
	b.named(1)
	b.caps = []journey.Cap{{Name: "one", Messages: 1, Window: time.Hour}}
	b.publish(fmt.Sprintf(often, "a", "red"))
	b.publish(fmt.Sprintf(often, "b", "blue"))
	b.enterAll(1)
	b.passes(b.open())
	b.again(1)
	p := b.open()
	b.passes(p)
	if f := b.read(); p.capping.ready || len(f.ids) != 1 {
		t.Fatalf("%d mails, want 1: the store has not passed it", len(f.ids))
	}
	b.stored(everything)
	b.passes(p)
	if f := b.read(); !p.capping.ready || len(f.ids) != 1 || b.ledger(1)[profileAddress(1)] != 1 {
		t.Errorf("%d mails, want 1", len(f.ids))
	}
}

// When Redis is emptied everybody enters anew, and gets no more than the cap allows.
func TestCapsWhenRedisIsEmptied(t *testing.T) {
	const people = 50
	b := newBed(t, people)
	b.named(people)
	b.caps = []journey.Cap{{Name: "three", Messages: 3, Window: 24 * time.Hour}}
	b.publish(fmt.Sprintf(often, "a", "red"))
	b.publish(fmt.Sprintf(often, "b", "blue"))
	b.enterAll(people)
	b.passes(b.open())
	b.stored(everything)
	if n := b.ledger(people)[profileAddress(7)]; n != 2 {
		t.Fatalf("%d mails before, want 2", n)
	}
	if err := errors.Join(b.log.Clear(t.Context()), b.log.ClearJourneys(t.Context(), 0)); err != nil {
		t.Fatal(err)
	}
	cursors, err := b.store.Cursors(t.Context(), storedBy, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.log.Raise(t.Context(), cursors[0]); err != nil {
		t.Fatal(err)
	}
	b.again(people)
	for range 4 {
		p := b.open()
		b.stored(everything)
		b.passes(p)
		b.stored(everything)
		b.clock.Move(time.Hour)
	}
	for name, n := range b.ledger(people) {
		if n != 3 {
			t.Errorf("%s has %d mails, want 3", name, n)
		}
	}
}

// A cap counts mail of its tag and class alone; mail that ignores caps counts for none
// and is never left out; so is transactional mail.
func TestWhatCapsCount(t *testing.T) {
	b := newBed(t, 3)
	b.named(3)
	b.caps = []journey.Cap{{Name: "promo", Tag: "promo", Class: mail.ClassMarketing, Messages: 1, Window: time.Hour}, {Name: "any", Messages: 3, Window: time.Hour}}
	b.publish(`
id: a
entry: {when: {event: signup}}
steps:
  - {id: one, message: {content: {subject: a, text: a, from: us@example.org}, tags: promo, ignore_caps: true}, next: two}
  - {id: two, message: {content: {subject: a, text: a, from: us@example.org}, tags: promo}, next: three}
  - {id: three, message: {content: {subject: a, text: a, from: us@example.org}, tags: promo}, next: four}
  - {id: four, message: {content: {subject: a, text: a, from: us@example.org}, class: transactional, tags: code}, next: five}
  - {id: five, message: {content: {subject: a, text: a, from: us@example.org}, tags: news}, next: six}
  - {id: six, message: {content: {subject: a, text: a, from: us@example.org}, tags: news}, next: seven}
  - {id: seven, message: {content: {subject: a, text: a, from: us@example.org}, class: transactional, tags: code}}
`)
	b.enterAll(3)
	b.passes(b.open())
	f := b.read()
	for step, want := range map[string]int64{"one": 0, "two": 0, "three": 3, "four": 0, "five": 0, "six": 3, "seven": 0} {
		if got := f.counts["journey/a/"+step+"/capped"]; got != want {
			t.Errorf("%d mails of step %s are left out, want %d", got, step, want)
		}
	}
	if len(f.ids) != 15 {
		t.Errorf("%d mails, want 15", len(f.ids))
	}
}

// Who was merged into a person counts for that person, whichever partition it lived in.
func TestCapsOfFormerUsers(t *testing.T) {
	b := newBed(t, 2)
	b.named(2)
	here, far := user.ID{Number: 9}, user.ID{Partition: 1, Number: 9}
	var sends []mail.StoredSend
	for i, id := range []user.ID{here, far} {
		sends = append(sends, mail.StoredSend{Send: mail.Send{Message: sluice.NewMessageID(b.clock.Now().UnixMilli()), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, Form: mail.ContentMIME,
			AcceptedMillis: b.clock.Now().UnixMilli(), To: "x@example.com", User: id.String()}, Place: sluice.Place{Index: i}})
	}
	b.apply(&store.Effect{Sends: sends, Users: &user.Changes{Put: []user.Row{{ID: here, Profile: "{}"}, {ID: far, Profile: "{}"}}}})
	b.apply(&store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Number: 1}, Profile: fmt.Sprintf(`{"external_id":"u1","former":[%q,%q],"fields":{"email":"u1@example.com"}}`, far, here)}}}})
	b.caps = []journey.Cap{{Name: "three", Messages: 3, Window: time.Hour}}
	b.publish(fmt.Sprintf(often, "a", "red"))
	b.publish(fmt.Sprintf(often, "b", "red"))
	b.enterAll(2)
	b.passes(b.open())
	if f := b.read(); f.sends["u1@example.com"] != 1 || f.sends["u2@example.com"] != 2 {
		t.Errorf("got %v, want 1 and 2 mails", f.sends)
	}
}

// Where nothing is capped nothing is asked; else one statement is for a group of people.
func TestCapsCostOneStatement(t *testing.T) {
	const people = 1000
	for _, x := range []struct {
		caps  []journey.Cap
		most  int
		least int
	}{{nil, 0, 0}, {[]journey.Cap{{Name: "a", Messages: 5, Window: time.Hour}}, 12, 2}} {
		b := newBed(t, people)
		b.named(people)
		b.caps = x.caps
		b.publish(fmt.Sprintf(often, "a", "red"))
		b.enterAll(people)
		b.passes(b.open())
		if f := b.read(); len(f.ids) != people || b.asked < x.least || b.asked > x.most {
			t.Errorf("%d mails took %d statements, want %d to %d", len(f.ids), b.asked, x.least, x.most)
		}
	}
}

// What is in hand is let go of when the store has passed it, and is bounded.
func TestHandIsLetGo(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	x := &capping{hand: make(map[int64][]made)}
	at := func(n uint64) sluice.Position { return sluice.Position{Major: n} }
	x.keepMade(map[int64][]made{1: {{millis: now.UnixMilli()}, {millis: now.UnixMilli()}}}, at(1), now)
	x.keepMade(map[int64][]made{1: {{millis: now.UnixMilli()}}}, at(2), now)
	x.passed = at(1)
	x.letGo(now.Add(handKept))
	if len(x.hand[1]) != 3 {
		t.Errorf("%d mails in hand, want 3: a database may go back", len(x.hand[1]))
	}
	x.letGo(now.Add(handKept + time.Second))
	if len(x.hand[1]) != 1 || len(x.order) != 1 {
		t.Errorf("%d mails in hand, want the one that the store has not passed", len(x.hand[1]))
	}
	x.passed = at(9)
	many := make(map[int64][]made)
	for n := range int64(handAtMost + 10) {
		many[n+10] = []made{{millis: now.UnixMilli()}}
	}
	x.keepMade(many, at(3), now)
	if len(x.order) >= handAtMost || len(x.hand) != len(x.order) {
		t.Errorf("%d mails in hand of %d people", len(x.order), len(x.hand))
	}
}

// alone is a journey of one message, which begins with an event.
func alone(id, more string) string {
	return fmt.Sprintf("\nid: %s\nentry: {when: {event: %s}}\nsteps: [{id: a, message: {template: x, tags: %s%s}}]\n", id, id, id, more)
}

// begin tells everybody's journeys of an event.
func (b *bed) begin(major uint64, event string, people int) {
	b.Helper()
	var facts []journey.Fact
	for n := range people {
		facts = append(facts, journey.Fact{Place: sluice.Place{Position: sluice.Position{Major: major, Minor: uint64(n)}}, Number: int64(n) + 1, Kind: journey.FactEvent, Name: event, TimeMillis: 1})
	}
	b.apply(&store.Effect{JourneyFacts: facts})
}

// A mail counts once, in hand or in the ledger, and no longer than the window in either;
// one that ignores caps counts in neither.
func TestAMailCountsOnce(t *testing.T) {
	for _, stored := range []bool{false, true} {
		const people = 5
		b := newBed(t, people)
		b.named(people)
		b.caps = []journey.Cap{{Name: "two", Messages: 2, Window: time.Hour}}
		for _, j := range []string{alone("free", ", ignore_caps: true"), alone("a", ""), alone("b", ""), alone("c", ""), alone("d", "")} {
			b.publish(j)
		}
		p := b.open()
		for i, x := range []struct {
			event string
			want  int
		}{{"free", 1}, {"a", 2}, {"b", 3}, {"c", 3}, {"d", 4}} {
			if x.event == "d" {
				b.clock.Move(time.Hour + time.Second)
			}
			b.begin(uint64(i)+1, x.event, people)
			p.told = false
			b.passes(p)
			if stored {
				b.stored(everything)
			}
			for to, n := range b.read().sends {
				if n != x.want {
					t.Errorf("stored %v: behind %s %s has %d mails, want %d", stored, x.event, to, n, x.want)
				}
			}
		}
	}
}

// Somebody who was merged, and is told of what came before with the profile of the
// survivor, is counted once, and so is the survivor beside.
func TestCapsOfSomebodyBeforeTheMerge(t *testing.T) {
	b := newBed(t, 2)
	b.named(2)
	former := user.ID{Number: 1}
	s := mail.StoredSend{Send: mail.Send{Message: sluice.NewMessageID(b.clock.Now().UnixMilli()), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, Form: mail.ContentMIME,
		AcceptedMillis: b.clock.Now().UnixMilli(), To: "x@example.com", User: former.String()}}
	b.apply(&store.Effect{Sends: []mail.StoredSend{s}})
	b.caps = []journey.Cap{{Name: "two", Messages: 2, Window: time.Hour}}
	b.publish(alone("a", ""))
	p := b.open()
	profile := fmt.Sprintf(`{"external_id":"u2","former":[%q]}`, former)
	people := []step.Person{p.person(1, journey.Record{}, profile), p.person(2, journey.Record{}, profile)}
	c := p.begin()
	if err := c.askSome(t.Context(), people); err != nil {
		t.Fatal(err)
	}
	if one, two := c.tallies[1].counts[0], c.tallies[2].counts[0]; one != 1 || two != 1 {
		t.Errorf("they got %d and %d mails, want 1 each", one, two)
	}
	v := &version{asks: mailNeedsOf([]rule.Need{{Event: journey.MailReceived}})}
	b.apply(&store.Effect{Outcomes: []mail.StoredOutcome{{Outcome: mail.Outcome{Message: s.Message, Recipients: 1, Was: mail.SendWaiting, State: mail.SendSent, TimeMillis: 1, Attempts: 1}}}})
	if err := p.known(t.Context(), v, people); err != nil || people[0].Given.Known != 1 || people[1].Given.Known != 1 {
		t.Errorf("known are %b and %b: %v", people[0].Given.Known, people[1].Given.Known, err)
	}
}
