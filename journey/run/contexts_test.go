package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/journey"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// remembers looks at what people entered with behind waits: in a rule, in a date and in a
// mail.
const remembers = `
id: cart
entry: {when: [{event: cart}, {api: true}], again_after: 0s}
steps:
  - {id: pause, delay: {for: 1h}, next: worth}
  - {id: worth, split: {if: {context: total, is: greater_than, value: 20}, then: day, else: small}}
  - {id: day, delay: {until_date: {context: day, otherwise: exit}}, next: remind}
  - {id: remind, message: {template: total, variables: {a: 1}}}
  - {id: small, message: {template: x}}
exit_when: {event: quit}
`

// withTemplate adds a template that has a member of the context.
func (b *bed) withTemplate() {
	b.Helper()
	err := b.store.AddTemplate(b.Context(), mail.Template{ID: "total", Name: "total", Current: 1}, mail.TemplateVersion{Template: "total", Version: 1, Class: mail.ClassMarketing,
		Subject: "Your cart, in context", Text: "{{context.${total}}} {{ context.items[0] }}", From: "us@example.org"})
	if err != nil {
		b.Fatal(err)
	}
}

// profile sets somebody's profile.
func (b *bed) profile(number int64, text string) {
	b.Helper()
	b.apply(&store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Number: number}, Profile: text}}}})
}

// What people entered with is known behind each wait, whether the store has it or not,
// whichever process goes on, and it is that of this time in the journey. When they have
// left it is marked, and goes.
func TestTheContextIsKeptOverWaits(t *testing.T) {
	for _, taken := range []bool{false, true} {
		b := newBed(t, 5)
		b.follows = true
		b.withTemplate()
		j := b.publish(remembers)
		for n := range int64(4) {
			b.fact(uint64(n)+1, n+1, journey.FactEvent, "cart", fmt.Sprintf(`{"total":%d,"day":"2026-03-05T0%d:00:00Z","items":["<b>"],"other":"%s"}`, 10*(n+1), n+1, strings.Repeat("x", 5000)))
		}
		b.fact(9, 5, journey.FactEvent, "cart", "")
		p := b.open()
		again := func() {
			t.Helper()
			if taken {
				b.stored(everything)
				p = b.open()
			}
			b.passes(p)
		}
		b.passes(p)
		b.clock.Move(time.Hour)
		again()
		if f := b.read(); f.contexts != 4+3 || f.counts["journey/cart/worth/passed/then"] != 2 || len(f.sends) != 3 {
			t.Fatalf("%v: %d items of contexts, want 4 who entered and 3 who left; %v, %v", taken, f.contexts, f.counts, f.sends)
		}
		b.fact(10, 1, journey.FactEvent, "cart", `{"total":99,"day":"2026-03-06T01:00:00Z","items":["again"]}`)
		again()
		for _, by := range []time.Duration{time.Hour, 5 * 24 * time.Hour} {
			b.clock.Move(by)
			again()
		}
		f := b.read()
		for n, want := range map[int]string{1: `"variables":{"context":{"total":99,"items":["again"]},"a":1}`, 3: `"context":{"total":30,"items":["<b>"]}`, 4: `"context":{"total":40,"items":["<b>"]}`} {
			got := f.contents[profileAddress(n)]
			if last := got[len(got)-1]; n == 1 && len(got) != 2 || !strings.Contains(last, want) {
				t.Errorf("%v: person %d has the mails %q, want %s", taken, n, got, want)
			}
		}
		b.stored(everything)
		kept, err := b.store.Contexts(t.Context(), 0, j.Number, []int64{1, 2, 3, 4, 5})
		if err != nil || len(kept) != 4 {
			t.Fatal(kept, err)
		}
		for _, k := range kept {
			if k.EndedMillis == 0 {
				t.Errorf("%v: person %d is inside by the context: %+v", taken, k.Number, k)
			}
		}
		deleted, more, err := b.store.DeleteContexts(t.Context(), b.clock.Now().UnixMilli()+1)
		if err != nil || deleted != 4 || more {
			t.Error(deleted, more, err)
		}
	}
}

