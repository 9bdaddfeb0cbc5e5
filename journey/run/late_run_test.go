package run

import (
	"strings"
	"testing"
	"time"

	"sluice/journey"
)

// weekly lets people in at a time of the day after that on which the bed begins.
const weekly = `
id: weekly
entry: {when: {at: "2026-03-03 08:00", every: week}, again_after: 1d}
steps:
  - {id: mail, message: {template: x}}
`

// A run that is late by more than a day is not made by itself: the journey is paused, and
// says why. Who resumes it has the run made, or passed over; the next run comes in any case.
func TestALateRunIsDecidedAbout(t *testing.T) {
	const people = 5
	for zone, soon := range map[string]time.Duration{"": 25 * time.Hour, ", zone: user": 11 * time.Hour} { // the time came 14 hours before in the east
		for late, want := range map[time.Duration][3]int{ // mails by itself, with send, with skip
			soon:           {people, people, people},
			50 * time.Hour: {0, people, 0},
			75 * time.Hour: {0, 0, 0}, // latest is three days
		} {
			for choice, skip := range []bool{false, true} {
				b := newBed(t, people)
				b.publish(strings.Replace(weekly, ", every", zone+", every", 1))
				b.passes(b.open())
				b.clock.Move(23*time.Hour + late)
				b.passes(b.open())
				j, err := b.store.Journey(t.Context(), "weekly")
				if err != nil {
					t.Fatal(err)
				}
				held := j.Status == journey.StatusPaused && strings.Contains(j.Hold, "people were to enter at 2026-03-0")
				if n := len(b.read().ids); n != want[0] || held != (n == 0) {
					t.Errorf("%s, %s late: %d mails, %s, %q", zone, late, n, j.Status, j.Hold)
				}
				if held {
					b.putStatus("weekly", journey.StatusLive, skip)
				}
				b.passes(b.open())
				if n := len(b.read().ids); n != want[1+choice] {
					t.Errorf("%s, %s late, skip %v: %d mails, want %d", zone, late, skip, n, want[1+choice])
				}
				if j, err = b.store.Journey(t.Context(), "weekly"); err != nil || j.Status != journey.StatusLive {
					t.Errorf("it is %s, %v, want live", j.Status, err)
				}
				b.clock.Move(10 * time.Hour) // it comes in the last zone
				b.passes(b.open())
				b.clock.Move(7*24*time.Hour - late - 10*time.Hour)
				b.passes(b.open())
				if n := len(b.read().ids); n != want[1+choice]+people {
					t.Errorf("%s, %s late, skip %v: %d mails a week later, want %d", zone, late, skip, n, want[1+choice]+people)
				}
			}
		}
	}
}

// Who resumes a journey without what was due passes over a run of the pause too, also one
// that was under way.
func TestARunOfAPauseIsSkipped(t *testing.T) {
	const people = 2*scanPeople + 10
	for _, begun := range []bool{false, true} {
		for _, skip := range []bool{false, true} {
			b := newBed(t, people)
			b.publish(weekly)
			b.passes(b.open())
			want := people
			if skip {
				want = 0
			}
			if begun {
				b.clock.Move(23 * time.Hour)
				if worked, err := b.open().pass(t.Context()); err != nil || !worked {
					t.Fatal(worked, err)
				}
				if first := len(b.read().ids); skip {
					want = first
				}
			}
			b.putStatus("weekly", journey.StatusPaused, false)
			b.passes(b.open())
			b.clock.Move(24 * time.Hour)
			b.putStatus("weekly", journey.StatusLive, skip)
			for range 2 {
				b.passes(b.open())
			}
			if n := len(b.read().ids); n != want {
				t.Errorf("begun %v, skip %v: %d mails, want %d", begun, skip, n, want)
			}
		}
	}
}

// What a run makes must not be later than latest behind its time.
func TestMailOfALateRunIsLeftOut(t *testing.T) {
	for _, zone := range []string{"", ", zone: user"} {
		b := newBed(t, 3)
		b.publish(strings.NewReplacer(", every", zone+", every", "template: x", "template: x, latest: 2h").Replace(weekly))
		b.passes(b.open())
		b.clock.Move(23*time.Hour + 3*time.Hour)
		b.passes(b.open())
		if f := b.read(); len(f.ids) != 0 || f.counts["journey/weekly/mail/left_out"] != 3 {
			t.Errorf("%s: %d mails, counted %v", zone, len(f.ids), f.counts)
		}
	}
}

// A session that does not know yet what was decided about a late run leaves it at that: it
// pauses no journey that was resumed, and makes no run that is to be passed over.
func TestALateRunIsDecidedAboutOnce(t *testing.T) {
	for _, skip := range []bool{false, true} {
		b := newBed(t, 5)
		b.publish(weekly)
		b.passes(b.open())
		b.clock.Move(23*time.Hour + 50*time.Hour)
		slow := b.open()
		b.passes(b.open())
		b.putStatus("weekly", journey.StatusLive, skip)
		b.passes(slow)
		if j, err := b.store.Journey(t.Context(), "weekly"); err != nil || j.Status != journey.StatusLive {
			t.Errorf("skip %v: it is %s, %q, %v; want live", skip, j.Status, j.Hold, err)
		}
		if n := len(b.read().ids); skip && n > 0 {
			t.Errorf("%d mails of a run that is to be passed over", n)
		}
	}
}

