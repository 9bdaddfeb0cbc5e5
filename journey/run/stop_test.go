package run

import (
	"context"
	"maps"
	"testing"
	"time"
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
	p := &part{saving: saving, log: b.log, lease: held[0], store: countingStore{b.store, &b.asked, &b.contexts, &b.facts}, clock: b.clock, busy: make(chan struct{}, 1), published: b.published, stats: &Stats{}, ending: ending, every: time.Hour}
	ended := make(chan error, 1)
	go func() { ended <- p.run(t.Context(), ending, b.all) }()
	for deadline := time.Now().Add(time.Minute); len(b.read().ids) < people; {
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
