package run

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
)

// Mail of who entered before a recovery is made only if the ledger has none of its name.
func TestMailThatWasMadeIsNotMadeAgain(t *testing.T) {
	const people = 300
	b := newBed(t, people)
	b.publish(welcome)
	b.enterAll(people)
	p := b.open()
	b.passes(p)
	b.mustSave(p)
	b.clock.Move(time.Hour)
	b.passes(p)
	made := make(map[string]bool)
	half := b.storeSends(func(i int, s *mail.Send) bool {
		if i%2 == 0 {
			made[s.To] = true
		}
		return i%2 == 0
	})
	b.empty()
	b.clock.Move(time.Minute)
	b.passes(b.open())
	f := b.read()
	for n := 1; n <= people; n++ {
		to := fmt.Sprintf("u%d@example.com", n)
		want := 2
		if made[to] {
			want = 1
		}
		if f.sends[to] != want {
			t.Fatalf("%s was made %d mails, want %d", to, f.sends[to], want)
		}
	}
	if half < people/3 || len(f.ids) != people {
		t.Errorf("%d mails in the ledger, %d different ones", half, len(f.ids))
	}
	b.clock.Move(time.Hour)
	p = b.open()
	b.passes(p)
	if n := len(b.read().ids); n != people+people*2/3 {
		t.Errorf("%d different mails in the end", n)
	}
}

// So it is for who comes to the step again and has to wait for it: for the end of the quiet
// hours, or for the time of another day. A sender looks the mail up for ten minutes only.
func TestMailThatWaitsBehindARecoveryIsNotMadeAgain(t *testing.T) {
	const people = 30
	const begin = "id: waits\nentry: {when: {event: signup}}\nsteps:\n  - {id: mail, message: {template: x}}\n"
	for name, text := range map[string]string{
		"quiet hours":   strings.Replace(begin, "steps:\n", "steps:\n  - {id: pause, delay: {for: 1h}, next: mail}\n", 1) + "quiet: {from: \"10:01\", to: \"12:00\"}\n",
		"a time of day": strings.Replace(begin, "steps:\n", "steps:\n  - {id: pause, delay: {for: 30m}, next: ten}\n  - {id: ten, delay: {until: {time: \"10:00\"}}, next: mail}\n", 1),
	} {
		b := newBed(t, people)
		b.publish(text)
		b.enterAll(people)
		p := b.open()
		b.passes(p)
		b.mustSave(p)
		for range 2 { // at half past nine, and at ten
			b.clock.Move(30 * time.Minute)
			b.passes(p)
		}
		made := b.storeSends(everyMail)
		b.empty()
		for _, later := range []time.Duration{2 * time.Minute, 26 * time.Hour} {
			b.clock.Move(later)
			b.passes(b.open())
			if f := b.read(); made != people || len(f.ids) != people || len(b.sends()) != people {
				t.Errorf("%s: %d mails by ten, and %d of %d names later; want one for each of %d people", name, made, len(b.sends()), len(f.ids), people)
			}
		}
	}
}

// So it is behind a failover, by which Redis has gone back by a moment: behind no checkpoint.
func TestMailThatWaitsBehindAFailoverIsNotMadeAgain(t *testing.T) {
	const people = 30
	b := newBed(t, people)
	j := b.publish("id: waits\nentry: {when: {event: signup}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: mail}\n  - {id: mail, message: {template: x}}\nquiet: {from: \"10:01\", to: \"12:00\"}\n")
	b.enterAll(people)
	p := b.open()
	b.passes(p)
	before := b.records(j)
	if _, err := b.log.Lanes().Begin(t.Context(), p.lease, b.clock.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
	b.clock.Move(time.Hour)
	b.passes(p)
	made := b.storeSends(everyMail)
	c := p.begin()
	for n, r := range before {
		if err := c.set(t.Context(), p.journeys[0], n, &r); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.log.Lanes().CompareAgain(t.Context()); err != nil { // as by another Redis
		t.Fatal(err)
	}
	if _, err := b.log.Lanes().Begin(t.Context(), p.lease, b.clock.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
	for _, later := range []time.Duration{2 * time.Minute, 3 * time.Hour} {
		b.clock.Move(later)
		b.passes(b.open())
	}
	if f := b.read(); made != people || len(f.ids) != people || len(b.sends()) != people || f.counts["journey/waits/mail/passed"] != 2*people {
		t.Errorf("%d mails before, %d of %d names with those behind it; want one for each of %d people; counted %v", made, len(b.sends()), len(f.ids), people, f.counts)
	}
}

// A Redis that is another one, and has not the last commit, ends the session: what it knows of
// who is due is of commits that are gone. If the commit is there, it goes on.
func TestAnotherRedisWithoutTheLastCommit(t *testing.T) {
	b := newBed(t, 3)
	b.publish(welcome)
	b.enterAll(3)
	p := b.open()
	b.passes(p)
	another := func() error {
		t.Helper()
		b.clock.Move(time.Minute)
		if err := b.log.Lanes().CompareAgain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.log.Lanes().Begin(t.Context(), p.lease, b.clock.Now().UnixMilli()); err != nil {
			t.Fatal(err)
		}
		p.movedLooked = time.Time{}
		_, err := p.pass(t.Context())
		return err
	}
	if err := another(); err != nil {
		t.Errorf("with the last commit: %v", err)
	}
	p.at.Major++ // which is not there
	if err := another(); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("without the last commit: %v, want a conflict", err)
	}
}
