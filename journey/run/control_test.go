package run

import (
	"maps"
	"testing"
	"time"

	"sluice/journey"
	"sluice/journey/step"
	"sluice/user"
)

// The control group of all journeys gets no marketing mail of any: the same people in
// each, a share of all, and all of a smaller group are in a larger one. They walk on, and
// get transactional mail.
func TestGlobalControl(t *testing.T) {
	const people = 1000
	withheld := make(map[int]map[string]bool)
	for _, percent := range []int{0, 5, 10} {
		b := newBed(t, people)
		b.control = percent
		b.publish(alone("signup", ""))
		b.publish(`
id: other
entry: {when: {event: signup}}
steps:
  - {id: a, message: {template: x, tags: other}, next: code}
  - {id: code, message: {content: {subject: a, text: a, from: us@example.org}, class: transactional, tags: code}}
`)
		b.enterAll(people)
		b.passes(b.open())
		f := b.read()
		out := make(map[string]bool)
		for to, n := range f.sends {
			switch n {
			case 1:
				out[to] = true // transactional alone
			case 3:
			default:
				t.Fatalf("%s has %d mails, want all or the transactional one", to, n)
			}
		}
		if n := f.counts["journey/other/a/withheld"]; int(n) != len(out) || f.counts["journey/signup/a/withheld"] != n || f.counts["journey/other/code/passed"] != people || len(f.sends) != people {
			t.Errorf("%d percent: %v counted, %d people", percent, f.counts, len(out))
		}
		if share := len(out) * 100 / people; share < percent-2 || share > percent+2 {
			t.Errorf("%d of %d people are withheld, want %d percent", len(out), people, percent)
		}
		withheld[percent] = out
	}
	maps.DeleteFunc(withheld[5], func(to string, _ bool) bool { return withheld[10][to] })
	if len(withheld[5]) > 0 {
		t.Errorf("%d are among five percent and not among ten", len(withheld[5]))
	}
}

// Entries and conversions of those who get no marketing mail of any journey are counted
// beside those of the others, and people of the journey's own control group in neither. Who
// has taken over a place converts in the group of the user who entered.
func TestTheGlobalControlIsCountedBesideTheOthers(t *testing.T) {
	const people, percent = 400, 20
	b := newBed(t, people)
	b.control = percent
	j := b.publish(`
id: half
entry: {when: {event: signup}}
control: {percent: 10}
steps:
  - {id: a, message: {template: x}, next: wait}
  - {id: wait, delay: {for: 1d}}
conversions: {name: bought, when: {purchase: "*"}, within: 7d}
`)
	b.enterAll(people)
	b.passes(b.open())
	control, others, own := int64(0), int64(0), int64(0)
	var other int64
	for number, r := range b.records(j) {
		switch id := (user.ID{Number: number}); {
		case r.State == journey.StateControl:
			own++
		case step.InGlobalControl(id, percent):
			control++
		default:
			others, other = others+1, number
		}
	}
	into := int64(people + 1)
	for !step.InGlobalControl(user.ID{Number: into}, percent) {
		into++
	}
	b.merge(people+1, other, user.ID{Number: into})
	b.passes(b.open())
	for n := int64(1); n <= people; n++ {
		who := n
		if n == other {
			who = into
		}
		b.fact(uint64(2*people)+uint64(n), who, journey.FactPurchase, "shoe", `{}`)
	}
	b.passes(b.open())
	f := b.read()
	for name, want := range map[string]int64{
		"half/a/held": own, "half/held_converted/bought": own, "half/a/withheld": control,
		"half/global_control_20/entered": control, "half/global_others_20/entered": others,
		"half/global_control_20/converted/bought": control, "half/global_others_20/converted/bought": others,
	} {
		if got := f.counts["journey/"+name]; got != want || want == 0 {
			t.Errorf("%s: %d are counted, want %d", name, got, want)
		}
	}
}

// In a pause people convert who are inside, and who are in the control group of the
// journey: else it would seem to work better than it does. Nobody enters again.
func TestTheControlGroupConvertsInAPause(t *testing.T) {
	const people = 200
	b := newBed(t, people)
	j := b.publish(`
id: half
entry: {when: {event: signup}, again_after: 0s}
control: {percent: 50}
steps:
  - {id: wait, delay: {for: 1d}, next: a}
  - {id: a, message: {template: x}}
conversions: {name: bought, when: {purchase: "*"}, within: 7d}
`)
	b.enterAll(people)
	b.passes(b.open())
	b.status("half", journey.StatusPaused)
	for n := int64(1); n <= people; n++ {
		b.fact(uint64(people+2*n), n, journey.FactPurchase, "shoe", `{}`)
		b.fact(uint64(people+2*n+1), n, journey.FactEvent, "signup", "")
	}
	b.passes(b.open())
	f := b.read()
	inside, held := f.counts["journey/half/converted/bought"], f.counts["journey/half/held_converted/bought"]
	if inside+held != people || inside == 0 || held == 0 {
		t.Errorf("%d converted, %d of the control group; want %d together", inside, held, people)
	}
	for number, r := range b.records(j) {
		if r.Occurrence != 0 {
			t.Fatalf("%d has entered again in a pause", number)
		}
	}
}

