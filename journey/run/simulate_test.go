package run

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/simulate"
	"sluice/mail"
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
  - {id: hour, delay: {for: 1h}, next: night}
  - {id: night, delay: {until_date: {context: day, otherwise: late}}, next: late}
  - {id: late, split: {if: {context: n, is: less_than, value: 3}, then: gold, else: much}}
  - {id: much, message: {template: x}, next: gold}
  - {id: gold, split: {if: {attribute: plan, is: equals, value: gold}, then: morning, else: read}}
  - {id: morning, delay: {until: {time: "10:00"}}, next: draw}
  - id: read
    wait_for:
      within: 4h
      paths:
        - {name: clicked, when: {event: click, where: {property: n, is: less_than, value: 3}}, next: thanks}
        - {name: asked, when: {event: ask}, next: draw}
      otherwise: nudge
  - {id: thanks, message: {template: x}, next: rest}
  - {id: rest, delay: {for: 1h}, next: less}
  - {id: less, split: {if: {property: n, step: read, is: less_than, value: 2}, then: draw, else: exit}}
  - {id: nudge, message: {template: x}}
  - id: draw
    random: {paths: [{name: a, weight: 20, next: a}, {name: b, weight: 30, next: b}, {name: none, weight: 50, next: exit}]}
  - {id: a, message: {template: x}}
  - {id: b, message: {template: x}}
exit_when: {event: quit}
conversions: {name: bought, when: {purchase: "*"}, within: 1d}
`

// moderatedJourney has what may keep a mail, or a person, back.
const moderatedJourney = `
id: moderated
entry:
  when: {event: signup}
  who: {not: {journey: moderated, is: passed, step: twice, branch: then}}
  again_after: 2h
  limit: {per_day: 80, total: 150}
steps:
  - {id: hello, message: {template: x}, next: pause}
  - {id: pause, delay: {for: 1h}, next: read}
  - {id: read, split: {if: {mail: opened, journey: moderated, step: hello, is: less_than_x_days_ago, value: 1}, then: thanks, else: nudge}}
  - {id: thanks, message: {template: x}, next: draw}
  - {id: nudge, message: {template: x, ignore_caps: true}, next: draw}
  - id: draw
    random: {paths: [{name: a, weight: 60, next: twice}, {name: none, weight: 40, next: exit}]}
  - {id: twice, split: {if: {and: [{mail: opened, step: nudge, journey: moderated, is: does_not_exist}, {journey: moderated, is: passed, step: nudge}]}, then: later, else: later}}
  - {id: later, delay: {for: 4h}, next: last}
  - {id: last, message: {template: x}}
quiet: {from: "20:00", to: "06:00"}
limits: {per_minute: 60000}
exit_when: {event: quit}
`

// variedJourney has the steps and triggers that the two above have not.
const variedJourney = `
id: varied
entry: {when: [{event: signup}, {attribute: tier, to: high}], again_after: 4h}
steps:
  - {id: first, delay: {for: 30m}, next: kind}
  - id: kind
    audiences:
      paths:
        - {name: gold, if: {attribute: plan, is: equals, value: gold}, next: note}
        - {name: few, if: {context: n, is: less_than, value: 2}, next: hour}
      otherwise: best
  - {id: note, update: {attributes: {noted: {inc: 1}}}, next: best}
  - {id: hour, delay: {for: 1h}, next: best}
  - id: best
    wait_for:
      within: 3h
      ranked: true
      paths:
        - {name: asked, when: {event: ask}, next: answer}
        - {name: clicked, when: {event: click}, next: thanks}
        - {name: raised, when: {attribute: tier, from: low, to: high}, next: out}
      otherwise: nudge
  - {id: answer, message: {template: x}, next: out}
  - {id: thanks, message: {template: x}, next: out}
  - {id: nudge, message: {template: x}}
  - {id: out, exit: {}}
