package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/journey"
)

// Who was due when another version was published is let in once, whatever that version's
// entry is, and however many were published: a partition may come to a run late.
func TestARunIsDueThoughAPublishCame(t *testing.T) {
	const people = 2*scanPeople + 10
	entries := map[string]string{
		"zone":  `{at: "2026-03-03 08:00", every: day}`,
		"own":   `{at: "2026-03-03 08:00", every: day, zone: user}`,
		"other": `{at: "2026-03-09 08:00", zone: user}`,
		"event": `{event: signup}`,
	}
	document := func(entry string) string {
		return "id: daily\nentry: {when: " + entries[entry] + ", again_after: 1m}\nsteps:\n  - {id: mail, message: {template: x}}\n"
	}
	for _, versions := range []string{"zone zone", "zone own", "zone other", "zone event", "zone event own", "own own", "own zone", "own other", "own event", "own event zone"} {
		for _, begun := range []bool{false, true} {
			t.Run(fmt.Sprint(versions, begun), func(t *testing.T) {
				t.Parallel()
				all := strings.Fields(versions)
				b := newBed(t, people)
				b.draft("daily")
				b.publishAgain("daily", document(all[0]))
				b.passes(b.open())
				b.clock.Move(23*time.Hour + time.Second)
				if begun {
					if worked, err := b.open().pass(t.Context()); err != nil || !worked {
						t.Fatal(worked, err)
					}
				}
				for _, entry := range all[1:] {
					b.clock.Move(time.Second)
					b.publishAgain("daily", document(entry))
				}
				b.clock.Move(time.Minute)
				p := b.open()
				if left := p.journeys[0].left(); len(left) > 0 {
					t.Errorf("the versions %v may end, by which people are yet to enter", left)
				}
				b.passes(p)
				b.clock.Move(10 * time.Hour)
				b.passes(b.open())
				if f := b.read(); len(f.ids) != people || len(f.sends) != people {
					t.Errorf("%d people have %d mails, want %d", len(f.sends), len(f.ids), people)
				}
				if left := b.open().journeys[0].left(); len(left) != len(all)-1 {
					t.Errorf("the versions %v may end, want all before the last", left)
				}
			})
		}
	}
}

// A time that came in a pause does not come any more once another version was published in
// it. Without a publish it does.
func TestATimeOfAPause(t *testing.T) {
	const daily = "id: daily\nentry: {when: {at: \"2026-03-03 08:00\", every: day}}\nsteps:\n  - {id: mail, message: {template: x}}\n"
	for publish, want := range map[bool]int{true: 0, false: 5} {
		b := newBed(t, 5)
		b.draft("daily")
		b.publishAgain("daily", daily)
		b.passes(b.open())
		b.status("daily", journey.StatusPaused)
		b.clock.Move(24 * time.Hour)
		b.passes(b.open())
		if publish {
			b.publishAgain("daily", daily)
		}
		b.passes(b.open())
		b.clock.Move(time.Hour)
		b.status("daily", journey.StatusLive)
		b.passes(b.open())
		if n := len(b.read().ids); n != want {
			t.Errorf("published in the pause: %v: %d mails, want %d", publish, n, want)
		}
	}
}

// A version that has ended owed nothing, and neither did those before it: the times of
// these do not come once more in the time in which it was the last one.
func TestTimesOfBeforeAVersionThatEnded(t *testing.T) {
	const daily = "id: daily\nentry: {when: {at: \"2026-03-03 08:00\", every: day}, again_after: 1m}\nsteps:\n  - {id: mail, message: {template: x}}\n"
	for name, last := range map[string]string{"a schedule": daily, "an event": strings.Replace(daily, "{at: \"2026-03-03 08:00\", every: day}", "{event: other}", 1)} {
		t.Run(name, func(t *testing.T) {
			const people = 5
			b := newBed(t, people)
			b.draft("daily")
			b.publishAgain("daily", daily)
			b.passes(b.open())
			b.clock.Move(23*time.Hour + time.Minute)
			b.passes(b.open()) // 08:01
			b.publishAgain("daily", strings.Replace(daily, "at: \"2026-03-03 08:00\", every: day", "event: signup", 1))
			b.passes(b.open())
			b.clock.Move(24 * time.Hour)
			b.publishAgain("daily", last)
			p := b.open()
			b.passes(p)
			if left := p.journeys[0].left(); len(left) != 2 {
				t.Fatalf("the versions %v may end, want the first two", left)
			}
			b.endVersion(p.journeys[0].number, 2) // and in the first there may be people still
			b.passes(b.open())
			if n := len(b.read().ids); n != people {
				t.Errorf("%d mails, want %d: a time of the second version was one of the first", n, people)
			}
		})
	}
}

