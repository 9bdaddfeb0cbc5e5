package run

import (
	"strings"
	"testing"
	"time"

	"sluice/journey"
)

const late = `
id: late
entry: {when: {event: signup}}
steps:
  - {id: pause, delay: {for: 1h}, next: first}
  - {id: first, message: {template: x, tags: first}, next: second}
  - {id: second, message: {template: x, tags: second}, next: day}
  - {id: day, delay: {for: 1d}, next: last}
  - {id: last, message: {template: x, tags: last}}
`

// putStatus sets a status as the desk does; skip: without the messages that are due.
func (b *bed) putStatus(id, status string, skip bool) {
	b.Helper()
	j, err := b.store.Journey(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	j.UpdatedMillis = b.clock.Now().UnixMilli()
	if j.Status = status; skip {
		j.SkipUntilMillis = b.clock.Now().UnixMilli()
	}
	if b.published, err = b.store.PutStatus(b.Context(), j); err == nil {
		b.all, _, err = b.loader().Load(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
}

// Who was due during a pause goes on without the messages of then, wherever sessions end;
// what comes due later is sent, and so is what was due to others.
func TestOverdueMessagesAreSkipped(t *testing.T) {
	const people = 3000
	b := newBed(t, people)
	b.publish(late)
	b.enterAll(people - 1)
	b.passes(b.open())
	b.clock.Move(50 * time.Minute)
	b.fact(people+1, people, journey.FactEvent, "signup", "")
	b.passes(b.open())
	b.putStatus("late", journey.StatusPaused, false)
	b.clock.Move(20 * time.Minute)
	b.passes(b.open())
	b.putStatus("late", journey.StatusLive, true)
	b.endAnywhere()
	if f := b.read(); len(f.ids) != 0 || f.counts["journey/late/first/left_out"] != people-1 || f.counts["journey/late/second/left_out"] != people-1 {
		t.Fatalf("%d mails that were overdue, counted %v", len(f.ids), f.counts)
	}
	for range 2 {
		b.clock.Move(time.Hour)
		b.passes(b.open())
	}
	b.clock.Move(24 * time.Hour)
	b.passes(b.open())
	for tag, want := range map[string]int{"first": 1, "second": 1, "last": people} {
		if n := len(b.mails(tag)); n != want {
			t.Errorf("%d got the mail %s, want %d", n, tag, want)
		}
	}
}

// Who waits for a rate passes the message without one token for each.
func TestOverdueMessagesNeedNoTokens(t *testing.T) {
	const people = 2000
	b := newBed(t, people)
	b.publish(strings.Replace(late, "delay: {for: 1h}", "delay: {for: 1s}", 1) + "limits: {per_minute: 1}\n")
	b.enterAll(people)
	b.passes(b.open())
	b.clock.Move(2 * time.Second)
	b.passes(b.open())
	b.putStatus("late", journey.StatusPaused, false)
	b.clock.Move(time.Hour)
	b.putStatus("late", journey.StatusLive, true)
	p := b.open()
	b.passes(p)
	f := b.read()
	if made := int64(len(f.ids)); made > 2 || f.counts["journey/late/day/entered"] != people {
		t.Errorf("%d mails, counted %v", made, f.counts)
	}
	if commits := p.stats.Commits.Load(); commits > 50 {
		t.Errorf("%d commits for %d people", commits, people)
	}
}

// Mail that was made before does not leave any more; what is made later does.
func TestOverdueMailIsCancelled(t *testing.T) {
	b := newBed(t, 2)
	b.publish("\nid: now\nentry: {when: {event: signup}}\nsteps:\n  - {id: mail, message: {template: x}}\n")
	b.enterAll(1)
	b.passes(b.open())
	b.putStatus("now", journey.StatusPaused, false)
	b.clock.Move(time.Hour)
	b.putStatus("now", journey.StatusLive, true)
	b.clock.Move(time.Second)
	b.fact(5, 2, journey.FactEvent, "signup", "")
	b.passes(b.open())
	sends := b.sends()
	leave := b.mayLeave(b.gate(), sends)
	if len(leave) != 2 || leave[0].Cancel != "overdue now/mail" || leave[1].Cancel != "" || leave[1].AgainMillis != 0 {
		t.Errorf("%+v", leave)
	}
}

// Who was due for longer than latest gets no mail of the step, and goes on.
func TestMessagesThatAreTooLateAreLeftOut(t *testing.T) {
	b := newBed(t, 2)
	b.publish(strings.Replace(late, "tags: first", "tags: first, latest: 2h", 1))
	b.enterAll(2)
	b.passes(b.open())
	b.putStatus("late", journey.StatusPaused, false)
	b.clock.Move(5 * time.Hour)
	b.putStatus("late", journey.StatusLive, false)
	b.passes(b.open())
	if f := b.read(); len(b.mails("first")) != 0 || len(b.mails("second")) != 2 || f.counts["journey/late/first/left_out"] != 2 || f.counts["journey/late/first/passed"] != 2 {
		t.Errorf("%d got a mail that was too late, %d the next, counted %v", len(b.mails("first")), len(b.mails("second")), f.counts)
	}
	for _, s := range b.sends() {
		if late := s.ExpiresMillis - s.AcceptedMillis; late > 3*24*time.Hour.Milliseconds()-(3*time.Hour).Milliseconds() {
			t.Errorf("a mail may leave for %d ms, want three days after it was due", late)
		}
	}
}

// Mail of who enters after a resume is no mail of the pause, also where the clock of its
// process is behind that of the resume.
func TestMailBehindAResume(t *testing.T) {
	b := newBed(t, 1)
	b.publish("id: late\nentry: {when: {event: signup}}\nsteps:\n  - {id: mail, message: {template: x}}\n")
	b.putStatus("late", journey.StatusPaused, false)
	b.clock.Move(time.Hour)
	b.putStatus("late", journey.StatusLive, true)
	b.clock.Move(-time.Minute)
	b.enterAll(1)
	b.passes(b.open())
	sends := b.sends()
	if len(sends) != 1 {
		t.Fatalf("%d mails, want 1", len(sends))
	}
	if l := b.mayLeave(b.gate(), sends); l[0].Cancel != "" || l[0].AgainMillis != 0 {
		t.Errorf("%+v; want that it leaves", l)
	}
}

// In a pause nobody goes on by what is waited for, to an update or into another journey; at
// the end of it everybody does.
func TestNobodyGoesOnInAPause(t *testing.T) {
	const people = 20
	for name, more := range map[string]string{"": "", "a rate": "limits: {per_minute: 60000}\n"} {
		b := newBed(t, people)
		b.publish("id: beside\nentry: {when: {event: other}}\nsteps:\n  - {id: mail, message: {template: x}}\n")
		b.publish("id: waits\nentry: {when: {event: signup}}\nsteps:\n" +
			"  - {id: wait, wait_for: {within: 1d, paths: [{name: bought, when: {event: bought}, next: note}], otherwise: exit}}\n" +
			"  - {id: note, update: {attributes: {bought: true}}, next: over}\n  - {id: over, go: {journey: beside}}\n" + more)
		b.enterAll(people)
		b.passes(b.open())
		b.status("waits", journey.StatusPaused)
		b.tell(people, "bought", 1, people)
		b.clock.Move(time.Hour)
		b.passes(b.open())
		if f := b.read(); f.updates != 0 || len(f.ids) != 0 || f.counts["journey/waits/wait/passed/bought"] != 0 {
			t.Errorf("%s: %d updates and %d mails in a pause; counted %v", name, f.updates, len(f.ids), f.counts)
		}
		b.status("waits", journey.StatusLive)
		b.passes(b.open())
		if f := b.read(); f.updates != people || len(f.ids) != people || f.counts["journey/waits/wait/passed/bought"] != people {
			t.Errorf("%s: %d updates and %d mails behind it, want %d; counted %v", name, f.updates, len(f.ids), people, f.counts)
		}
	}
}

// Who comes from another journey when this one is resumed without what was due has only entered
// it then, though as of before. A rate that holds the mail of the person does not leave it out.
func TestSkipLeavesOutNobodyWhoEntersThen(t *testing.T) {
	const people = 9
	b := newBed(t, people)
	second := b.publish("id: second\nentry: {when: {event: never}}\nsteps:\n  - {id: mail, message: {template: x, tags: second}}\nlimits: {per_minute: 600000}\n")
	b.publish("id: first\nentry: {when: {event: signup}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: on}\n  - {id: on, go: {journey: second}}\n")
	b.enterAll(people)
	b.putStatus("second", journey.StatusPaused, false)
	p := b.open()
	b.passes(p)
	b.clock.Move(time.Hour)
	b.passes(p)
	b.clock.Move(10 * time.Minute)
	b.putStatus("second", journey.StatusLive, true)
	b.clock.Move(time.Second)
	p = b.open()
	b.passes(p)
	b.allLeave(p, second, people)
	if n := len(b.mails("second")); n != people {
		t.Errorf("%d mails, want %d", n, people)
	}
}

// Who was due goes past the messages of the journey too that a step go leads to, up to the next
// wait there, whether one commit has room for all of them or not.
func TestSkipGoesAlongIntoTheNextJourney(t *testing.T) {
	const people = 3000
	for name, limits := range map[string]string{"": "", "a rate": "limits: {per_minute: 600000}\n"} {
		b := newBed(t, people)
		b.publish("id: last\nentry: {when: {event: never}}\nsteps:\n  - {id: mail, message: {template: x, tags: last}, next: day}\n  - {id: day, delay: {for: 1d}, next: later}\n  - {id: later, message: {template: x, tags: later}}\n" + limits)
		b.publish("id: second\nentry: {when: {event: never}}\nsteps:\n  - {id: mail, message: {template: x, tags: second}, next: on}\n  - {id: on, go: {journey: last}}\n" + limits)
		b.publish("id: first\nentry: {when: {event: signup}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: on}\n  - {id: on, go: {journey: second}}\n")
		b.enterAll(people)
		b.passes(b.open())
		b.putStatus("first", journey.StatusPaused, false)
		b.clock.Move(5 * time.Hour)
		b.putStatus("first", journey.StatusLive, true)
		b.clock.Move(time.Second)
		b.passes(b.open())
		if f := b.read(); len(f.ids) != 0 || f.counts["journey/second/mail/left_out"] != people || f.counts["journey/last/day/entered"] != people {
			t.Errorf("%s: %d mails that were overdue, counted %v", name, len(f.ids), f.counts)
		}
		b.clock.Move(24 * time.Hour)
		p := b.open()
		for deadline := time.Now().Add(3 * time.Minute); len(b.mails("later")) < people && time.Now().Before(deadline); {
			b.passes(p)
		}
		if n := len(b.mails("later")); n != people {
			t.Errorf("%s: %d mails behind the next wait, want %d", name, n, people)
		}
	}
}

// So it is where the other journey is paused for longer.
func TestSkipGoesAlongBehindAPause(t *testing.T) {
	b := newBed(t, 5)
	b.publish("id: second\nentry: {when: {event: never}}\nsteps:\n  - {id: mail, message: {template: x}}\n")
	b.publish("id: first\nentry: {when: {event: signup}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: on}\n  - {id: on, go: {journey: second}}\n")
	b.enterAll(5)
	b.passes(b.open())
	b.putStatus("first", journey.StatusPaused, false)
	b.putStatus("second", journey.StatusPaused, false)
	b.clock.Move(5 * time.Hour)
	b.putStatus("first", journey.StatusLive, true)
	b.clock.Move(2 * time.Hour)
	b.passes(b.open())
	b.putStatus("second", journey.StatusLive, false)
	b.passes(b.open())
	if f := b.read(); len(f.ids) != 0 || f.counts["journey/second/mail/left_out"] != 5 {
		t.Errorf("%d mails that were overdue, counted %v", len(f.ids), f.counts)
	}
}

// So it is where the journey behind the other one is paused for longer, and not of people who
// come to its step go by themselves.
func TestSkipGoesAlongBehindAFurtherPause(t *testing.T) {
	b := newBed(t, 8)
	b.publish("id: third\nentry: {when: {event: never}}\nsteps:\n  - {id: mail, message: {template: x}, next: day}\n  - {id: day, delay: {for: 1d}, next: later}\n  - {id: later, message: {template: x, tags: later}}\n")
	b.publish("id: second\nentry: {when: {event: beside}}\nsteps:\n  - {id: note, update: {attributes: {seen: true}}, next: on}\n  - {id: on, go: {journey: third}}\n")
	b.publish("id: first\nentry: {when: {event: signup}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: on}\n  - {id: on, go: {journey: second}}\n")
	b.enterAll(5)
	b.passes(b.open())
	b.putStatus("first", journey.StatusPaused, false)
	b.putStatus("third", journey.StatusPaused, false)
	b.clock.Move(5 * time.Hour)
	b.putStatus("first", journey.StatusLive, true)
	b.clock.Move(2 * time.Hour)
	for number := range int64(3) {
		b.fact(100+uint64(number), 6+number, journey.FactEvent, "beside", "")
	}
	b.passes(b.open())
	b.passes(b.open()) // another session finds them as they are
	b.putStatus("third", journey.StatusLive, false)
	b.passes(b.open())
	if f := b.read(); len(f.ids) != 3 || f.counts["journey/third/mail/left_out"] != 5 || f.counts["journey/third/day/entered"] != 8 {
		t.Errorf("%d mails, want 3; counted %v", len(f.ids), f.counts)
	}
	b.clock.Move(24 * time.Hour)
	b.passes(b.open())
	if n := len(b.mails("later")); n != 8 {
		t.Errorf("%d mails behind the next wait, want 8", n)
	}
}
