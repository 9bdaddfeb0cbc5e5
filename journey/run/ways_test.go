package run

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/flow"
	"sluice/journey"
	"sluice/store"
	"sluice/user"
)

// traced is the way of a person, by the ids of steps.
func (b *bed) traced(log *flow.Log, j store.Journey, number int64) string {
	b.Helper()
	raw, err := log.RecordOf(b.Context(), int(j.Number), number)
	if err != nil {
		b.Fatal(err)
	}
	var r journey.Record
	if err := r.Decode(raw[:]); err != nil {
		b.Fatal(err)
	}
	ways, err := log.WaysOf(b.Context(), int(j.Number), number)
	if err != nil {
		b.Fatal(err)
	}
	for _, in := range b.all {
		if in.number == j.Number {
			p := in.versions[r.Version].walk.Plan()
			var ids []string
			for _, at := range p.Trace(int(r.Step), ways) {
				ids = append(ids, p.Steps[at].ID)
			}
			return fmt.Sprint(ids)
		}
	}
	b.Fatal("there is no such journey")
	return ""
}

const forked = `
id: forked
entry: {when: {event: signup}, again_after: 1m}
steps:
  - {id: fork, split: {if: {attribute: plan, is: equals, value: gold}, then: gold, else: wait}}
  - {id: gold, message: {template: x, tags: gold}, next: wait}
  - id: wait
    wait_for:
      within: 1d
      paths: [{name: bought, when: {event: bought}, next: last}]
      otherwise: chance
  - id: chance
    random: {paths: [{name: a, weight: 50, next: last}, {name: b, weight: 50, next: other}]}
  - {id: other, delay: {for: 1h}, next: last}
  - {id: last, delay: {for: 1h}}
`

// The way of each person is kept, whatever decided, and a person who enters again begins
// a new one. Processes that end anywhere change nothing.
func TestWaysAreKept(t *testing.T) {
	const people = 1200
	b := newBed(t, people)
	j := b.publish(forked)
	b.enterAll(people)
	p := b.open()
	b.passes(p)
	b.fact(5001, 5, journey.FactEvent, "bought", "")
	b.passes(p)
	b.clock.Move(25 * time.Hour)
	b.passes(b.open())
	seen := make(map[string]int)
	for n := int64(1); n <= people; n++ {
		seen[b.traced(b.log, j, n)]++
	}
	want := []string{"[fork wait chance last]", "[fork wait chance other]", "[fork gold wait chance last]", "[fork gold wait chance other]", "[fork wait last]"}
	for _, way := range want {
		if seen[way] == 0 {
			t.Errorf("nobody went %s: %v", way, seen)
		}
		delete(seen, way)
	}
	if len(seen) > 0 {
		t.Errorf("these ways are none: %v", seen)
	}
	if got := b.traced(b.log, j, 5); got != "[fork wait last]" {
		t.Errorf("who bought something went %s", got)
	}
	b.clock.Move(25 * time.Hour)
	p = b.open()
	b.passes(p)
	b.fact(5002, 5, journey.FactEvent, "signup", "")
	b.passes(p)
	if got := b.traced(b.log, j, 5); got != "[fork wait]" {
		t.Errorf("who has entered again went %s", got)
	}
	if ways, err := b.log.WaysOf(t.Context(), int(j.Number), 5); err != nil || len(ways) != 1 {
		t.Errorf("who has entered again took %v, %v; want one branch", ways, err)
	}
}

// The survivor of a merge has the way of the place that it took over.
func TestSurvivorHasTheWay(t *testing.T) {
	b := newBed(t, 9)
	j := b.publish(forked)
	b.fact(1, 5, journey.FactEvent, "signup", "")
	p := b.open()
	b.passes(p)
	b.merge(2, 5, user.ID{Number: 6})
	b.passes(p)
	if got := b.traced(b.log, j, 6); got != "[fork wait]" {
		t.Errorf("the survivor went %s", got)
	}
	if left, err := b.log.WaysOf(t.Context(), int(j.Number), 5); err != nil || len(left) > 1 {
		t.Errorf("the ways of who was merged away are %v, %v", left, err)
	}
	place := journey.Place{Ways: []int{1, 4}, Record: journey.Record{State: journey.StateInside}}
	if got, err := journey.ReadPlace(place.Text()); err != nil || !slices.Equal(got.Ways, place.Ways) {
		t.Errorf("a place on its way has %v, %v", got.Ways, err)
	}
}

// Rules ask where people are and what they have passed, in the journey itself and in
// another, also what was passed by the same decision; for a group by one statement, by a
// fact, and behind a restart.
func TestRulesKnowJourneys(t *testing.T) {
	const people = 300
	b := newBed(t, people)
	b.publish(`
id: first
entry: {when: {event: signup}}
steps:
  - {id: fork, split: {if: {attribute: plan, is: equals, value: gold}, then: rest, else: tell}}
  - {id: tell, message: {template: x, tags: told}, next: again}
  - {id: again, split: {if: {journey: first, step: fork, branch: else, is: passed}, then: rest, else: never}}
  - {id: never, message: {template: x, tags: never}, next: rest}
  - {id: rest, delay: {for: 1d}, next: late}
  - {id: late, split: {if: {and: [{journey: first, step: tell, is: not_passed}, {journey: first, is: inside}]}, then: gold, else: exit}}
  - {id: gold, message: {template: x, tags: gold}}
`)
	b.publish(`
id: second
entry: {when: {event: bought}, who: {journey: first, is: was_inside}}
steps:
  - {id: short, delay: {for: 1h}, next: fork}
  - {id: fork, split: {if: {journey: first, is: inside}, then: within, else: without}}
  - {id: within, message: {template: x, tags: within}, next: rest}
  - {id: without, message: {template: x, tags: without}, next: rest}
  - {id: rest, delay: {for: 2d}, next: told}
  - {id: told, split: {if: {journey: first, step: tell, is: passed}, then: "yes", else: "no"}}
  - {id: "yes", message: {template: x, tags: "yes"}}
  - {id: "no", message: {template: x, tags: "no"}}
`)
	b.enterAll(people - 3) // three are never let in
	p := b.open()
	b.passes(p)
	for n := int64(1); n <= people; n++ {
		b.fact(uint64(5000+n), n, journey.FactEvent, "bought", "")
	}
	b.passes(p)
	b.clock.Move(time.Hour)
	b.passes(b.open())
	b.clock.Move(24 * time.Hour)
	b.passes(b.open())
	b.clock.Move(48 * time.Hour)
	b.passes(b.open())
	inside := people - 3
	gold := inside / 3
	for tag, want := range map[string]int{"told": inside - gold, "never": 0, "gold": gold, "within": inside, "without": 0, "yes": inside - gold, "no": gold} {
		if got := len(b.mails(tag)); got != want {
			t.Errorf("%d got the mail %s, want %d", got, tag, want)
		}
	}
}