exceptions: {event: quit}
exit_when: {rule: {context: n, is: greater_than, value: 3}}
conversions: {name: bought, when: {purchase: "*"}, within: 6h}
`

// TestTheSimulationIsTheEngine: the same journey, people and happenings come to the same
// counts of each step and the same mails of each person, in a simulation and by the
// engine under a clock that the test moves. Rules ask for the context before a wait and
// behind it.
func TestTheSimulationIsTheEngine(t *testing.T) {
	b := newBed(t, comparedPeople)
	b.follows = true
	f, want := b.compare(comparedJourney)
	if f.counts["journey/compared/hello/held"] == 0 || want.Converted[0].People == 0 || f.counts["journey/compared/early/passed/then"] == 0 {
		t.Errorf("nobody is held, converts, or has a context before the wait: %v", f.counts)
	}
	for _, name := range []string{"late/passed/then", "late/passed", "night/passed"} {
		if f.counts["journey/compared/"+name] == 0 {
			t.Errorf("none is %s: nobody's context is known behind the wait", name)
		}
	}
	if f.counts["journey/compared/less/passed/then"] == 0 || f.counts["journey/compared/less/passed"] == 0 {
		t.Errorf("what a step has waited for is not known behind it: %v", f.counts)
	}
}

// So it is with caps, the control group of all journeys, quiet hours, a rate, limits of
// the entry, and rules that ask about mail and about the way before.
func TestTheSimulationIsTheEngineInAllModeration(t *testing.T) {
	b := newBed(t, comparedPeople)
	b.named(comparedPeople)
	b.control = 20
	// No moment is a whole window behind another: the rate has people wait for a moment.
	b.caps = []journey.Cap{{Name: "two", Class: mail.ClassMarketing, Messages: 2, Window: 24*time.Hour - 5*time.Minute}}
	f, _ := b.compare(moderatedJourney)
	for _, name := range []string{"thanks/capped", "last/capped", "hello/withheld", "hello/limited", "read/passed/then", "read/passed", "draw/passed/none", "later/exited", "twice/passed/then", "twice/passed"} {
		if f.counts["journey/moderated/"+name] == 0 {
			t.Errorf("none is %s: this compares too little", name)
		}
	}
}

// So it is with audiences, a ranked wait, updates, changes of attributes, exceptions, and
// a rule that takes people out.
func TestTheSimulationIsTheEngineOfChanges(t *testing.T) {
	b := newBed(t, comparedPeople)
	b.raises = true
	f, _ := b.compare(variedJourney)
	for _, name := range []string{"first/exited", "kind/passed/gold", "kind/passed/few", "kind/passed", "best/passed/asked", "best/passed/clicked", "best/passed/raised", "best/passed", "out/passed", "converted/bought"} {
		if f.counts["journey/varied/"+name] == 0 {
			t.Errorf("none is %s: this compares too little", name)
		}
	}
	if n := f.counts["journey/varied/note/passed"]; int64(f.updates) != n || n == 0 {
		t.Errorf("%d updates of %d people", f.updates, n)
	}
}

// steppedJourney has the steps and triggers that the others have not, in each person's zone.
const steppedJourney = `
id: stepped
zone: user
entry: {when: {event: signup}, again_after: 3h}
steps:
  - {id: first, delay: {for: 20m}, next: note}
  - {id: note, update: {attributes: {seen: {inc: 1}}}, next: who}
  - id: who
    audiences:
      paths:
        - {name: gold, if: {attribute: plan, is: equals, value: gold}, next: ranked}
        - {name: few, if: {context: n, is: less_than, value: 3}, next: morning}
      otherwise: beside
  - id: ranked
    wait_for:
      within: 5h
      ranked: true
      paths:
        - {name: clicked, when: {event: click, where: {property: n, is: less_than, value: 2}}, next: thanks}
        - {name: asked, when: [{event: ask}, {purchase: shoe}], next: over}
        - {name: signed, when: {event: signup}, next: beside}
      otherwise: morning
  - {id: thanks, message: {template: x}, next: morning}
  - {id: morning, delay: {until: {time: "09:00", weekdays: [tuesday, wednesday]}}, next: mail}
  - {id: mail, message: {template: x, ignore_quiet: true}, next: over}
  - {id: beside, go: {journey: beside}}
  - {id: over, exit: {}}
exceptions: {event: ask}
exit_when: {event: quit}
quiet: {from: "20:00", to: "07:30", then: skip}
conversions: [{name: bought, when: {purchase: "*"}, within: 6h}, {name: asked, when: {event: ask}, within: 1d}]
`

// scheduledJourney lets people in where each of them is.
const scheduledJourney = `
id: scheduled
entry: {when: {at: "2026-03-02 10:00", every: day, zone: user, until: "2026-03-03 12:00"}, who: {attribute: plan, is: exists}, again_after: 1h}
control: {percent: 20}
steps:
  - {id: hello, message: {template: x}, next: pause}
  - {id: pause, delay: {for: 2h}, next: last}
  - {id: last, message: {template: x}}
