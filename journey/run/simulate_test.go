package run

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/simulate"
	"sluice/store"
	"sluice/user"
)

// comparedJourney has each way of going on that needs no store behind the partition.
const comparedJourney = `
id: compared
entry: {when: {event: signup}, who: {attribute: plan, is: exists}, again_after: 6h}
control: {percent: 10}
steps:
  - {id: hello, message: {template: x}, next: early}
  - {id: early, split: {if: {context: n, is: less_than, value: 3}, then: hour, else: hour}}
  - {id: hour, delay: {for: 1h}, next: late}
  - {id: late, split: {if: {context: n, is: less_than, value: 3}, then: gold, else: gold}}
  - {id: gold, split: {if: {attribute: plan, is: equals, value: gold}, then: morning, else: read}}
  - {id: morning, delay: {until: {time: "10:00"}}, next: draw}
  - id: read
    wait_for:
      within: 4h
      paths:
        - {name: clicked, when: {event: click, where: {property: n, is: less_than, value: 3}}, next: thanks}
        - {name: asked, when: {event: ask}, next: draw}
      otherwise: nudge
  - {id: thanks, message: {template: x}, next: draw}
  - {id: nudge, message: {template: x}}
  - id: draw
    random: {paths: [{name: a, weight: 20, next: a}, {name: b, weight: 30, next: b}, {name: none, weight: 50, next: exit}]}
  - {id: a, message: {template: x}}
  - {id: b, message: {template: x}}
exit_when: {event: quit}
conversions: {name: bought, when: {purchase: "*"}, within: 1d}
`

// TestTheSimulationIsTheEngine: the same journey, people and happenings come to the same
// counts of each step and the same mails of each person, in a simulation and by the
// engine under a clock that the test moves. Rules ask for the context before a wait and
// behind it.
func TestTheSimulationIsTheEngine(t *testing.T) {
	const people, moments, every = 90, 288, 10 * time.Minute
	b := newBed(t, people)
	b.publish(comparedJourney)
	_, p, err := plan.LoadYAML(comparedJourney, b.loader().database().Env(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	from := b.clock.Now()
	in := simulate.Input{Plan: p, From: from, Until: from.Add(moments * every)}
	for n := range people {
		in.People = append(in.People, simulate.Person{Name: fmt.Sprint(n), ID: user.ID{Number: int64(n) + 1}, Profile: profileOf(n + 1)})
		in.Samples = append(in.Samples, n)
	}
	random := rand.New(rand.NewPCG(11, 12))
	names := []string{"signup", "signup", "click", "click", "ask", "quit"}
	for m := range moments {
		for range 4 {
			f := journey.Fact{Kind: journey.FactEvent, Name: names[random.IntN(len(names))], Body: fmt.Sprintf(`{"n":%d}`, random.IntN(5))}
			if random.IntN(6) == 0 {
				f = journey.Fact{Kind: journey.FactPurchase, Name: "shoe", Body: `{}`}
			}
			in.Happenings = append(in.Happenings, simulate.Happening{Person: random.IntN(people), At: from.Add(time.Duration(m) * every), Fact: f})
		}
	}
	want, err := simulate.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	b.happen(&in, moments, every)
	f := b.read()
	for i := range want.Steps {
		s := &want.Steps[i]
		name := "journey/compared/" + s.ID
		passed := f.counts[name+"/passed"]
		for _, path := range s.Paths {
			got := f.counts[name+"/passed/"+path.Name]
			if passed += got; got != int64(path.Passed) && f.counts[name+"/passed"] != int64(path.Passed) {
				t.Errorf("%s: %d went %s, %d in the simulation", s.ID, got, path.Name, path.Passed)
			}
		}
		if f.counts[name+"/entered"] != int64(s.Entered) || passed != int64(s.Passed) || f.counts[name+"/exited"] != int64(s.Exited) {
			t.Errorf("%s: %d entered, %d passed, %d exited; in the simulation %d, %d, %d", s.ID, f.counts[name+"/entered"], passed, f.counts[name+"/exited"], s.Entered, s.Passed, s.Exited)
		}
	}
	if n := f.counts["journey/compared/hello/held"]; n != int64(want.Held) || n == 0 {
		t.Errorf("%d are in the control group, %d in the simulation", n, want.Held)
	}
	if c := want.Converted[0]; f.counts["journey/compared/converted/bought"] != int64(c.People) || f.counts["journey/compared/held_converted/bought"] != int64(c.Held) || c.People == 0 {
		t.Errorf("%v conversions, in the simulation %+v", f.counts, c)
	}
	if f.counts["journey/compared/early/passed/then"] == 0 {
		t.Error("nobody's context was known before the wait")
	}
	for n := range people {
		var steps []string
		for _, m := range want.Ways[n].Moves {
			if m.What == "mail" {
				steps = append(steps, m.Step)
			}
		}
		if got := f.steps[fmt.Sprintf("u%d@example.com", n+1)]; !slices.Equal(got, steps) {
			t.Errorf("person %d has the mails %v, in the simulation %v", n+1, got, steps)
		}
	}
}

// happen has the engine go through the moments of a simulation.
func (b *bed) happen(in *simulate.Input, moments int, every time.Duration) {
	b.Helper()
	next := 0
	for m := range moments + 1 {
		now := in.From.Add(time.Duration(m) * every)
		b.clock.Move(now.Sub(b.clock.Now()))
		var facts []journey.Fact
		for ; next < len(in.Happenings) && !in.Happenings[next].At.After(now); next++ {
			f := in.Happenings[next].Fact
			f.Place, f.Number, f.TimeMillis = sluice.Place{Position: sluice.Position{Major: 1, Minor: uint64(next) + 1}}, in.People[in.Happenings[next].Person].ID.Number, now.UnixMilli()
			facts = append(facts, f)
		}
		b.apply(&store.Effect{JourneyFacts: facts})
		b.passes(b.open())
	}
}

// TestAPublishInTheMiddleOfARun: a run that is under way when another version is published
// is finished: by the new one.
func TestAPublishInTheMiddleOfARun(t *testing.T) {
	const people = 5000
	const weekly = `
id: weekly
entry:
  when: {at: "2026-03-03 08:00", every: day}
  who: {attribute: plan, is: equals, value: gold}
steps:
  - {id: mail, message: {template: x}}
`
	b := newBed(t, people)
	b.publish(weekly)
	b.clock.Move(24 * time.Hour)
	if worked, err := b.open().pass(t.Context()); err != nil || !worked {
		t.Fatal(worked, err)
	}
	if n := len(b.read().ids); n == 0 || n >= people/3 {
		t.Fatalf("%d mails in the middle of the run", n)
	}
	b.publishAgain("weekly", weekly)
	b.passes(b.open())
	if n := len(b.read().ids); n != people/3 {
		t.Errorf("%d mails, want %d: the run was given up", n, people/3)
	}
}

// publishAgain publishes another version of a journey.
func (b *bed) publishAgain(id, text string) {
	b.Helper()
	_, p, err := plan.LoadYAML(text, b.loader().database().Env(b.Context()))
	if err != nil {
		b.Fatal(err)
	}
	j, err := b.store.Journey(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	j.UpdatedMillis = b.clock.Now().UnixMilli()
	if _, _, err := b.store.Publish(b.Context(), j, p.Canonical(), p.Names()); err != nil {
		b.Fatal(err)
	}
	if b.all, b.published, err = b.loader().Load(b.Context()); err != nil {
		b.Fatal(err)
	}
}