// A session that knows nothing of what the one before it had in hand moves nobody before
// the store has it.
func TestASuccessorWaitsForContexts(t *testing.T) {
	b := newBed(t, 1)
	b.follows = true
	b.withTemplate()
	b.publish(remembers)
	b.fact(1, 1, journey.FactEvent, "cart", `{"total":30,"day":"2026-03-05T01:00:00Z"}`)
	b.passes(b.open())
	b.clock.Move(time.Hour)
	p := b.open()
	if worked, err := p.pass(t.Context()); worked || err != nil {
		t.Errorf("it has moved people: %v, %v", worked, err)
	}
	b.stored(everything)
	b.passes(p)
	if f := b.read(); f.counts["journey/cart/worth/passed/then"] != 1 {
		t.Errorf("%v", f.counts)
	}
}

// What is in hand goes when the store has had it for a while, and not before.
func TestContextsInHandGo(t *testing.T) {
	b := newBed(t, 3)
	b.follows = true
	b.withTemplate()
	b.publish(remembers)
	p := b.open()
	enter := func(n int64) {
		t.Helper()
		b.fact(uint64(n), n, journey.FactEvent, "cart", `{"total":30,"day":"2026-03-05T01:00:00Z"}`)
		b.passes(p)
	}
	enter(1)
	b.clock.Move(2 * contextsKept)
	enter(2)
	if n := len(p.contexts.hand); n != 2 {
		t.Errorf("%d are in hand while the store has none, want 2", n)
	}
	b.stored(everything)
	enter(3)
	if n := len(p.contexts.hand); n != 2 || p.contexts.bytes != 2*len(`{"day":"2026-03-05T01:00:00Z","total":30}`) {
		t.Errorf("%d in hand with %d bytes, want those of the last minute alone: 2", n, p.contexts.bytes)
	}
	b.clock.Move(time.Hour)
	b.passes(p)
	if f := b.read(); f.counts["journey/cart/worth/passed/then"] != 3 {
		t.Errorf("%v", f.counts)
	}
}

// A mail that is held at its step has the context, and so has a rule of a wait.
func TestTheContextOfMailThatIsHeld(t *testing.T) {
	b := newBed(t, 2)
	b.follows = true
	b.withTemplate()
	b.publish(`
id: held
entry: {when: {event: cart}}
steps:
  - {id: now, message: {template: total}, next: react}
  - id: react
    wait_for: {within: 1d, paths: [{name: rich, when: {rule: {and: [{context: total, is: greater_than, value: 20}, {attribute: plan, is: equals, value: gold}]}}, next: again}], otherwise: exit}
  - {id: again, message: {template: total}}
quiet: {from: "08:00", to: "12:00"}
`)
	b.fact(1, 1, journey.FactEvent, "cart", `{"total":30}`)
	b.passes(b.open())
	b.clock.Move(3 * time.Hour)
	b.stored(everything)
	b.passes(b.open())
	b.clock.Move(time.Hour)
	b.profile(1, `{"external_id":"u1","fields":{"email":"u1@example.com"},"custom":{"plan":"gold"}}`)
	b.fact(2, 1, journey.FactAttributes, "", `{"plan":["free","gold"]}`)
	b.stored(everything)
	b.passes(b.open())
	f := b.read()
	if all := f.contents["u1@example.com"]; len(all) != 2 || !strings.Contains(all[0], `"context":{"total":30}`) || all[0] != all[1] {
		t.Errorf("%q", all)
	}
}

