package run

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"sluice/journey"
)

// A process that stops as planned writes where people are: what happened since the last
// checkpoint is in the database, and a Redis that is emptied then has it from there.
func TestAPlannedStopWritesACheckpoint(t *testing.T) {
	const people = 200
	b := newBed(t, people)
	j := b.publish(welcome)
	b.enterAll(people)
	b.passes(b.open())
	b.clock.Move(time.Hour)
	before := b.records(j)

	held, _ := b.leases.Held(Role)
	ending, stop := context.WithCancel(t.Context())
	defer stop()
	saving := make(chan struct{}, 1)
	saving <- struct{}{} // no checkpoint begins before the stop
	p := &part{saving: saving, log: b.log, lease: held[0], store: countingStore{b.store, &b.asked, &b.contexts, &b.facts, &b.profiles}, clock: b.clock, busy: make(chan struct{}, 1), published: b.published, stats: &Stats{}, ending: ending, every: time.Hour}
	ended := make(chan error, 1)
	go func() { ended <- p.run(t.Context(), ending, b.all) }()
	for deadline := time.Now().Add(3 * time.Minute); len(b.read().ids) < people; {
		if len(ended) > 0 {
			t.Fatalf("the session has ended: %v", <-ended)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d mails are made, want %d", len(b.read().ids), people)
		}
	}
	if n := p.stats.Saved.Load(); n != 0 {
		t.Fatalf("%d checkpoints were written before the stop: this test shows nothing", n)
	}
	stop()
	<-saving
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	want := b.records(j)
	if maps.Equal(want, before) {
		t.Fatal("nobody has moved")
	}
	b.empty()
	if p = b.open(); p.stats.Recovered.Load() != 1 {
		t.Errorf("recovered %d times, want once", p.stats.Recovered.Load())
	}
	if got := b.records(j); !maps.Equal(got, want) {
		t.Errorf("%d people are back, want %d where they were at the stop", len(got), len(want))
	}
}

// A stop in the middle of a wave makes no mail more, and takes out all who have not finished,
// whether they waited for room, for a time, or had not been looked at; and each once.
func TestStoppedInAWave(t *testing.T) {
	const people = 5000
	for _, status := range []string{journey.StatusStopped, journey.StatusArchived} {
		b := newBed(t, people)
		j := b.publish(welcome)
		b.enterAll(people)
		b.passes(b.open())
		b.clock.Move(time.Hour)
		if worked, err := b.open().pass(t.Context()); err != nil || !worked {
			t.Fatal(worked, err)
		}
		made := len(b.read().ids)
		b.status("welcome", status)
		for range 2 {
			b.passes(b.open())
		}
		b.clock.Move(2 * time.Hour)
		b.passes(b.open())
		states := make(map[journey.State]int64)
		for _, r := range b.records(j) {
			states[r.State]++
		}
		f := b.read()
		exited := int64(0)
		for name, n := range f.counts {
			if strings.HasSuffix(name, "/exited") {
				exited += n
			}
		}
		if len(f.ids) != made || made == 0 || made >= people {
			t.Errorf("%s: %d mails before, %d behind it", status, made, len(f.ids))
		}
		if states[journey.StateExited] != exited || states[journey.StateExited]+states[journey.StateFinished] != people || states[journey.StateFinished] == 0 {
			t.Errorf("%s: people are %v, %d were counted to be taken out", status, states, exited)
		}
		if noted, _ := b.inSteps(j); len(noted) != 0 {
			t.Errorf("%s: %v are noted to be in steps", status, noted)
		}
	}
}
