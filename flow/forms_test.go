package flow

import (
	"context"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/sqlstore"
)

// TestAnEmptiedRedisIsNoNewDeployment: the first process of a new deployment writes
// its new forms at once. One that finds a Redis without beats beside a database with
// cursors waits until it has heard all that live: Redis may have been emptied under
// them.
func TestAnEmptiedRedisIsNoNewDeployment(t *testing.T) {
	r := dial(t)
	store := newStore(t)
	if _, err := Identify(t.Context(), r, store, 1, false); err != nil {
		t.Fatal(err)
	}
	begin := func() *Forms {
		t.Helper()
		leases := NewLeases(r, &numbers{}, quiet())
		leases.Beat, leases.Timeout = 50*time.Millisecond, 250*time.Millisecond
		f := &Forms{Redis: r, Leases: leases, Schema: store.Ping, Standings: store.(*sqlstore.Store).Standings, Log: quiet()}
		if err := f.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		return f
	}
	used := func() sluice.Forms {
		t.Helper()
		used, err := r.forms(t.Context(), sluice.Forms{})
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	begin()
	if used() != sluice.KnownForms() {
		t.Fatalf("a new deployment uses forms %s", used())
	}
	if _, err := store.Cursors(t.Context(), "store", []int{0}); err != nil { // makes the row
		t.Fatal(err)
	}
	p, err := store.Prepare(&sluice.Effect{Moves: []sluice.Move{{Follower: "store", To: sluice.Position{Major: 1}}}})
	if err == nil {
		_, err = store.Apply(t.Context(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
	do(t, r, "FLUSHALL")
	f := begin()
	if used() != (sluice.Forms{}) {
		t.Fatalf("in an emptied Redis it uses forms %s before it has heard who lives", used())
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Leases.Run(ctx) })
	running.Go(func() { f.Run(ctx) })
	defer running.Wait()
	defer stop()
	for deadline := time.Now().Add(time.Minute); used() != sluice.KnownForms(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is alone, and uses no new forms")
		}
	}
}

// TestWhoLivesIsHeardInAnEmptiedRedis: a process that is about to migrate the database
// hears one whose beats went with the rest of Redis a moment ago.
func TestWhoLivesIsHeardInAnEmptiedRedis(t *testing.T) {
	r := dial(t)
	other := NewLeases(r, &numbers{}, quiet())
	other.Say(SchemaWord, func() string { return "7" })
	other.Beat = time.Second
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = other.Run(ctx) })
	defer running.Wait()
	defer stop()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		beats, err := r.beats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(beats) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not beat")
		}
	}
	do(t, r, "FLUSHALL")
	said, err := Words(t.Context(), r, SchemaWord)
	if err != nil || len(said) != 1 || said[other.ID()] != "7" {
		t.Fatalf("heard %v, %v; want 7 of %s", said, err, other.ID())
	}
}
