package flow

import (
	"context"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
)

// TestAnEmptiedRedisIsNoNewDeployment: the first process of a new deployment writes
// its new forms at once. Another finds a Redis without beats beside a database
// with cursors: Redis may have been emptied under living processes. It waits
// until it has heard all of them. A process that has not come back yet has its
// time.
func TestAnEmptiedRedisIsNoNewDeployment(t *testing.T) {
	r := dial(t)
	db := newStore(t)
	if _, err := Identify(t.Context(), r, db, 1, false); err != nil {
		t.Fatal(err)
	}
	const timeout = 2 * time.Second // a look that comes half of it late begins the watch anew
	begin := func() *Forms {
		t.Helper()
		leases := NewLeases(r, &numbers{}, quiet())
		leases.Beat, leases.Timeout = timeout/10, timeout
		f := &Forms{Redis: r, Leases: leases, Schema: db.Ping, AllCursors: db.(*sqlstore.Store).AllCursors, Log: quiet()}
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
	if _, err := db.Cursors(t.Context(), "store", []int{0}); err != nil { // makes the row
		t.Fatal(err)
	}
	p, err := db.Prepare(&store.Effect{Moves: []store.Move{{Follower: "store", To: sluice.Position{Major: 1}}}})
	if err == nil {
		_, err = db.Apply(t.Context(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
	do(t, r, "FLUSHALL")
	began := time.Now()
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
	for deadline := time.Now().Add(3 * time.Minute); used() != sluice.KnownForms(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is alone, and uses no new forms")
		}
	}
	if waited := time.Since(began); waited < returnWithin(timeout) {
		t.Errorf("it uses new forms after %s: one that lives had no time to come back", waited)
	}
	do(t, r, "FLUSHALL")
	for deadline := time.Now().Add(3 * time.Minute); used() != sluice.KnownForms(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it writes new forms, and a Redis that was emptied meanwhile does not know")
		}
	}
}

// TestWhoLivesIsHeardInAnEmptiedRedis: a process is about to migrate the
// database. It hears all processes whose beats went with the rest of Redis a
// moment ago, also one that comes back after others. It keeps looking for a
// late one where Redis has a record of the processes.
func TestWhoLivesIsHeardInAnEmptiedRedis(t *testing.T) {
	for what, emptied := range map[string]bool{"emptied": true, "not emptied": false} {
		t.Run(what, func(t *testing.T) {
			r := dial(t)
			timeout := time.Second // it looks for four
			if !emptied {
				timeout *= maxGraceTimeouts
				if _, err := r.forms(t.Context(), sluice.KnownForms()); err != nil {
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer stop()
			start := func(knows string, after time.Duration) string {
				l := NewLeases(r, &numbers{}, quiet())
				l.Say(SchemaWord, func() string { return knows })
				l.Beat = timeout / 20
				running.Go(func() {
					select {
					case <-ctx.Done():
					case <-time.After(after):
						_ = l.Run(ctx)
					}
				})
				return l.ID()
			}
			newer, older := start("8", 0), start("7", time.Second)
			for deadline := time.Now().Add(3 * time.Minute); ; <-time.After(time.Millisecond) {
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
			if emptied {
				do(t, r, "FLUSHALL")
			}
			said, err := words(t.Context(), r, SchemaWord, timeout)
			if err != nil || len(said) != 2 || said[newer] != "8" || said[older] != "7" {
				t.Fatalf("heard %v, %v; want 8 of %s and 7 of %s", said, err, newer, older)
			}
		})
	}
}
