package run

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/journey"
	"sluice/store"
	"sluice/user"
)

// People who came to a go step before its target was published go there as soon as it is. Until
// then they are due since they came.
func TestGoWaitsForAPublish(t *testing.T) {
	b := newBed(t, 300)
	b.draft("from2")
	from := b.publish(`
id: from
entry: {when: {event: signup}}
steps:
  - {id: over, go: {journey: from2}}
`)
	b.enterAll(300)
	b.passes(b.open())
	if r := b.records(from)[7]; r.State != journey.StateInside || r.Due != r.Entered {
		t.Fatalf("before the target is there a person is %+v", r)
	}
	b.publishAgain("from2", `
id: from2
entry: {when: {event: other}}
steps:
  - {id: hello, message: {template: x}}
`)
	b.passes(b.open()) // at the same moment
	if f := b.read(); len(f.ids) != 300 || f.counts["journey/from/over/passed"] != 300 {
		t.Errorf("%d mails, %d have passed, want 300", len(f.ids), f.counts["journey/from/over/passed"])
	}
	if r := b.records(from)[7]; r.State != journey.StateFinished {
		t.Errorf("behind it a person is %+v", r)
	}
}

// draft adds a journey that others may name.
func (b *bed) draft(id string) {
	b.Helper()
	if _, err := b.store.AddJourney(b.Context(), store.Journey{ID: id, Status: journey.StatusDraft, Draft: "{}"}); err != nil {
		b.Fatal(err)
	}
}

// Journeys that lead to each other in a circle in which nothing waits let each person in
// once by one decision. Where something waits, people come by there again and again.
func TestACircleOfJourneysEnds(t *testing.T) {
	for pause, want := range map[string][]string{
		"": {"first", "second"},
		"  - {id: pause, delay: {for: 1h}, next: over}\n": {"first", "second", "first", "second", "first"},
	} {
		b := newBed(t, 1)
		b.draft("back")
		begin := "over"
		if pause != "" {
			begin = "pause"
		}
		b.publish("id: forth\nentry: {when: {event: signup}, again_after: 0s}\nsteps:\n  - {id: first, message: {template: x}, next: " + begin + "}\n" + pause + "  - {id: over, go: {journey: back}}\n")
		b.publishAgain("back", "id: back\nentry: {when: {event: other}, again_after: 0s}\nsteps:\n  - {id: second, message: {template: x}, next: over}\n  - {id: over, go: {journey: forth}}\n")
		b.enterAllAt(1, 0)
		for range 3 {
			b.passes(b.open())
			b.clock.Move(time.Hour)
		}
		if got := b.read().steps[profileAddress(1)]; !slices.Equal(got, want) {
			t.Errorf("the person has the mails %v, want %v", got, want)
		}
	}
}

// So it is where a rate, quiet hours or a pause of one of the journeys divides the decision
// for longer than people enter as of the time by which they came.
func TestACircleOfJourneysEndsBehindALongQueue(t *testing.T) {
	const people = 3
	for name, of := range map[string]struct {
		text  string                    // of the journey that is slow
		begin func(b *bed, slow string) // before people enter
		end   func(b *bed, slow string) // two hours later
	}{
		"rate":        {text: "limits: {per_minute: 1}\n", end: func(b *bed, _ string) { b.all[0].perMinute, b.all[1].perMinute = 0, 0 }},
		"quiet hours": {text: "quiet: {from: \"08:00\", to: \"11:00\"}\n"},
		"pause": {
			begin: func(b *bed, slow string) { b.status(slow, journey.StatusPaused) },
			end:   func(b *bed, slow string) { b.status(slow, journey.StatusLive) },
		},
	} {
		for _, slow := range []string{"forth", "back"} {
			if name == "pause" && slow == "forth" { // nobody enters it then
				continue
			}
			b := newBed(t, people)
			b.draft("back")
			texts := map[string]string{slow: of.text}
			b.publish("id: forth\nentry: {when: {event: signup}, again_after: 0s}\nsteps:\n  - {id: first, message: {template: x}, next: over}\n  - {id: over, go: {journey: back}}\n" + texts["forth"])
			b.publishAgain("back", "id: back\nentry: {when: {event: other}, again_after: 0s}\nsteps:\n  - {id: second, message: {template: x}, next: over}\n  - {id: over, go: {journey: forth}}\n"+texts["back"])
			if of.begin != nil {
				of.begin(b, slow)
			}
			b.enterAllAt(people, uint64(b.clock.Now().UnixMilli()))
			b.passes(b.open())
			b.clock.Move(2 * time.Hour)
			if of.end != nil {
				of.end(b, slow)
			}
			b.passes(b.open())
			for n := 1; n <= people; n++ {
				if got := b.read().steps[profileAddress(n)]; !slices.Equal(got, []string{"first", "second"}) {
					t.Errorf("%s of %s: person %d has the mails %v, want one of each journey", name, slow, n, got)
				}
			}
		}
	}
}

