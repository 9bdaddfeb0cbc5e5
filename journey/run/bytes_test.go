package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/store"
	"sluice/user"
)

// largest is the size of the largest entry of the log.
func (b *bed) largest() (most int) {
	b.Helper()
	for at := (sluice.Position{}); ; {
		batches, err := b.log.Read(b.Context(), at, 10, 0)
		if err != nil {
			b.Fatal(err)
		}
		if len(batches) == 0 {
			return most
		}
		for i := range batches {
			most, at = max(most, len(batches[i].Data)), batches[i].Position
		}
	}
}

// heavyText makes a mail nearly as large as one may be.
var heavyText = strings.Repeat("x", 3500)

// heavySteps are two mails and an update that are large, and lead to a last step.
func heavySteps(first, last string) string {
	mail := func(id, next string) string {
		return "  - {id: " + id + ", message: {content: {subject: s, from: us@example.org, text: " + heavyText + "}}, next: " + next + "}\n"
	}
	return mail(first, "note") + "  - {id: note, update: {attributes: {seen: " + heavyText + "}}, next: two}\n" + mail("two", last)
}

// gotAll checks that each of the people has so many mails, each of them once, and that no
// commit was larger than one may be.
func (b *bed) gotAll(people, mails, updates int) {
	b.Helper()
	f := b.read()
	for id, n := range f.ids {
		if n != 1 {
			b.Fatalf("mail %s was made %d times", id, n)
		}
	}
	for n := range people {
		if got := f.sends[profileAddress(n+1)]; got != mails {
			b.Fatalf("person %d has %d mails, want %d", n+1, got, mails)
		}
	}
	if f.updates != updates {
		b.Errorf("%d updates, want %d", f.updates, updates)
	}
	if most := b.largest(); most > flow.CommitBytes+flow.CommitBytes/4 {
		b.Errorf("the largest commit has %d bytes of items, want %d and a little at most", most, flow.CommitBytes)
	}
}

// Who goes from journey to journey by one decision gets the mails of all of them, and no
// commit has more of them than a commit may: by whatever people are moved.
func TestAChainOfJourneysIsDivided(t *testing.T) {
	const people, journeys = 300, 6
	for name, way := range map[string]struct {
		first string // step
		moves func(b *bed)
	}{
		"facts": {"", func(*bed) {}},
		"time":  {"  - {id: pause, delay: {for: 1h}, next: one}\n", func(b *bed) { b.clock.Move(time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, people)
			for n := 1; n < journeys; n++ {
				b.draft(fmt.Sprint("j", n))
			}
			for n := range journeys {
				when, first, last, go_ := "other", "", "exit", ""
				if n == 0 {
					when, first = "signup", way.first
				}
				if n+1 < journeys {
					last, go_ = "on", fmt.Sprintf("  - {id: on, go: {journey: j%d}}\n", n+1)
				}
				text := fmt.Sprintf("id: j%d\nentry: {when: {event: %s}}\nsteps:\n%s%s%s", n, when, first, heavySteps("one", last), go_)
				if n == 0 {
					b.publish(text)
				} else {
					b.publishAgain(fmt.Sprint("j", n), text)
				}
			}
			b.enterAll(people)
			b.passes(b.open())
			way.moves(b)
			p := b.open()
			if _, err := p.pass(t.Context()); err != nil { // and then another process takes over
				t.Fatal(err)
			}
			b.passes(b.open())
			b.gotAll(people, 2*journeys, people*journeys)
		})
	}
}

// Who stays at an update, because the commit has as much as it may, knows behind it what it
// entered with.
func TestWhoStaysAtAnUpdateKeepsTheContext(t *testing.T) {
	const people, journeys = 3, 30
	b := newBed(t, people)
	for n := range journeys {
		b.publish(fmt.Sprintf("id: j%d\nentry: {when: {event: signup}}\nsteps:\n  - {id: note, update: {attributes: {seen: %s}}, next: which}\n", n, strings.Repeat("x", 20_000)) +
			"  - {id: which, split: {if: {context: n, is: equals, value: 1}, then: mail, else: exit}}\n  - {id: mail, message: {template: x}}\n")
	}
	for n := int64(1); n <= people; n++ {
		b.fact(uint64(n), n, journey.FactEvent, "signup", `{"n":1}`)
	}
	p := b.open()
	b.passes(p)
	if p.stats.Moved.Load() == 0 {
		t.Fatal("nobody stays at the update: this test shows nothing")
	}
	if f := b.read(); f.updates != people*journeys || len(f.ids) != people*journeys {
		t.Errorf("%d updates and %d mails, want %d of each", f.updates, len(f.ids), people*journeys)
	}
}

// One fact lets a person into many journeys, and no commit has more than a commit may.
func TestOneFactIsForManyJourneys(t *testing.T) {
	const people, journeys = 3, 80
	b := newBed(t, people)
	for n := range journeys {
		b.publish(fmt.Sprintf("id: j%d\nentry: {when: {event: signup}}\nsteps:\n%s", n, heavySteps("one", "exit")))
	}
	b.enterAll(people)
	b.passes(b.open())
	b.gotAll(people, 2*journeys, people*journeys)
}