exit_when: {event: quit}
conversions: {name: bought, when: {purchase: "*"}, within: 3h}
`

// So it is with audiences, updates, ranked waits, ways into another journey, exceptions, times
// of day where people are, quiet hours that leave mail out, and entries at times.
func TestTheSimulationIsTheEngineInAllSteps(t *testing.T) {
	for text, names := range map[string][]string{
		steppedJourney: {"first/exited", "note/passed", "who/passed/gold", "who/passed/few", "who/passed", "ranked/passed/clicked", "ranked/passed/asked", "ranked/passed/signed",
			"ranked/passed", "thanks/left_out", "mail/passed", "beside/passed", "over/passed", "converted/bought", "converted/asked"},
		scheduledJourney: {"hello/held", "hello/passed", "pause/exited", "last/passed", "converted/bought", "held_converted/bought"},
	} {
		b := newBed(t, comparedPeople)
		b.follows, b.zoned = true, true
		for n := 1; n <= comparedPeople; n++ {
			b.profile(int64(n), b.livesIn(n))
		}
		b.publish("id: beside\nentry: {when: {event: other}}\nsteps: [{id: out, exit: {}}]\n")
		f, want := b.compare(text)
		id := want.Steps[0].ID
		for _, name := range names {
			if f.counts["journey/"+map[string]string{"first": "stepped", "hello": "scheduled"}[id]+"/"+name] == 0 {
				t.Errorf("none is %s: this compares too little", name)
			}
		}
	}
}

// livesIn is the profile of the n-th person, with a zone if the bed has some.
func (b *bed) livesIn(n int) string {
	if !b.zoned {
		return profileOf(n)
	}
	zone := []string{"UTC", "Asia/Tokyo", "America/Los_Angeles", "Asia/Kolkata", "Pacific/Auckland"}[n%5]
	return strings.Replace(profileOf(n), `.com"},`, `.com","time_zone":"`+zone+`"},`, 1)
}

// comparedPeople live through so many moments, ten minutes apart.
const (
	comparedPeople  = 90
	comparedMoments = 288
	comparedEvery   = 10 * time.Minute
)

// compare has a simulation and the engine carry a journey out, and compares them.
func (b *bed) compare(text string) (found, *simulate.Outcome) {
	b.Helper()
	_, p, err := plan.LoadYAML(text, b.loader().database().Env(b.Context()))
	if err != nil {
		b.Fatal(err)
	}
	b.draft(p.ID)
	b.publishAgain(p.ID, text)
	in := b.comparedInput(p)
	want, err := simulate.Run(b.Context(), in)
	if err != nil {
		b.Fatal(err)
	}
	b.happen(&in)
	f := b.read()
	is := func(name string, want int) {
		b.Helper()
		if got := f.counts["journey/"+p.ID+"/"+name]; got != int64(want) {
			b.Errorf("%s: %d, in the simulation %d", name, got, want)
		}
	}
	is(p.Steps[0].ID+"/held", want.Held)
	is(p.Steps[0].ID+"/limited", want.NotLetIn)
	for i := range want.Steps {
		s := &want.Steps[i]
		is(s.ID+"/entered", s.Entered)
		is(s.ID+"/exited", s.Exited)
		is(s.ID+"/left_out", s.LeftOut)
		is(s.ID+"/capped", s.Capped)
		is(s.ID+"/withheld", s.Withheld)
		others := s.Passed
		for n := range p.Steps[i].Paths {
			is(s.ID+"/passed/"+s.Paths[n].Name, s.Paths[n].Passed)
			others -= s.Paths[n].Passed
		}
		is(s.ID+"/passed", others)
	}
	for _, c := range want.Converted {
		is("converted/"+c.Name, c.People)
		is("held_converted/"+c.Name, c.Held)
	}
	for n := range in.People {
		var steps []string
		for _, m := range want.Ways[n].Moves {
			if m.What == "mail" {
				steps = append(steps, m.Step)
			}
		}
		if got := f.steps[profileAddress(n+1)]; !slices.Equal(got, steps) {
			b.Errorf("person %d has the mails %v, in the simulation %v", n+1, got, steps)
		}
	}
	return f, want
}

// comparedInput has people do things by chance. Between two moments somebody opens the
// last mail of a step.
func (b *bed) comparedInput(p *plan.Plan) simulate.Input {
	from := b.clock.Now()
	in := simulate.Input{Plan: p, From: from, Until: from.Add(comparedMoments * comparedEvery), Caps: b.caps, Control: b.control}
	for n := range comparedPeople {
		in.People = append(in.People, simulate.Person{Name: fmt.Sprint(n), ID: user.ID{Number: int64(n) + 1}, Profile: b.livesIn(n + 1)})
		in.Samples = append(in.Samples, n)
	}
	random := rand.New(rand.NewPCG(11, 12))
	names := []string{"signup", "signup", "click", "click", "ask", "quit"}
	for m := range comparedMoments {
		at := from.Add(time.Duration(m) * comparedEvery)
		for range 4 {
			f := journey.Fact{Kind: journey.FactEvent, Name: names[random.IntN(len(names))], Body: fmt.Sprintf(`{"n":%d}`, random.IntN(5))}
			if random.IntN(6) == 0 {
				f = journey.Fact{Kind: journey.FactPurchase, Name: "shoe", Body: `{}`}
			}
			if b.raises && random.IntN(8) == 0 {
				f = journey.Fact{Kind: journey.FactAttributes, Body: `{"tier":["low","high"]}`}
			}
			in.Happenings = append(in.Happenings, simulate.Happening{Person: random.IntN(comparedPeople), At: at, Fact: f})
		}
		for _, step := range []string{"hello", "hello", "hello", "nudge"} {
			f := journey.Fact{Kind: journey.FactMail, Name: string(journey.MailOpened), Body: (&journey.Mailed{Journey: p.ID, Step: step}).Text()}
			in.Happenings = append(in.Happenings, simulate.Happening{Person: random.IntN(comparedPeople), At: at.Add(comparedEvery / 2), Fact: f})
		}
	}
	return in
}

// happen has the engine go through the moments of a simulation.
func (b *bed) happen(in *simulate.Input) {
	b.Helper()
	next := 0
	var p *part
	for m := range comparedMoments + 1 {
		now := in.From.Add(time.Duration(m) * comparedEvery)
		b.clock.Move(now.Sub(b.clock.Now()))
		var e store.Effect
		for ; next < len(in.Happenings) && !in.Happenings[next].At.After(now); next++ {
			h := &in.Happenings[next]
			f := h.Fact
			f.Place, f.Number, f.TimeMillis = sluice.Place{Position: sluice.Position{Major: 1, Minor: uint64(next) + 1}}, in.People[h.Person].ID.Number, h.At.UnixMilli()
			if f.Kind == journey.FactMail {
				e.Reactions = append(e.Reactions, b.opened(f)...)
			} else {
				e.JourneyFacts = append(e.JourneyFacts, f)
			}
		}
		b.apply(&e)
		if p == nil || !b.zoned { // a session knows when people's times come, but for its first quarter of an hour
			p = b.open()
		}
		p.told = false // the log does not tell that there are facts
		for b.passes(p); waitForRate(p, now); {
			b.passes(p)
		}
		b.stored(everything)
	}
}

// waitForRate reports whether somebody waits for the rate of a journey by now.
func waitForRate(p *part, now time.Time) bool {
	return slices.ContainsFunc(p.journeys, func(in *inside) bool { return in.perMinute > 0 && in.rate.dues.next() <= uint32(now.Unix()) })
}

// opened is that the person of a fact opens the last mail of its step, if there is any.
func (b *bed) opened(f journey.Fact) (all []mail.Reaction) {
	b.Helper()
	rows, err := b.store.UserSends(b.Context(), user.ID{Number: f.Number}, mail.SendKey{}, 100)
	if err != nil {
		b.Fatal(err)
	}
	var last mail.SendRow
	for _, r := range rows {
		if r.Step == journey.ReadMailed(f.Body).Step && r.AcceptedMillis > last.AcceptedMillis {
			last = r
		}
	}
	if last.Message != "" {
		all = append(all, mail.Reaction{SendKey: mail.SendKey{Message: last.Message}, Kind: mail.ReactionOpened, TimeMillis: f.TimeMillis, Place: f.Place})
	}
	return all
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
	if j.Status == journey.StatusDraft {
		j.Status = journey.StatusLive
	}
	j.UpdatedMillis = b.clock.Now().UnixMilli()
	if _, _, err := b.store.Publish(b.Context(), j, p.Canonical(), p.Names()); err != nil {
		b.Fatal(err)
	}
	if b.all, b.published, err = b.loader().Load(b.Context()); err != nil {
		b.Fatal(err)
	}
}
