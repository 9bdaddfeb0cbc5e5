package run

import (
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/user"
)

// Who was accepted before a run is due is let in by it, also if the store stores it later:
// the run waits for that, and so does the run of a successor.
func TestARunWaitsForWhoWasAccepted(t *testing.T) {
	b := newBed(t, 1)
	b.follows = true
	b.publish(`
id: call
entry: {when: {at: "2026-03-02 10:10", zone: UTC}}
steps:
  - {id: mail, message: {template: x}}
`)
	b.passes(b.open())
	if _, err := b.log.Append(t.Context(), "somebody", "", "1", sluice.NewBatch(0), false); err != nil { // stands for the person's
		t.Fatal(err)
	}
	b.clock.Move(2 * time.Hour)
	b.passes(b.open())
	p := b.open()
	if b.passes(p); len(b.read().ids) != 0 {
		t.Fatal("the run did not wait")
	}
	b.profile(2, profileOf(2))
	b.stored(everything)
	if b.passes(p); len(b.read().ids) != 2 {
		t.Errorf("%d mails, want those of the two people who were accepted before", len(b.read().ids))
	}
}

// A run looks at few people at once whose profiles are large.
func TestARunOfLargeProfiles(t *testing.T) {
	const people = 2 * scanBytes / user.MaxProfileBytes
	b := newBed(t, people)
	for n := range people {
		b.profile(int64(n)+1, strings.Replace(profileOf(n+1), `"custom":{`, `"custom":{"x":"`+strings.Repeat("x", user.MaxProfileBytes-1000)+`",`, 1))
	}
	b.publish("id: call\nentry: {when: {at: \"2026-03-02 10:10\"}}\nsteps:\n  - {id: mail, message: {template: x}}\n")
	b.clock.Move(2 * time.Hour)
	p := b.open()
	if worked, err := p.pass(t.Context()); err != nil || !worked {
		t.Fatal(worked, err)
	}
	if n := len(b.read().ids); n == 0 || n > people*3/4 {
		t.Errorf("%d of %d people have entered at once", n, people)
	}
	if b.passes(p); len(b.read().ids) != people {
		t.Errorf("%d mails, want %d", len(b.read().ids), people)
	}
}