// Who was taken out by a trigger converts as the control group does, also in a pause, and
// behind the end of the version.
func TestWhoWasTakenOutConverts(t *testing.T) {
	const people = 100
	const text = `
id: half
entry: {when: {event: signup}}
control: {percent: 50}
steps:
  - {id: wait, delay: {for: 1d}, next: a}
  - {id: a, message: {template: x}}
exit_when: {event: gone}
conversions: [{name: bought, when: {purchase: "*"}, within: 7d}]
`
	b := newBed(t, people)
	b.publish(text)
	b.enterAll(people)
	b.passes(b.open())
	for n := int64(1); n <= people; n++ {
		b.fact(uint64(people+n), n, journey.FactEvent, "gone", "")
	}
	b.passes(b.open())
	buy := func(from, to int64) {
		for n := from; n <= to; n++ {
			b.fact(uint64(2*people+n), n, journey.FactPurchase, "shoe", `{}`)
		}
		b.passes(b.open())
	}
	buy(1, 30)
	b.status("half", journey.StatusPaused)
	buy(31, 60)
	j, err := b.store.Journey(t.Context(), "half")
	if err != nil {
		t.Fatal(err)
	}
	b.publishAgain("half", text)
	if err := b.store.EndVersions(t.Context(), j.Number, []int{1}, b.clock.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
	b.status("half", journey.StatusLive)
	if b.all, b.published, err = b.loader().Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	buy(61, people)
	f := b.read()
	treated, held := f.counts["journey/half/converted/bought"], f.counts["journey/half/held_converted/bought"]
	if f.counts["journey/half/wait/exited"] != treated || treated+held != people || held == 0 {
		t.Errorf("%d have exited, %d converted, %d of the control group; want %d together", f.counts["journey/half/wait/exited"], treated, held, people)
	}
}

// Who was taken out and converts by a newer version stays in the version that it was in: its
// step and its branches are of that one, and the newer one may have fewer steps.
func TestWhoConvertsKeepsItsVersion(t *testing.T) {
	const begin = "id: shop\nentry: {when: {event: signup}}\nexit_when: {event: gone}\nconversions: [{name: bought, when: {purchase: \"*\"}, within: 7d}]\nsteps:\n"
	b := newBed(t, 1)
	j := b.publish(begin + "  - {id: first, delay: {for: 1h}, next: second}\n  - {id: second, delay: {for: 1d}}\n")
	b.enterAll(1)
	b.passes(b.open())
	b.clock.Move(time.Hour)
	b.passes(b.open())
	b.fact(2, 1, journey.FactEvent, "gone", "")
	b.passes(b.open())
	want := b.records(j)[1]
	if want.State != journey.StateExited || want.Step != 1 || want.Version != 1 {
		t.Fatalf("the person is %+v, want taken out at the second step", want)
	}
	b.publishAgain("shop", begin+"  - {id: other, delay: {for: 1h}}\n")
	b.fact(3, 1, journey.FactPurchase, "shoe", `{}`)
	b.passes(b.open())
	want.Converted = 1
	if got := b.records(j)[1]; got != want || b.read().counts["journey/shop/converted/bought"] != 1 {
		t.Errorf("the person is %+v, want %+v; counted %v", got, want, b.read().counts)
	}
}

// Who is in the control group, or was taken out, converts by the newest version. What has
// converted before, by the version of the entry, is told apart by name, not by place.
func TestConversionsKeepTheirNamesOverVersions(t *testing.T) {
	const people = 100
	text := func(conversions string) string {
		return "id: half\nentry: {when: {event: signup}}\ncontrol: {percent: 50}\nsteps: [{id: wait, delay: {for: 30d}}]\nexit_when: {event: quit}\nconversions: [" + conversions + "]\n"
	}
	const bought, asked, came = "{name: bought, when: {event: buy}, within: 7d}", "{name: asked, when: {event: ask}, within: 7d}", "{name: came, when: {event: come}, within: 7d}"
	b := newBed(t, people)
	b.draft("half")
	b.publishAgain("half", text(bought+", "+asked))
	b.enterAll(people)
	b.passes(b.open())
	b.tell(people, "quit", 1, people)
	b.tell(2*people, "buy", 1, people)
	b.passes(b.open())
	b.publishAgain("half", text(came+", "+asked+", "+bought))
	for at, event := range []string{"buy", "ask", "come", "ask", "come"} {
		b.tell(uint64(people*(3+at)), event, 1, people)
	}
	b.passes(b.open())
	f := b.read()
	held := f.counts["journey/half/wait/held"]
	for _, name := range []string{"bought", "asked", "came"} {
		if got, others := f.counts["journey/half/held_converted/"+name], f.counts["journey/half/converted/"+name]; got != held || others != people-held || held == 0 {
			t.Errorf("%s: %d of %d in the control group, %d of %d others", name, got, held, others, people-held)
		}
	}
}