// A run that could not begin for want of room is as late as any other: the journey is paused
// while there is none yet, in whichever session. Who has it sent has it made when there is
// room, and is asked again if that takes as long once more.
func TestALateRunThatWaitedForRoomIsDecidedAbout(t *testing.T) {
	for _, again := range []bool{false, true} { // by a session that has not seen it wait
		b := newBed(t, 5)
		b.publish(weekly)
		p := b.open()
		b.waiting("normal-marketing", pendingMails)
		live := func(when string, want bool) {
			t.Helper()
			if again {
				p = b.open()
			}
			b.passes(p)
			j, err := b.store.Journey(t.Context(), "weekly")
			if err != nil || (j.Status == journey.StatusLive) != want || !want && !strings.Contains(j.Hold, "people were to enter at") {
				t.Fatalf("%v, %s: it is %s, %q, %v; live is %v", again, when, j.Status, j.Hold, err, want)
			}
			if n := len(b.read().ids); n != 0 {
				t.Fatalf("%v, %s: %d mails", again, when, n)
			}
		}
		b.clock.Move(23 * time.Hour)
		live("the time has come", true)
		b.clock.Move(26 * time.Hour)
		live("just not late", true)
		b.clock.Move(time.Second)
		live("late", false)
		b.putStatus("weekly", journey.StatusLive, false)
		p = b.open()
		b.clock.Move(26 * time.Hour)
		live("decided about", true)
		b.clock.Move(time.Second)
		live("late once more", false)
		b.putStatus("weekly", journey.StatusLive, false)
		b.waiting("normal-marketing", pendingMails-1)
		b.passes(b.open())
		if n := len(b.read().ids); n != 5 {
			t.Errorf("%v: %d mails when there is room, want 5", again, n)
		}
	}
}

// Who saves a draft has decided nothing about a run: one that is late holds the journey all the
// same. Who resumes it has decided, also if the draft is saved behind that.
func TestADraftDecidesNothingAboutALateRun(t *testing.T) {
	b := newBed(t, 5)
	b.publish(weekly)
	b.passes(b.open())
	save := func() {
		t.Helper()
		j, err := b.store.Journey(t.Context(), "weekly")
		if err != nil {
			t.Fatal(err)
		}
		j.UpdatedMillis = b.clock.Now().UnixMilli()
		if err := b.store.PutJourney(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if b.all, b.published, err = b.loader().Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.Move(23*time.Hour + 40*time.Hour)
	save()
	b.clock.Move(10 * time.Hour)
	b.passes(b.open())
	if j, err := b.store.Journey(t.Context(), "weekly"); err != nil || j.Status != journey.StatusPaused || len(b.read().ids) != 0 {
		t.Fatalf("it is %s, %v, with %d mails; want paused without mail", j.Status, err, len(b.read().ids))
	}
	b.putStatus("weekly", journey.StatusLive, false)
	b.clock.Move(time.Hour)
	save()
	b.passes(b.open())
	if n := len(b.read().ids); n != 5 {
		t.Errorf("%d mails once it was resumed, want 5", n)
	}
}

// Who is let in by a run and has to wait for room gets no mail later than latest behind the
// time of the run.
func TestMailThatWaitsForRoomIsLateByTheRun(t *testing.T) {
	for name, more := range map[string]string{"a message": "", "an update before it": "  - {id: note, update: {attributes: {seen: true}}, next: mail}\n"} {
		const people = 2 * pendingMails
		b := newBed(t, people)
		b.publish(strings.NewReplacer("template: x", "template: x, latest: 2h", "steps:\n", "steps:\n"+more).Replace(weekly))
		b.clock.Move(23*time.Hour + 90*time.Minute)
		p := b.open()
		b.waiting("normal-marketing", pendingMails-1)
		if worked, err := p.pass(t.Context()); err != nil || !worked {
			t.Fatal(worked, err)
		}
		made := len(b.read().ids)
		if f := b.read(); made == 0 || made == people || f.counts["journey/weekly/mail/entered"] != people {
			t.Fatalf("%s: %d mails, counted %v; want some, and all at the step", name, made, f.counts)
		}
		b.clock.Move(time.Hour)
		b.waiting("normal-marketing", 0)
		b.passes(b.open())
		if f := b.read(); len(f.ids) != made || f.counts["journey/weekly/mail/left_out"] != int64(people-made) {
			t.Errorf("%s: %d mails, counted %v; want %d", name, len(f.ids), f.counts, made)
		}
	}
}