// The context goes with a place to the survivor of a merge, in the same partition and in
// another, and along into another journey, also if the way waits for that.
func TestTheContextGoesAlong(t *testing.T) {
	b := newBed(t, 5)
	b.follows = true
	b.withTemplate()
	b.publish(remembers)
	const total = `{"total":30,"day":"2026-03-02T12:00:00Z"}`
	b.fact(1, 1, journey.FactEvent, "cart", total)
	b.fact(2, 3, journey.FactEvent, "cart", total)
	b.passes(b.open())
	b.stored(everything)
	b.merge(3, 1, user.ID{Number: 2})
	b.merge(4, 3, user.ID{Partition: 1, Number: 1})
	b.passes(b.open())
	b.stored(everything)
	places := b.places()
	if len(places) != 1 {
		t.Fatal(places)
	}
	b.profile(5, `{"external_id":"u5","fields":{"email":"u5@example.com"}}`)
	b.fact(5, 5, journey.FactPlace, "cart", places[0].Body) // that partition, played by this one
	b.passes(b.open())
	b.stored(everything)
	for range 4 {
		b.clock.Move(time.Hour)
		b.passes(b.open())
		b.stored(everything)
	}
	f := b.read()
	for _, to := range []string{"known@example.com", "u5@example.com"} {
		if all := f.contents[to]; len(all) != 1 || !strings.Contains(all[0], `"total":30`) {
			t.Errorf("%s has %q", to, all)
		}
	}
	b.publish(strings.Replace(remembers, "id: cart", "id: second", 1))
	b.publish(`
id: first
entry: {when: {event: begin}}
steps: [{id: wait, delay: {for: 1h}, next: on}, {id: on, go: {journey: second}}]
`)
	b.status("second", journey.StatusPaused)
	b.fact(6, 4, journey.FactEvent, "begin", `{"total":50,"day":"2026-03-05T12:00:00Z"}`)
	b.passes(b.open())
	for range 3 {
		b.stored(everything)
		b.clock.Move(2 * time.Hour)
		b.passes(b.open())
	}
	b.status("second", journey.StatusLive)
	for range 3 {
		b.stored(everything)
		b.clock.Move(24 * time.Hour)
		b.passes(b.open())
	}
	if all := b.read().contents["u4@example.com"]; len(all) != 1 || !strings.Contains(all[0], `"total":50`) {
		t.Errorf("behind another journey: %q", all)
	}
}

// A Redis that has gone back has somebody inside again whom the database says has left:
// what that person entered with is known, and kept anew.
func TestAContextThatHasEndedIsKeptAnew(t *testing.T) {
	b := newBed(t, 1)
	b.follows = true
	b.withTemplate()
	j := b.publish(remembers)
	b.fact(1, 1, journey.FactEvent, "cart", `{"total":30,"day":"2026-03-05T01:00:00Z"}`)
	b.passes(b.open())
	r := b.records(j)[1]
	b.stored(everything)
	b.apply(&store.Effect{Contexts: []journey.Kept{{Journey: j.Number, Number: 1, Entered: r.Entered, Occurrence: r.Occurrence, EndedMillis: b.clock.Now().UnixMilli()}}})
	b.clock.Move(time.Hour)
	b.passes(b.open())
	b.stored(everything)
	kept, err := b.store.Contexts(t.Context(), 0, j.Number, []int64{1})
	if err != nil || len(kept) != 1 || kept[0].EndedMillis != 0 || b.read().counts["journey/cart/worth/passed/then"] != 1 {
		t.Errorf("%+v, %v, %v", kept, err, b.read().counts)
	}
}

// A journey that looks at no context behind a wait has no items of it, and no statements.
func TestWithoutContextNothingIsKept(t *testing.T) {
	b := newBed(t, 300)
	b.publish(asksBefore)
	b.enterAll(300)
	p := b.open()
	b.passes(p)
	b.clock.Move(2 * time.Hour)
	b.passes(p)
	if f := b.read(); f.contexts != 0 || b.contexts != 0 || f.counts["journey/without/pause/passed"] != 300 || p.contexts.asks {
		t.Errorf("%d items, %d statements, %v", f.contexts, b.contexts, f.counts)
	}
}

const asksBefore = `
id: without
entry: {when: {event: signup}}
steps:
  - {id: early, split: {if: {context: total, is: greater_than, value: 20}, then: pause, else: pause}}
  - {id: pause, delay: {for: 1h}, next: mail}
  - {id: mail, message: {template: x}}
`

// A step go behind a wait takes the context along that another journey has brought, also where
// nothing that lets people in itself has one.
func TestTheContextGoesThroughAJourney(t *testing.T) {
	b := newBed(t, 1)
	b.withTemplate()
	b.publish("id: last\nentry: {when: {event: never}}\nsteps:\n  - {id: mail, message: {template: total}}\n")
	b.publish("id: middle\nentry: {when: {at: \"2026-12-01 09:00\"}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: on}\n  - {id: on, go: {journey: last}}\n")
	b.publish("id: first\nentry: {when: {event: cart}}\nsteps:\n  - {id: on, go: {journey: middle}}\n")
	b.fact(1, 1, journey.FactEvent, "cart", `{"total":7}`)
	b.passes(b.open())
	b.clock.Move(time.Hour)
	b.stored(everything)
	b.passes(b.open())
	if got := b.read().contents[profileAddress(1)]; len(got) != 1 || !strings.Contains(got[0], `"total":7`) {
		t.Errorf("the mail is made of %q, want the total of the cart", got)
	}
}