// Who may enter again at once does, and goes on into another journey, also where the clock
// of the process is behind that of the log, which says when the first time was.
func TestWhoEntersAgainByASlowClock(t *testing.T) {
	b := newBed(t, 1)
	b.draft("over")
	b.publish("id: again\nentry: {when: {event: signup}, again_after: 5s}\nsteps:\n  - {id: mail, message: {template: x}, next: go}\n  - {id: go, go: {journey: over}}\n")
	b.publishAgain("over", "id: over\nentry: {when: {event: other}, again_after: 5s}\nsteps:\n  - {id: more, message: {template: x}}\n")
	ahead := b.clock.Now().Add(5 * time.Minute)
	for _, after := range []time.Duration{0, 3 * time.Second, 10 * time.Second} { // the second is too soon
		b.enterAllAt(1, uint64(ahead.Add(after).UnixMilli()))
	}
	b.passes(b.open())
	if got := b.read().steps[profileAddress(1)]; !slices.Equal(got, []string{"mail", "more", "mail", "more"}) {
		t.Errorf("the person has the mails %v", got)
	}
}

// publishing publishes so many times when it was asked for versions.
type publishing struct {
	store.JourneyStore
	times   int
	publish func()
}

func (s *publishing) VersionsInUse(ctx context.Context) ([]store.JourneyVersion, error) {
	all, err := s.JourneyStore.VersionsInUse(ctx)
	if s.times > 0 {
		s.times--
		s.publish()
	}
	return all, err
}

// People who are due go on into a journey that is published while journeys are read, also if
// that is so each time that they are read.
func TestGoWhileAPublishIsRead(t *testing.T) {
	for _, times := range []int{1, 2 * loadsAtMost} {
		b := newBed(t, 1)
		b.draft("to")
		b.publish("id: from\nentry: {when: {event: signup}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: go}\n  - {id: go, go: {journey: to}}\n")
		b.enterAll(1)
		b.passes(b.open())
		b.clock.Move(time.Hour)
		const to = "id: to\nentry: {when: {event: other}}\nsteps:\n  - {id: mail, message: {template: x}}\n"
		l := b.loader()
		l.Journeys = &publishing{b.store, times, func() { b.publishAgain("to", to) }}
		var err error
		if b.all, b.published, err = l.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.passes(b.open())
		if n := len(b.read().ids); n != 1 {
			t.Errorf("%d publishes: %d mails, want 1", times, n)
		}
	}
}

// passesFew makes 20 passes, one a second, and returns how many commits they made: people who
// cannot be moved make few.
func (b *bed) passesFew(p *part) int64 {
	b.Helper()
	before := p.stats.Commits.Load()
	for range 20 {
		if _, err := p.pass(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.clock.Move(time.Second)
	}
	return p.stats.Commits.Load() - before
}

// Somebody without a profile who is at a go step is looked at now and then, not in each
// turn, and goes on when the profile is there again. It goes no way of a ranked wait there.
func TestGoWithoutAProfile(t *testing.T) {
	b := newBed(t, 2)
	b.draft("to")
	from := b.publish("id: from\nentry: {when: {event: signup}}\nsteps:\n  - {id: go, go: {journey: to}}\n")
	b.enterAll(2)
	b.passes(b.open())
	b.apply(&store.Effect{Users: &user.Changes{Drop: []user.ID{{Number: 1}}}})
	b.publishAgain("to", "id: to\nentry: {when: {event: other}}\nsteps:\n  - {id: mail, message: {template: x}}\n")
	p := b.open()
	if n := b.passesFew(p); n > 5 {
		t.Errorf("%d commits in 20 seconds while a profile is missing, want one for each look", n)
	}
	r := b.records(from)[1]
	if n := len(b.read().ids); n != 1 || r.State != journey.StateInside || r.Rank != journey.RankMissing {
		t.Fatalf("%d mails, want that of the other person; the one is %+v", n, r)
	}
	p = b.open()
	if n := b.passesFew(p); n > 2 {
		t.Errorf("%d commits of a session that begins, want one when the person is due", n)
	}
	b.apply(&store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Number: 1}, Profile: profileOf(1)}}}})
	b.clock.Move(10 * time.Minute)
	b.passes(p)
	if r = b.records(from)[1]; len(b.read().ids) != 2 || r.State != journey.StateFinished || r.Rank != 0 {
		t.Errorf("with the profile again the person is %+v", r)
	}
}