// A circle of journeys in which nothing waits ends, also where so many walk in it that what
// they get is divided.
func TestACircleThatIsDividedEnds(t *testing.T) {
	const people = 700
	b := newBed(t, people)
	b.draft("back")
	b.publish("id: forth\nentry: {when: {event: signup}, again_after: 0s}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: one}\n" + heavySteps("one", "on") + "  - {id: on, go: {journey: back}}\n")
	b.publishAgain("back", "id: back\nentry: {when: {event: other}, again_after: 0s}\nsteps:\n"+heavySteps("one", "on")+"  - {id: on, go: {journey: forth}}\n")
	b.enterAll(people)
	b.passes(b.open())
	b.clock.Move(time.Hour)
	b.passes(b.open())
	b.gotAll(people, 4, 2*people) // forth leads to a pause
	b.publishAgain("forth", "id: forth\nentry: {when: {event: signup}, again_after: 0s}\nsteps:\n"+heavySteps("one", "on")+"  - {id: on, go: {journey: back}}\n")
	b.clock.Move(time.Hour)
	b.passes(b.open())
	f := b.read()
	for n := range people {
		if got := f.sends[profileAddress(n+1)]; got != 4+6 { // behind the pause, back, and forth once more
			t.Fatalf("person %d has %d mails, want 10", n+1, got)
		}
	}
}

// weighingStore notes how many bytes of profiles one statement has brought.
type weighingStore struct {
	countingStore
	most *int
}

func (s weighingStore) weigh(f func(int64, string) bool) func(int64, string) bool {
	bytes := 0
	return func(number int64, profile string) bool {
		bytes += len(profile)
		*s.most = max(*s.most, bytes)
		return f(number, profile)
	}
}

func (s weighingStore) EachProfile(ctx context.Context, partition int, after int64, limit int, f func(int64, string) bool) error {
	return s.countingStore.EachProfile(ctx, partition, after, limit, s.weigh(f))
}

func (s weighingStore) ProfilesOf(ctx context.Context, partition int, numbers []int64, f func(int64, string) bool) error {
	return s.countingStore.ProfilesOf(ctx, partition, numbers, s.weigh(f))
}

// People whose profiles are as large as they may be move as others do, and their profiles
// are never in memory all at once: in a page of facts, and where they are due, side by side or
// far apart.
func TestLargeProfilesMoveInPieces(t *testing.T) {
	const people = 11
	for _, apart := range []int{1, 300} {
		b := newBed(t, people*apart)
		pad := strings.Repeat("x", user.MaxProfileBytes-200)
		var facts []journey.Fact
		for i := range people {
			n := i*apart + 1
			profile := fmt.Sprintf(`{"external_id":"u%d","fields":{"email":%q},"custom":{"pad":%q}}`, n, profileAddress(n), pad)
			b.apply(&store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Number: int64(n)}, Profile: profile}}}})
			facts = append(facts, journey.Fact{Place: sluice.Place{Position: sluice.Position{Major: 1, Minor: uint64(i) + 1}}, Number: int64(n), Kind: journey.FactEvent, Name: "signup", TimeMillis: 1})
		}
		b.publish("id: all\nentry: {when: {event: signup}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: mail}\n  - {id: mail, message: {template: x}}\n")
		b.apply(&store.Effect{JourneyFacts: facts})
		most := 0
		open := func() *part {
			p := b.open()
			p.store = weighingStore{p.store.(countingStore), &most}
			return p
		}
		b.passes(open())
		if n := b.read().counts["journey/all/pause/entered"]; n != people {
			t.Fatalf("%d have entered, want %d", n, people)
		}
		b.clock.Move(time.Hour)
		b.passes(open())
		f := b.read()
		for i := range people {
			if n := i*apart + 1; f.sends[profileAddress(n)] != 1 {
				t.Errorf("person %d has %d mails, want 1", n, f.sends[profileAddress(n)])
			}
		}
		if want := 36 << 20; most > want {
			t.Errorf("%d bytes of profiles by one statement, want %d at most", most, want)
		}
	}
}

// A page of facts ends behind store.FactsBytes, and the rest is told before people move who
// are due by then.
func TestLargeFactsComeInPages(t *testing.T) {
	const people = 30
	b := newBed(t, people)
	b.publish("id: all\nentry: {when: {event: signup}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: mail}\n  - {id: mail, message: {template: x}}\nexit_when: {event: leave}\n")
	b.enterAll(people)
	b.passes(b.open())
	b.clock.Move(time.Hour)
	body := `{"pad":"` + strings.Repeat("x", 900<<10) + `"}`
	for n := range people {
		b.fact(uint64(1000+n), int64(n+1), journey.FactEvent, "leave", body)
	}
	p := b.open()
	b.facts = 0
	b.passes(p)
	if f := b.read(); len(f.ids) != 0 || f.counts["journey/all/pause/exited"] != people {
		t.Errorf("%d mails and %d exits, want all to leave before", len(f.ids), f.counts["journey/all/pause/exited"])
	}
	if want := 4; b.facts < want { // of nine facts each
		t.Errorf("%d pages of facts, want %d at least", b.facts, want)
	}
}

// Whatever a step comes to, a group has one person at least and few enough.
func TestGroupsAreBoundedByBytes(t *testing.T) {
	b := newBed(t, 1)
	var large []string // an update of more than a commit
	for i := range 5 {
		large = append(large, fmt.Sprintf("a%d: %s", i, strings.Repeat("x", 49_000)))
	}
	for text, want := range map[string][2]int{ // the fewest and the most people
		"  - {id: one, message: {template: x}}\n": {mailsAtOnce, mailsAtOnce},
		"  - {id: one, exit: {}}\n":               {mailsAtOnce, mailsAtOnce},
		heavySteps("one", "exit"):                 {10, 40},
		"  - {id: one, update: {attributes: {" + strings.Join(large, ", ") + "}}}\n": {1, 1},
	} {
		id := fmt.Sprint("j", len(text))
		b.publish("id: " + id + "\nentry: {when: {event: signup}}\nsteps:\n" + text)
		at := slices.IndexFunc(b.all, func(j *plans) bool { return j.id == id })
		if got := b.all[at].current.atOnce; got < want[0] || got > want[1] {
			t.Errorf("%d people at once, want %d to %d", got, want[0], want[1])
		}
	}
}
