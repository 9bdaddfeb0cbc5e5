package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/mail"
)

// world has every template and journey.
type world struct{}

func (world) Template(string, int) (mail.Class, bool, error) { return mail.ClassMarketing, true, nil }
func (world) Segment(string) (string, bool, error)           { return "", false, nil }
func (world) Journey(string) (bool, error)                   { return true, nil }

var monday = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func example(t testing.TB, name string) *plan.Plan {
	t.Helper()
	text, err := os.ReadFile("../../docs/journeys/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return compiled(t, string(text))
}

func compiled(t testing.TB, text string) *plan.Plan {
	t.Helper()
	_, p, err := plan.LoadYAML(text, world{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func simulated(t testing.TB, in Input) *Outcome {
	t.Helper()
	out, err := Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func event(name, body string) journey.Fact {
	return journey.Fact{Kind: journey.FactEvent, Name: name, Body: body}
}

// month is a month of an example.
func month(t testing.TB, name string, people int) Input {
	t.Helper()
	crowd := Crowd{People: people, Seed: 7, Partitions: 16, SeenBefore: monday, Attributes: map[string][]string{"company": {"", `{"size":1}`, `{"size":9}`}}}
	habits := []Habit{
		{event("cart_updated", `{"items":2,"total":30}`), 0.05, nil}, {event("cart_updated", `{"items":1,"total":5}`), 0.02, nil}, {event("cart_emptied", ``), 0.1, nil},
		{event("signed_up", `{"invited_by":"x"}`), 0.02, nil}, {event("signed_up", ``), 0.02, nil}, {event("order", ``), 0.02, nil}, {event("session", ``), 0.2, nil},
		{journey.Fact{Kind: journey.FactPurchase, Name: "shoe", Body: `{"currency":"EUR","price":9.5}`}, 0.03, nil},
		{journey.Fact{Kind: journey.FactGroups, Body: `{"news":[null,"unsubscribed"]}`}, 0.01, nil},
		{journey.Fact{Kind: journey.FactAttributes, Body: `{"email_subscribe":[null,"unsubscribed"]}`}, 0.01, nil},
	}
	until := monday.Add(30 * day)
	in := Input{Plan: example(t, name), From: monday, Until: until, People: crowd.Make(), Happenings: Happen(people, habits, monday, until, 9), Samples: []int{0, 1, 2}}
	if name == "win-back" { // those who ordered once, long ago
		for i := range in.People {
			if i%2 == 0 {
				first := event("order", "")
				in.People[i].Profile = changed(in.People[i].Profile, &first, monday.Add(-100*day))
			}
		}
	}
	return in
}

// wanting are people who want mail.
var wanting = map[string][]string{"email_subscribe": {""}}

// Nobody is lost and nobody goes two ways: at each step as many leave it or are in it
// as came to it, those who passed took one path each, and in all as many are somewhere
// as entered. Two runs are the same.
func TestNobodyIsLost(t *testing.T) {
	for _, name := range []string{"welcome", "abandoned-cart", "win-back"} {
		in := month(t, name, 500)
		o := simulated(t, in)
		if again := simulated(t, in); !reflect.DeepEqual(o, again) {
			t.Errorf("%s: a second run is\n%s\nthe first was\n%s", name, again, o)
		}
		for i := range o.Steps {
			s := &o.Steps[i]
			if s.Entered != s.Passed+s.Exited+s.Waiting {
				t.Errorf("%s: to %s came %d, %d passed, %d exited, %d wait", name, s.ID, s.Entered, s.Passed, s.Exited, s.Waiting)
			}
			paths := 0
			for _, p := range s.Paths {
				paths += p.Passed
			}
			if len(s.Paths) > 0 && paths != s.Passed {
				t.Errorf("%s: %s was passed by %d, by its paths by %d", name, s.ID, s.Passed, paths)
			}
			if s.Kind == plan.StepMessage && s.Mails+s.LeftOut+s.Capped+s.Withheld != s.Passed {
				t.Errorf("%s: %s was passed by %d, with %d mails", name, s.ID, s.Passed, s.Mails)
			}
		}
		if o.Entered-o.Held != o.Steps[0].Entered || o.Entered == 0 || o.Mails == 0 || o.Exited == 0 {
			t.Errorf("%s:\n%s", name, o)
		}
		once := example(t, name).Entry.Once
		if sum := o.Inside + o.Finished + o.Exited + o.Held; once && sum != o.Entered {
			t.Errorf("%s: %d entered, %d are somewhere:\n%s", name, o.Entered, sum, o)
		}
	}
}

// The way of one person, step by step, is told as it was.
func TestWay(t *testing.T) {
	at := func(d time.Duration) time.Time { return monday.Add(d) }
	in := Input{Plan: example(t, "abandoned-cart"), From: monday, Until: monday.Add(10 * day), Samples: []int{1, 0},
		People: (&Crowd{People: 2, SeenBefore: monday, Attributes: map[string][]string{"time_zone": {`"Europe/Berlin"`}}}).Make(),
		Happenings: []Happening{
			{0, at(10 * time.Hour), event("cart_updated", `{"items":0}`)}, // not enough
			{0, at(20 * time.Hour), event("cart_updated", `{"items":2,"total":20}`)},
			{0, at(56 * time.Hour), journey.Fact{Kind: journey.FactPurchase, Name: "shoe", Body: `{}`}},
			{1, at(20 * time.Hour), event("cart_updated", `{"items":2,"total":19.99}`)},
		}}
	o := simulated(t, in)
	var lines []string
	for _, w := range o.Ways {
		for _, m := range w.Moves {
			lines = append(lines, strings.Join(strings.Fields(fmt.Sprint(w.Name, " ", m.At.Sub(monday), " ", m.Step, " ", m.What, " ", m.Path)), " "))
		}
	}
	want := []string{
		"person-2 20h0m0s entered",
		"person-2 20h0m0s worth passed else",
		"person-2 20h0m0s finished",
		"person-1 20h0m0s entered",
		"person-1 20h0m0s worth passed then",
		"person-1 20h0m0s pause waits until 2026-11-30 22:00:00",
		"person-1 22h0m0s pause passed",
		"person-1 22h0m0s remind waits until 2026-12-01 07:00:00", // eight o'clock in Berlin
		"person-1 31h0m0s remind mail",
		"person-1 31h0m0s remind passed",
		"person-1 31h0m0s react waits until 2026-12-02 07:00:00",
		"person-1 55h0m0s react passed otherwise",
	}
	if len(lines) < len(want) || !reflect.DeepEqual(lines[:len(want)], want) {
		t.Errorf("the ways are\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if c := o.Converted[0]; c.People != 1 || c.OfPeople != 2 || o.Steps[0].Paths[1].Passed != 1 {
		t.Errorf("%s", o)
	}
}

// People are let in when clocks of their own zone show the time, up to the limits.
func TestSchedulesAndLimits(t *testing.T) {
	p := compiled(t, `
id: a
entry: {when: {at: "2026-12-01 09:00", every: day, zone: user}, again_after: 0s, limit: {total: 6}}
steps: [{id: s, message: {template: x}}]
`)
	people := (&Crowd{People: 4, SeenBefore: monday, Attributes: map[string][]string{"time_zone": {`"Asia/Tokyo"`}, "email_subscribe": {""}}}).Make()
	o := simulated(t, Input{Plan: p, From: monday, Until: monday.Add(5 * day), People: people, Samples: []int{0}})
	if o.Entered != 6 || o.NotLetIn == 0 || o.Mails != 6 {
		t.Errorf("%s", o)
	}
	if first := o.Ways[0].Moves[0].At; !first.Equal(monday.Add(day)) { // nine in Tokyo is midnight
		t.Errorf("the first enters at %v", first)
	}
}

// Purchases that are made up have prices and properties that rules ask for, and others.
func TestPurchasesAreMadeUpForRules(t *testing.T) {
	p := compiled(t, `
id: a
entry: {when: {purchase: "*", where: {and: [{property: price, is: greater_than, value: 100}, {property: color, is: equals, value: red}]}}, again_after: 0s}
steps: [{id: s, exit: {}}]
`)
	document, err := p.Version()
	if err != nil {
		t.Fatal(err)
	}
	try := Try{Plan: p, Document: document, From: monday, People: 300, Seed: 1}
	in, err := try.Input()
	if err != nil {
		t.Fatal(err)
	}
	if o := simulated(t, *in); o.Entered == 0 || o.Entered >= len(in.Happenings)/2 {
		t.Errorf("%d enter by %d purchases, want some of them", o.Entered, len(in.Happenings))
	}
}

// With the zone of each person all that enter in a day of UTC share the limit of a run, as in
// the engine.
func TestTheLimitOfARunInAllZones(t *testing.T) {
	p := compiled(t, `
id: a
entry: {when: {at: "2026-12-01 09:00", every: day, zone: user}, again_after: 0s, limit: {per_run: 3}}
steps: [{id: s, exit: {}}]
`)
	var people []Person
	for n, zone := range []string{"Asia/Tokyo", "Europe/Berlin"} { // midnight and eight o'clock of UTC
		for _, one := range (&Crowd{People: 2, SeenBefore: monday, Attributes: map[string][]string{"time_zone": {fmt.Sprintf("%q", zone)}}}).Make() {
			one.ID.Partition = n
			people = append(people, one)
		}
	}
	if o := simulated(t, Input{Plan: p, From: monday, Until: monday.Add(3 * day).Add(-time.Second), People: people}); o.Entered != 6 || o.NotLetIn != 2 {
		t.Errorf("%d enter on two days, and %d do not; want three and one a day", o.Entered, o.NotLetIn)
	}
}

// What a step changes in a profile is a fact: it can take the person out, at once.
func TestUpdatesAreFacts(t *testing.T) {
	p := compiled(t, `
id: a
entry: {when: {api: true}}
steps:
  - {id: u, update: {attributes: {done: {inc: 1}}}, next: d}
  - {id: d, delay: {for: 1d}, next: m}
  - {id: m, message: {template: x}}
exit_when: {rule: {attribute: done, is: greater_than, value: 1}}
`)
	people := (&Crowd{People: 2, SeenBefore: monday}).Make()
	first := journey.Fact{Kind: journey.FactAttributes, Body: `{"done":[null,1]}`}
	people[1].Profile = changed(people[1].Profile, &first, monday)
	call := journey.Fact{Body: `{"x":1}`}
	o := simulated(t, Input{Plan: p, From: monday, Until: monday.Add(2 * day), People: people, Happenings: []Happening{{0, monday, call}, {1, monday, call}}})
	if o.Mails != 1 || o.Exited != 1 || o.Finished != 1 || o.Steps[1].Exited != 1 { // at once, not a day later
		t.Errorf("%s", o)
	}
}

// What a step says about a subscription group is a fact too.
func TestUpdatesOfGroupsAreFacts(t *testing.T) {
	p := compiled(t, `
id: a
entry: {when: {api: true}}
steps:
  - {id: u, update: {attributes: {subscription_groups: [{subscription_group_id: weekly, subscription_state: unsubscribed}]}}, next: d}
  - {id: d, delay: {for: 1d}, next: m}
  - {id: m, message: {template: x}}
exit_when: {group: weekly, becomes: unsubscribed}
`)
	people := (&Crowd{People: 1, SeenBefore: monday}).Make()
	o := simulated(t, Input{Plan: p, From: monday, Until: monday.Add(2 * day), People: people, Happenings: []Happening{{0, monday, journey.Fact{Body: "{}"}}}})
	if o.Mails != 0 || o.Steps[1].Exited != 1 {
		t.Errorf("%s", o)
	}
}

func TestBounds(t *testing.T) {
	in := month(t, "welcome", 3)
	for want, change := range map[string]func(*Input){
		"at most 1000000 people": func(in *Input) { in.People = make([]Person, MaxPeople+1) },
		"at most 1098 days":      func(in *Input) { in.Until = in.From.Add((MaxDays + 1) * day) },
		"sample 3 is none":       func(in *Input) { in.Samples = []int{3} },
	} {
		broken := in
		change(&broken)
		if _, err := Run(t.Context(), broken); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	stop := errors.New("stopped")
	ctx, cancel := contextWithCause(t)
	cancel(stop)
	if _, err := Run(ctx, in); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// BenchmarkMonth is a month of 20,000 people in the journey of the abandoned cart.
func BenchmarkMonth(b *testing.B) {
	in := month(b, "abandoned-cart", 20_000)
	for b.Loop() {
		simulated(b, in)
	}
	b.ReportMetric(float64(len(in.Happenings)), "happenings")
}

// ending is a context that is over once it was asked so many times.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// It ends within a moment too, for everybody may be let in at one. What is told of the way
// of one person is bounded.
func TestOneMomentIsBounded(t *testing.T) {
	p := compiled(t, "id: a\nentry: {when: {at: \"2026-12-01 09:00\"}}\nsteps:\n  - {id: m, message: {template: tour}}\n")
	in := Input{Plan: p, From: monday, Until: monday.Add(7 * day), People: (&Crowd{People: 2000, SeenBefore: monday}).Make()}
	if _, err := Run(&ending{context.Background(), 3}, in); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that its time is over", err)
	}
	p = compiled(t, "id: a\nentry: {when: {event: e}, again_after: 0s}\nsteps:\n  - {id: m, message: {template: tour}}\n")
	in = Input{Plan: p, From: monday, Until: monday.Add(7 * day), People: in.People[:1], Samples: []int{0}}
	for i := range MaxMoves {
		in.Happenings = append(in.Happenings, Happening{At: monday.Add(time.Duration(i) * time.Minute), Fact: event("e", "")})
	}
	if o := simulated(t, in); o.Entered != MaxMoves || len(o.Ways[0].Moves) < MaxMoves || len(o.Ways[0].Moves) > MaxMoves+9 {
		t.Errorf("%d have entered, and %d moves are told", o.Entered, len(o.Ways[0].Moves))
	}
}

func contextWithCause(t *testing.T) (context.Context, context.CancelCauseFunc) {
	t.Helper()
	return context.WithCancelCause(t.Context())
}

// Who moves on by what happens is not moved again by the time of the wait before.
func TestOldTimesAreForgotten(t *testing.T) {
	p := compiled(t, `
id: a
entry: {when: {api: true}}
steps:
  - {id: w, wait_for: {within: 1d, paths: [{name: e, when: {event: e}, next: d}], otherwise: exit}}
  - {id: d, delay: {for: 10d}, next: m}
  - {id: m, message: {template: x}}
`)
	o := simulated(t, Input{Plan: p, From: monday, Until: monday.Add(20 * day), People: (&Crowd{People: 1, SeenBefore: monday}).Make(), Samples: []int{0},
		Happenings: []Happening{{0, monday, journey.Fact{}}, {0, monday.Add(time.Hour), event("e", "")}}})
	for _, m := range o.Ways[0].Moves {
		if m.What == "mail" && !m.At.Equal(monday.Add(10*day+time.Hour)) {
			t.Errorf("the mail leaves at %v:\n%s", m.At, o)
		}
	}
	if o.Mails != 1 {
		t.Errorf("%s", o)
	}
}

// Paths by chance have their shares, the same person takes the same one each time, and
// another step divides people in another way.
func TestShares(t *testing.T) {
	p := compiled(t, `
id: a
entry: {when: {api: true}, again_after: 0s}
steps:
  - {id: r, random: {paths: [{name: a, weight: 20, next: s}, {name: b, weight: 79.5, next: s}, {name: c, weight: 0.5, next: s}]}}
  - {id: s, random: {paths: [{name: a, weight: 50, next: exit}, {name: b, weight: 50, next: m}]}}
  - {id: m, message: {template: x}}
`)
	const people = 20_000
	in := Input{Plan: p, From: monday, Until: monday.Add(day), People: (&Crowd{People: people, SeenBefore: monday, Partitions: 16}).Make()}
	for i := range people {
		in.Happenings = append(in.Happenings, Happening{i, monday, journey.Fact{}})
	}
	once := simulated(t, in)
	for i, want := range []int{people * 20 / 100, people * 795 / 1000, people * 5 / 1000} {
		if got := once.Steps[0].Paths[i].Passed; got < want-people/100 || got > want+people/100 || got == 0 {
			t.Errorf("%s", once)
		}
	}
	if got := once.Steps[1].Paths[0].Passed; got < people*48/100 || got > people*52/100 {
		t.Errorf("%s", once)
	}
	for i := range people {
		in.Happenings = append(in.Happenings, Happening{i, monday.Add(time.Hour), journey.Fact{}})
	}
	for i, path := range simulated(t, in).Steps[0].Paths {
		if path.Passed != 2*once.Steps[0].Paths[i].Passed {
			t.Errorf("path %s is taken %d times by those who took it once, %d", path.Name, path.Passed, once.Steps[0].Paths[i].Passed)
		}
	}
}

// The change of an attribute lets people in as it says: from a value, to a value.
func TestChangesOfAttributes(t *testing.T) {
	for trigger, want := range map[string]int{
		"attribute: plan": 3, "attribute: plan, to: gold": 2, "attribute: plan, from: free, to: gold": 1, "attribute: plan, from: null": 1, "attribute: plan, to: null": 1, "attribute: other": 0,
		"attribute: plan, path: [a]": 0,
	} {
		p := compiled(t, "{id: a, entry: {when: {"+trigger+"}}, steps: [{id: m, message: {template: x}}]}")
		in := Input{Plan: p, From: monday, Until: monday.Add(day), People: (&Crowd{People: 4, SeenBefore: monday, Attributes: wanting}).Make()}
		for i, body := range []string{`{"plan":["free","gold"]}`, `{"plan":[null,"gold"]}`, `{"plan":["gold",null]}`, `{"plan":["gold","gold"]}`} {
			in.Happenings = append(in.Happenings, Happening{i, monday, journey.Fact{Kind: journey.FactAttributes, Body: body}})
		}
		if got := simulated(t, in).Mails; got != want {
			t.Errorf("%s: %d mails, want %d", trigger, got, want)
		}
	}
}

// So many of those who get a mail open and click it as is said, and who clicks takes the
// path of the click. Without reactions nobody does.
func TestReactions(t *testing.T) {
	p := compiled(t, `
id: reads
entry: {when: {event: go}}
steps:
  - {id: ask, message: {template: t}, next: wait}
  - id: wait
    wait_for:
      within: 20d
      ranked: true
      paths:
        - {name: clicked, when: {mail: clicked, step: ask}, next: exit}
        - {name: opened, when: {mail: opened, step: ask}, next: exit}
      otherwise: exit
`)
	const people = 4000
	crowd := Crowd{People: people, Seed: 3, SeenBefore: monday, Attributes: wanting}
	in := Input{Plan: p, From: monday, Until: monday.Add(30 * day), People: crowd.Make()}
	for i := range people {
		in.Happenings = append(in.Happenings, Happening{i, monday.Add(time.Hour), event("go", "")})
	}
	for _, c := range []struct{ opens, clicks, wantOpened, wantClicked float64 }{
		{0, 0, 0, 0}, {0.4, 0.1, 0.3, 0.1}, {0, 0.2, 0, 0.2}, {1, 1, 0, 1},
	} {
		in.Reactions = Reactions{Opens: c.opens, Clicks: c.clicks, Seed: 5}
		o := simulated(t, in)
		if again := simulated(t, in); !reflect.DeepEqual(o, again) {
			t.Errorf("%+v: a second run is another", c)
		}
		paths := o.Steps[1].Paths
		clicked, opened := float64(paths[0].Passed)/people, float64(paths[1].Passed)/people
		if max(clicked-c.wantClicked, c.wantClicked-clicked) > 0.03 || max(opened-c.wantOpened, c.wantOpened-opened) > 0.03 || o.Mails != people {
			t.Errorf("%+v: %.3f clicked, %.3f only opened, %d mails", c, clicked, opened, o.Mails)
		}
	}
}

// A journey that lets people in again by its own mail, or its own update, goes on in time,
// and is refused when it comes to too much.
func TestAJourneyThatCallsItself(t *testing.T) {
	for _, own := range []string{
		"{id: a, entry: {when: [{event: go}, {mail: received, journey: a}], again_after: 0s}, steps: [{id: m, message: {template: x}}]}",
		"{id: a, entry: {when: [{event: go}, {attribute: n}], again_after: 0s}, steps: [{id: u, update: {attributes: {n: {inc: 1}}}, next: m}, {id: m, message: {template: x}}]}",
	} {
		in := Input{Plan: compiled(t, own), From: monday, Until: monday.Add(time.Minute), People: (&Crowd{People: 1, SeenBefore: monday, Attributes: wanting}).Make(),
			Happenings: []Happening{{0, monday, event("go", "")}}}
		if o := simulated(t, in); o.Mails != 61 {
			t.Errorf("%d mails in a minute and its last second, want one a second:\n%s", o.Mails, o)
		}
		in.Until, in.MaxFollowing = monday.Add(day), 1000
		if _, err := Run(t.Context(), in); err == nil || !strings.Contains(err.Error(), "more than 1000 things follow") {
			t.Errorf("%v", err)
		}
	}
}

// People are made to do whatever lets them in: calls and changes, too.
func TestAllEntriesAreTried(t *testing.T) {
	for _, when := range []string{"{api: true}", "{attribute: plan, from: free, to: gold}", "{attribute: address, path: [city]}", "{attribute: plan, to: null}", `{attribute: plan, from: "another"}`, "{group: news, becomes: subscribed}", "{subscription: email, becomes: opted_in}"} {
		try := Try{Plan: compiled(t, "{id: a, entry: {when: "+when+"}, steps: [{id: m, message: {template: x}}]}"), Document: "{}", From: monday, People: 100, Seed: 1}
		in, err := try.Input()
		if err != nil {
			t.Fatal(err)
		}
		if o := simulated(t, *in); o.Entered == 0 {
			t.Errorf("%s lets nobody in", when)
		}
	}
}

// The rate of a journey has people wait at its messages, and at nothing else.
func TestRates(t *testing.T) {
	p := compiled(t, `
id: a
entry: {when: {api: true}}
steps:
  - {id: s, split: {if: {field: language, is: equals, value: de}, then: m, else: d}}
  - {id: m, message: {template: x}}
  - {id: d, delay: {for: 1m}}
limits: {per_minute: 60}
`)
	const people = 200
	german := map[string][]string{"language": {`"de"`, `"en"`}, "email_subscribe": {""}}
	in := Input{Plan: p, From: monday, Until: monday.Add(30 * time.Second), People: (&Crowd{People: people, Seed: 1, SeenBefore: monday, Attributes: german}).Make()}
	for i := range people {
		in.Happenings = append(in.Happenings, Happening{i, monday, journey.Fact{}})
	}
	o := simulated(t, in)
	if m, d := &o.Steps[1], &o.Steps[2]; m.Mails < 28 || m.Mails > 31 || m.Waiting != m.Entered-m.Mails || d.Entered+m.Entered != people {
		t.Errorf("after half a minute:\n%s", o)
	}
	in.Until = monday.Add(10 * time.Minute)
	if o := simulated(t, in); o.Finished != people || o.Mails != o.Steps[1].Entered {
		t.Errorf("after ten minutes:\n%s", o)
	}
}

// Caps and the control group of all journeys keep mail back, and a way says why.
func TestWhyThereIsNoMail(t *testing.T) {
	p := compiled(t, `
id: a
entry: {when: {api: true}, again_after: 0s}
steps: [{id: m, message: {template: x}}]
`)
	in := Input{Plan: p, From: monday, Until: monday.Add(3 * day), Samples: []int{0}, Caps: []journey.Cap{{Messages: 2, Window: day}},
		People: (&Crowd{People: 1, SeenBefore: monday, Attributes: wanting}).Make()}
	for hour := range 26 {
		in.Happenings = append(in.Happenings, Happening{0, monday.Add(time.Duration(hour) * time.Hour), journey.Fact{}})
	}
	says := func(want string) {
		t.Helper()
		o := simulated(t, in)
		for _, m := range o.Ways[0].Moves {
			if m.What == "no mail: "+want {
				return
			}
		}
		t.Errorf("nothing says %q:\n%s", want, o)
	}
	if o := simulated(t, in); o.Mails != 3 || o.Steps[0].Capped != 23 {
		t.Errorf("want two mails of the first day and one of the second:\n%s", o)
	}
	says("as many as caps allow were got")
	in.Control = 100
	says("in the control group of all journeys")
	in.People = (&Crowd{People: 1, SeenBefore: monday, Attributes: map[string][]string{"email_subscribe": {`"unsubscribed"`}}}).Make()
	says("there is no address, or it is not wanted")
}

// Who is out by the second of a schedule, or of what happens, may enter by it, as with the
// engine: the watch for a conversion ends then, or the last delay does.
func TestWhoIsOutInASecondMayEnterInIt(t *testing.T) {
	const within = "conversions: {name: bought, when: {event: bought}, within: 7d}\n"
	for text, want := range map[string]int{
		"{at: \"2026-12-01 09:00\", every: week}, again_after: 6d}\nsteps: [{id: s, exit: {}}]\n" + within: 3,
		"{at: \"2026-12-01 09:00\", every: week}, again_after: 0s}\nsteps: [{id: s, delay: {for: 7d}}]\n":  3,
		"{event: in}, again_after: 6d}\nsteps: [{id: s, exit: {}}]\n" + within:                             3,
		"{api: true}, again_after: 6d}\nsteps: [{id: s, exit: {}}]\n" + within:                             3,
	} {
		in := Input{Plan: compiled(t, "id: a\nentry: {when: "+text), From: monday, Until: monday.Add(20 * day), People: (&Crowd{People: 1, SeenBefore: monday}).Make()}
		for n := range 3 {
			f := event("in", "")
			if strings.Contains(text, "api") {
				f = journey.Fact{}
			}
			in.Happenings = append(in.Happenings, Happening{0, monday.Add(time.Duration(n) * 7 * day), f})
		}
		if o := simulated(t, in); o.Entered != want {
			t.Errorf("%s: %d have entered, want %d", text, o.Entered, want)
		}
	}
}