// In a journey that was stopped, a record of a version that is not known makes no commit in
// each turn.
func TestAStoppedJourneyAndAnUnknownVersion(t *testing.T) {
	b := newBed(t, 2)
	j := b.publish(welcome)
	b.enterAll(2)
	p := b.open()
	b.passes(p)
	lost := b.records(j)[1]
	lost.Version = 7
	c := p.begin()
	if err := c.set(t.Context(), p.journeys[0], 1, &lost); err != nil {
		t.Fatal(err)
	}
	if err := c.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.status("welcome", journey.StatusStopped)
	p = b.open()
	if n := b.passesFew(p); n > 2 {
		t.Errorf("%d commits, want one that takes the other person out, and one that tells that nobody is left", n)
	}
	if at := b.records(j); at[1] != lost || at[2].State != journey.StateExited {
		t.Errorf("people are %+v", at)
	}
	b.clock.Move(time.Hour)
	if n := b.passesFew(p); n != 1 || p.stats.Lost.Load() != 1 {
		t.Errorf("%d commits and %d looks when the person is due, want one", n, p.stats.Lost.Load())
	}
}

// The mail of a journey that people come to from another one has the same name if they come
// again, behind a Redis that was lost: also if they came hours late, or a rate held them.
func TestMailBehindGoIsNamedTheSame(t *testing.T) {
	const people = 30
	const second = "id: second\nentry: {when: {event: never}}\nsteps:\n  - {id: mail, message: {template: x, tags: second}}\n"
	const pause = "id: first\nentry: {when: {event: signup}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: %s}\n"
	const on = "  - {id: on, go: {journey: second}}\n"
	for name, x := range map[string]struct {
		first string
		late  time.Duration
		now   bool // they enter now
	}{
		"on time":                  {fmt.Sprintf(pause, "on") + on, time.Hour, false},
		"hours late":               {fmt.Sprintf(pause, "on") + on, 3*time.Hour + 20*time.Minute, false},
		"by a rate":                {fmt.Sprintf(pause, "mail") + "  - {id: mail, message: {template: x, tags: first}, next: on}\n" + on + "limits: {per_minute: 600000}\n", time.Hour, false},
		"by a rate, as they enter": {"id: first\nentry: {when: {event: signup}}\nsteps:\n  - {id: mail, message: {template: x, tags: first}, next: on}\n" + on + "limits: {per_minute: 600000}\n", 0, true},
	} {
		b := newBed(t, people)
		b.publish(second)
		first := b.publish(x.first)
		p := b.open()
		b.mustSave(p) // of nobody
		if x.now {
			b.enterAllAt(people, uint64(b.clock.Now().UnixMilli()))
		} else {
			b.enterAll(people)
			b.passes(p)
			b.mustSave(p)
		}
		b.clock.Move(x.late)
		b.allLeave(p, first, people)
		made := b.storeSends(everyMail)
		b.empty()
		b.clock.Move(30 * time.Second)
		b.allLeave(b.open(), first, people)
		if n := len(b.sends()); len(b.mails("second")) != people || n != made {
			t.Errorf("%s: %d mails before Redis was lost, %d behind it; %d names in the second journey", name, made, n, len(b.mails("second")))
		}
	}
}

// allLeave works until all people have left a journey.
func (b *bed) allLeave(p *part, j store.Journey, people int) {
	b.Helper()
	inside := people
	for deadline := time.Now().Add(3 * time.Minute); inside > 0 && time.Now().Before(deadline); {
		b.passes(p) // tokens come in as time goes
		inside = 0
		for _, r := range b.records(j) {
			if r.Inside() {
				inside++
			}
		}
	}
	if inside > 0 {
		b.Fatalf("%d people have not left %s", inside, j.ID)
	}
}

// So has the mail of those who waited until the other journey was resumed.
func TestMailBehindAClosedGoIsNamedTheSame(t *testing.T) {
	const people = 30
	b := newBed(t, people)
	b.publish("id: second\nentry: {when: {event: never}}\nsteps:\n  - {id: mail, message: {template: x, tags: second}}\n")
	first := b.publish("id: first\nentry: {when: {event: signup}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: on}\n  - {id: on, go: {journey: second}}\n")
	b.enterAll(people)
	b.status("second", journey.StatusPaused)
	p := b.open()
	b.passes(p)
	b.clock.Move(time.Hour)
	b.passes(p)
	b.mustSave(p)
	for range 5 {
		b.clock.Move(time.Minute)
		b.passes(p)
	}
	b.status("second", journey.StatusLive)
	b.allLeave(b.open(), first, people)
	made := b.storeSends(everyMail)
	b.empty()
	b.clock.Move(30 * time.Second)
	b.allLeave(b.open(), first, people)
	if n := len(b.mails("second")); n != people || len(b.sends()) != made {
		t.Errorf("%d mails before Redis was lost, %d behind it, of %d names", made, len(b.sends()), n)
	}
}