// A run that is under way in a pause goes on behind it, so the versions that it is of do
// not end meanwhile.
func TestARunOfAPauseKeepsItsVersions(t *testing.T) {
	const people = 2*scanPeople + 10
	for _, zone := range []string{"", ", zone: user"} {
		t.Run(zone, func(t *testing.T) {
			daily := "id: daily\nentry: {when: {at: \"2026-03-03 08:00\", every: day" + zone + "}}\nsteps: [{id: out, exit: {}}]\n"
			b := newBed(t, people)
			b.draft("daily")
			b.publishAgain("daily", daily)
			b.passes(b.open())
			b.clock.Move(23*time.Hour + time.Second)
			if worked, err := b.open().pass(t.Context()); err != nil || !worked {
				t.Fatal(worked, err)
			}
			b.status("daily", journey.StatusPaused)
			b.passes(b.open())
			b.clock.Move(time.Second)
			b.publishAgain("daily", "id: daily\nentry: {when: {event: signup}}\nsteps: [{id: out, exit: {}}]\n")
			p := b.open()
			b.passes(p)
			for _, v := range p.journeys[0].left() {
				b.endVersion(p.journeys[0].number, v)
			}
			b.clock.Move(time.Hour)
			b.status("daily", journey.StatusLive)
			b.passes(b.open())
			if n := b.read().counts["journey/daily/out/entered"]; n != people {
				t.Errorf("%d people have entered, want %d", n, people)
			}
			if left := b.open().journeys[0].left(); len(left) != 1 {
				t.Errorf("behind the run the versions %v may end, want the first", left)
			}
		})
	}
}

// A time that no session has come to within 26 hours before a publish does not come any more.
func TestATimeLongBeforeAPublish(t *testing.T) {
	const once = "id: once\nentry: {when: {at: \"2026-03-03 08:00\"}}\nsteps:\n  - {id: mail, message: {template: x}}\n"
	for late, want := range map[time.Duration]int{sweepSpan - time.Minute: 3, sweepSpan + time.Minute: 0} {
		b := newBed(t, 3)
		b.draft("once")
		b.publishAgain("once", once)
		b.passes(b.open())
		b.clock.Move(23*time.Hour + late)
		b.publishAgain("once", strings.Replace(once, `at: "2026-03-03 08:00"`, "event: signup", 1))
		b.passes(b.open())
		if n := len(b.read().ids); n != want {
			t.Errorf("a publish %s behind the time: %d mails, want %d", late, n, want)
		}
	}
}

// Who was due when another version was published enters that one also if the journey is paused
// behind the publish, before the turn comes. Meanwhile the version that owes it does not end.
func TestARunIsDueThoughAPauseCame(t *testing.T) {
	const people = 5
	for _, zone := range []string{"", ", zone: user"} {
		for _, skip := range []bool{false, true} {
			daily := "id: daily\nentry: {when: {at: \"2026-03-03 08:00\", every: day" + zone + "}, again_after: 1m}\nsteps:\n  - {id: mail, message: {template: x}}\n"
			b := newBed(t, people)
			b.draft("daily")
			b.publishAgain("daily", daily)
			b.passes(b.open())
			b.clock.Move(23*time.Hour + time.Second)
			b.publishAgain("daily", strings.Replace(daily, "8:00", "7:00", 1))
			b.clock.Move(time.Minute)
			b.putStatus("daily", journey.StatusPaused, false)
			p := b.open()
			b.passes(p)
			if left := p.journeys[0].left(); len(left) != 0 {
				t.Errorf("%s: the versions %v may end, by which people are yet to enter", zone, left)
			}
			b.clock.Move(time.Minute)
			b.putStatus("daily", journey.StatusLive, skip)
			want := people
			if skip {
				want = 0
			}
			b.passes(b.open())
			if n := len(b.read().ids); n != want {
				t.Errorf("%s, skip %v: %d mails, want %d", zone, skip, n, want)
			}
		}
	}
}
