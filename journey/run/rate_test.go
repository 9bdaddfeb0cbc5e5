package run

import (
	"testing"
	"time"

	"sluice/journey"
)

const paced = `
id: paced
entry: {when: {event: signup}}
steps:
  - {id: pause, delay: {for: 1h}, next: choice}
  - {id: choice, split: {if: {attribute: plan, is: equals, value: gold}, then: mail, else: note}}
  - {id: note, update: {attributes: {seen: true}}}
  - {id: mail, message: {template: x, tags: paced}, next: last}
  - {id: last, delay: {for: 30d}}
limits: {per_minute: 1}
exit_when: {event: stop}
`

// People beyond the rate of a journey wait at the message step, and others of the journey
// go their ways. All partitions and processes share the rate. Who is taken out while
// waiting gets no mail, and when the rate is lifted all others do.
func TestTheRateOfAJourney(t *testing.T) {
	const people = 3000
	b := newBed(t, people)
	j := b.publish(paced)
	b.enterAll(people)
	b.passes(b.open())
	b.clock.Move(time.Hour)
	began := time.Now()
	p := b.open()
	b.passes(p)
	bound := func() int { return 1 + int(time.Since(began)/time.Minute) }
	if n := len(b.mails("paced")); n < 1 || n > bound() {
		t.Errorf("%d mails are made at once, want 1", n)
	}
	if g, err := b.log.LeaseMails(t.Context(), j.Number, 1, 1, 0); err != nil || g.Tokens > bound()-1 {
		t.Errorf("another partition gets %d tokens, %v", g.Tokens, err)
	}
	if f := b.read(); f.counts["journey/paced/mail/entered"] != people/3 || f.updates != people-people/3 {
		t.Errorf("%d are at the message step, %d have the note; want %d, %d", f.counts["journey/paced/mail/entered"], f.updates, people/3, people-people/3)
	}
	b.tell(people, "stop", people, people) // the last of them waits
	b.passes(p)
	if r := b.records(j)[people]; r.State != journey.StateExited {
		t.Fatalf("who is to leave is %+v", r)
	}
	if n := len(b.mails("paced")); n > bound() {
		t.Errorf("%d mails are made soon after, want 1", n)
	}
	for _, v := range b.all {
		v.perMinute = 0
	}
	b.passes(b.open())
	if f := b.read(); len(f.tagged["paced"]) != people/3-1 || len(f.ids) != people/3-1 {
		t.Errorf("%d mails in the end, want %d", len(f.ids), people/3-1)
	}
}

// Who goes on by one rate into another journey waits for the rate of that one.
func TestTheRateOfTheNextJourney(t *testing.T) {
	const people = 100
	b := newBed(t, people)
	b.publish("\nid: slow\nentry: {when: {event: never}}\nsteps:\n  - {id: mail, message: {template: x, tags: slow}}\nlimits: {per_minute: 1}\n")
	b.publish("\nid: quick\nentry: {when: {event: signup}}\nsteps:\n  - {id: mail, message: {template: x, tags: quick}, next: on}\n  - {id: on, go: {journey: slow}}\nlimits: {per_minute: 600000}\n")
	b.enterAll(people)
	began := time.Now()
	p := b.open()
	for deadline := began.Add(3 * time.Minute); len(b.mails("quick")) < people; {
		b.passes(p)
		if time.Now().After(deadline) {
			t.Fatalf("%d mails after 3 min", len(b.mails("quick")))
		}
	}
	if n := len(b.mails("slow")); n > 1+int(time.Since(began)/time.Minute) {
		t.Errorf("%d mails of the slow journey are made at once, want 1", n)
	}
}

// The rate is reached: with as many partitions and passes as there are, no tokens are
// lost but those that nobody used for a while.
func TestTheRateIsReached(t *testing.T) {
	const people = 300
	b := newBed(t, people)
	b.publish("\nid: quick\nentry: {when: {event: signup}}\nsteps:\n  - {id: mail, message: {template: x, tags: quick}}\nlimits: {per_minute: 60000}\n")
	b.enterAll(people)
	p := b.open()
	for deadline := time.Now().Add(3 * time.Minute); len(b.mails("quick")) < people; {
		b.passes(p)
		if time.Now().After(deadline) {
			t.Fatalf("%d mails after 3 min", len(b.mails("quick")))
		}
	}
}

// A partition whose people wait for tokens rests no longer than until it may ask for some:
// else it would get a part of a slow rate alone. Others rest as ever.
func TestAPartitionRestsUntilItMayAskForTokens(t *testing.T) {
	b := newBed(t, 10)
	b.publish("\nid: slow\nentry: {when: {event: signup}}\nsteps:\n  - {id: mail, message: {template: x, tags: slow}}\nlimits: {per_minute: 1}\n")
	p := b.open()
	p.journeys[0].rate.ask = time.Now().Add(pollEvery / 2)
	if rest := p.restFor(); rest != pollEvery {
		t.Errorf("nobody waits, and the partition rests for %s", rest)
	}
	p.journeys[0].rate.ask = time.Time{}
	b.enterAll(10)
	b.passes(p)
	if n := len(b.mails("slow")); n != 1 {
		t.Fatalf("%d mails are made at once, want 1", n)
	}
	p.journeys[0].rate.ask = time.Now().Add(pollEvery / 2)
	if rest := p.restFor(); rest > pollEvery/2 {
		t.Errorf("people wait for tokens, and the partition rests for %s", rest)
	}
}
