package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"sluice"
	"sluice/store"
	"sluice/test/proxy"
)

// testCommitUnknown cuts the connection around the COMMIT. Whatever the server
// has made of it, the cursor and the rows agree, and doing it once more ends
// with both written once.
func testCommitUnknown(t *testing.T, f *fixture) {
	if f.OpenThrough == nil {
		return // nothing lies between the store and the database
	}
	f.start(t)
	db, way := f.OpenThrough(t)
	for round := range 9 {
		moment := []proxy.Moment{proxy.Before, proxy.After, proxy.Replied}[round%3]
		effect := f.step(store.Effect{Events: []store.StoredEvent{event(2 * round), event(2*round + 1)}})
		p, err := db.Prepare(effect)
		must(t, err)
		armed, err := way.Arm(proxy.Rule{Direction: proxy.ToServer, Pattern: f.Commit, Moment: moment})
		must(t, err)
		_, err = db.Apply(f.ctx, p)
		if err == nil || errors.Is(err, sluice.ErrConflict) || errors.Is(err, sluice.ErrRefused) {
			t.Fatalf("the connection was cut at COMMIT, the error is %v", err)
		}
		<-armed.Fired()
		// The second attempt waits for the first one's locks, so what it finds
		// is settled.
		_, err = db.Apply(f.ctx, p)
		if err != nil && !errors.Is(err, sluice.ErrConflict) {
			t.Fatal(err)
		}
		if moment == proxy.Replied && err == nil || moment == proxy.Before && err != nil {
			t.Fatalf("cut at moment %d, the second attempt gave %v", moment, err)
		}
		f.at = effect.Moves[0].To
		f.wantCursor(t)
		want(t, "events", f.count(t, "events"), 2*round+2)
	}
}

// testConnectionLost cuts all connections while none is used: the next call
// makes new ones.
func testConnectionLost(t *testing.T, f *fixture) {
	if f.OpenThrough == nil {
		return
	}
	f.start(t)
	through, way := f.OpenThrough(t)
	f.store = through
	for round := range 3 {
		f.apply(t, store.Effect{Events: []store.StoredEvent{event(round)}}, 1, 0)
		way.Cut()
	}
	// In the middle of a load nothing is tried again by itself.
	e := store.Effect{}
	for i := range 5000 {
		e.Events = append(e.Events, event(100+i))
	}
	effect := f.step(e)
	p := f.prepare(t, effect)
	_, err := way.Arm(proxy.Rule{Direction: proxy.ToServer, Bytes: 100_000})
	must(t, err)
	_, err = through.Apply(f.ctx, p)
	if err == nil || errors.Is(err, sluice.ErrConflict) || errors.Is(err, sluice.ErrRefused) {
		t.Fatalf("the connection was cut in a load, the error is %v", err)
	}
	f.wantCursor(t)
	want(t, "events", f.count(t, "events"), 3)
	f.apply(t, e, 5000, 0)
}

func testMigrateTwice(t *testing.T, f *fixture) {
	db := f.Open(t)
	if err := db.Ping(f.ctx); err == nil {
		t.Fatal("Ping is content with an empty database")
	}
	must(t, db.Migrate(f.ctx))
	must(t, db.Ping(f.ctx))
	must(t, db.Migrate(f.ctx))
	f.store = db
	f.start(t)
	f.apply(t, store.Effect{Events: []store.StoredEvent{event(1)}}, 1, 0)
}

func testMigrateTogether(t *testing.T, f *fixture) {
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		store := f.Open(t)
		wg.Go(func() { errs[i] = store.Migrate(f.ctx) })
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	must(t, f.Open(t).Ping(f.ctx))
	versions := f.Query(t, "SELECT version FROM schema_version ORDER BY version")
	for i, v := range versions {
		want(t, "version", v[0], fmt.Sprint(i+1))
	}
}

// testMigrateFrom1 goes back to the first version by hand, keeping a cursor.
func testMigrateFrom1(t *testing.T, f *fixture) {
	f.store = f.Open(t)
	must(t, f.store.Migrate(f.ctx))
	f.start(t)
	f.apply(t, store.Effect{}, 0, 0)
	for _, statement := range []string{
		"DROP VIEW IF EXISTS events_readable", "DROP TABLE events", "DROP TABLE dead_letters", "DROP TABLE dead_chunks", "DROP TABLE sends", "DROP TABLE audit_log",
		"DELETE FROM schema_version WHERE version > 1",
	} {
		f.Exec(t, statement)
	}
	if err := f.store.Ping(f.ctx); err == nil {
		t.Fatal("Ping is content with an old schema")
	}
	must(t, f.Open(t).Migrate(f.ctx))
	must(t, f.store.Ping(f.ctx))
	f.wantCursor(t)
	f.apply(t, store.Effect{Events: []store.StoredEvent{event(1)}, Dead: []sluice.DeadLetter{{Reason: "r"}}}, 1, 0)
}

func testNewerSchema(t *testing.T, f *fixture) {
	f.Exec(t, "INSERT INTO schema_version (version, name, applied_at) SELECT 9999, 'future', applied_at FROM schema_version WHERE version = 1")
	for _, store := range []store.Store{f.store, f.Open(t)} {
		if err := store.Migrate(f.ctx); err == nil {
			t.Fatal("Migrate is content with a newer schema")
		}
		if err := store.Ping(f.ctx); err == nil {
			t.Fatal("Ping is content with a newer schema")
		}
	}
}
