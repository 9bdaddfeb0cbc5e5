package storetest

import (
	"errors"
	"math"
	"sync"
	"testing"

	"sluice"
	"sluice/store"
)

func testLeases(t *testing.T, f *fixture) {
	first, err := f.store.TakeLease(f.ctx, "store", []int{3, 1, 255})
	must(t, err)
	want(t, "leases", len(first), 3)
	second, err := f.Open(t).TakeLease(f.ctx, "store", []int{1, 2})
	must(t, err)
	want(t, "lease taken again", second[1], first[1]+1)
	if first[1] == 0 || second[2] == 0 {
		t.Fatalf("a lease number is 0: %v, %v", first, second)
	}
	other, err := f.store.TakeLease(f.ctx, "journey", []int{1})
	must(t, err)
	want(t, "lease of another role", other[1], first[1])
}

func testCursors(t *testing.T, f *fixture) {
	cursors, err := f.store.Cursors(f.ctx, follower, []int{5, 0, 255})
	must(t, err)
	want(t, "cursors", len(cursors), 3)
	for part, p := range cursors {
		if !p.IsZero() {
			t.Fatalf("new cursor of partition %d is at %s", part, p)
		}
	}
	far := sluice.Position{Major: math.MaxUint64, Minor: math.MaxUint64}
	p := f.prepare(t, &store.Effect{Moves: []store.Move{{Follower: follower, Partition: 5, To: far}}})
	_, err = f.store.Apply(f.ctx, p)
	must(t, err)
	cursors, err = f.store.Cursors(f.ctx, follower, []int{5})
	must(t, err)
	want(t, "the farthest position", cursors[5], far)
	for _, other := range []string{"Store", "store ", "store2"} {
		cursors, err = f.store.Cursors(f.ctx, other, []int{5})
		must(t, err)
		want(t, "cursor of the follower "+other, cursors[5], sluice.Position{})
	}
}

func testConflict(t *testing.T, f *fixture) {
	f.start(t)
	f.apply(t, store.Effect{Events: []store.StoredEvent{event(1)}}, 1, 0)
	stale := &store.Effect{
		Moves:  []store.Move{{Follower: follower, To: sluice.Position{Major: 9}}},
		Events: []store.StoredEvent{event(2)},
		Dead:   []sluice.DeadLetter{{Source: "log", Form: sluice.FormBatch, Reason: "r", Payload: []byte("p")}},
	}
	_, err := f.store.Apply(f.ctx, f.prepare(t, stale))
	wantError(t, err, sluice.ErrConflict)
	_, err = f.store.ApplyEach(f.ctx, f.prepare(t, stale))
	wantError(t, err, sluice.ErrConflict)
	want(t, "events", f.count(t, "events"), 1)
	want(t, "dead letters", f.count(t, "dead_letters"), 0)
	f.wantCursor(t)

	missing := &store.Effect{Moves: []store.Move{{Follower: "nobody", To: sluice.Position{Major: 9}}}}
	_, err = f.store.Apply(f.ctx, f.prepare(t, missing))
	wantError(t, err, sluice.ErrConflict)
}

func testConflictOfOne(t *testing.T, f *fixture) {
	parts := []int{0, 1, 2, 3}
	for _, name := range []string{"a", "b"} {
		_, err := f.store.Cursors(f.ctx, name, parts)
		must(t, err)
	}
	moves := func(from uint64) (m []store.Move) {
		for _, name := range []string{"a", "b"} {
			for _, part := range parts {
				m = append(m, store.Move{
					Follower: name, Partition: part, From: sluice.Position{Major: from},
					To: sluice.Position{Major: from + uint64(part) + 1, Minor: uint64(len(m))},
				})
			}
		}
		return m
	}
	_, err := f.store.Apply(f.ctx, f.prepare(t, &store.Effect{Moves: moves(0)}))
	must(t, err)
	for _, m := range moves(0) {
		cursors, err := f.store.Cursors(f.ctx, m.Follower, []int{m.Partition})
		must(t, err)
		want(t, "cursor of "+m.Follower, cursors[m.Partition], m.To)
	}
	// Of these only partition 0 of each follower is where it is believed to be.
	_, err = f.store.Apply(f.ctx, f.prepare(t, &store.Effect{Moves: []store.Move{
		{Follower: "a", Partition: 0, From: sluice.Position{Major: 1}, To: sluice.Position{Major: 50}},
		{Follower: "a", Partition: 1, From: sluice.Position{Major: 1}, To: sluice.Position{Major: 50}},
	}}))
	wantError(t, err, sluice.ErrConflict)
	cursors, err := f.store.Cursors(f.ctx, "a", parts)
	must(t, err)
	want(t, "cursor beside the one in conflict", cursors[0], sluice.Position{Major: 1})
}

func testNonsense(t *testing.T, f *fixture) {
	f.start(t)
	still := store.Move{Follower: follower}
	if _, err := f.store.Prepare(&store.Effect{Moves: []store.Move{still}}); err == nil {
		t.Fatal("a cursor that does not move was prepared")
	}
	move := store.Move{Follower: follower, To: sluice.Position{Major: 1}}
	if _, err := f.store.Prepare(&store.Effect{Moves: []store.Move{move, move}}); err == nil {
		t.Fatal("a cursor that moves twice was prepared")
	}
	table := f.table(t, "a BIGINT, b BIGINT", store.TableSpec{Table: "t", Columns: []string{"a", "b"}})
	rows := store.TableRows{Table: table, Cells: []store.Cell{num("1")}, Raw: []string{"x"}}
	if _, err := f.store.Prepare(&store.Effect{Rows: []store.TableRows{rows}}); err == nil {
		t.Fatal("half a row was prepared")
	}
	p := f.prepare(t, &store.Effect{})
	if _, err := f.Open(t).Apply(f.ctx, p); err == nil {
		t.Fatal("an effect was applied that another store had prepared")
	}
}

// testRace lets two stores do each step: one does it, the other learns that.
func testRace(t *testing.T, f *fixture) {
	f.start(t)
	const rounds = 30
	stores := []store.Store{f.store, f.Open(t)}
	for round := range rounds {
		var wg sync.WaitGroup
		errs := make([]error, len(stores))
		to := sluice.Position{Major: uint64(round) + 1}
		for i, s := range stores {
			wg.Go(func() {
				p, err := s.Prepare(&store.Effect{
					Moves:  []store.Move{{Follower: follower, From: f.at, To: to}},
					Events: []store.StoredEvent{event(round*2 + i)},
				})
				if err == nil {
					_, err = s.Apply(f.ctx, p)
				}
				errs[i] = err
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, sluice.ErrConflict) {
				t.Fatal(err)
			}
		}
		want(t, "winners", won, 1)
		f.at = to
	}
	f.wantCursor(t)
	want(t, "events", f.count(t, "events"), rounds)
}

func testPrepareWhileApplying(t *testing.T, f *fixture) {
	f.start(t)
	const effects, each = 20, 200
	prepared := make(chan store.Prepared, 1)
	go func() {
		defer close(prepared)
		at := f.at
		for n := range effects {
			e := &store.Effect{Moves: []store.Move{{Follower: follower, From: at, To: sluice.Position{Major: uint64(n) + 1}}}}
			for i := range each {
				e.Events = append(e.Events, event(n*each+i))
			}
			p, err := f.store.Prepare(e)
			if err != nil {
				t.Error(err)
				return
			}
			at = e.Moves[0].To
			prepared <- p
		}
	}()
	for p := range prepared {
		_, err := f.store.Apply(f.ctx, p)
		must(t, err)
	}
	want(t, "events", f.count(t, "events"), effects*each)
}
