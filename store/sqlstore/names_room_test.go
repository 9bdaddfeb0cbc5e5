package sqlstore_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/tables"
)

// Names that retention has removed make room for others, in a program that goes on running.
func TestRemovedNamesMakeRoom(t *testing.T) {
	const day = int64(24 * time.Hour / time.Millisecond)
	first := int64(1_700_000_000_000)
	c := clocktest.At(time.UnixMilli(first))
	s := tables.Open(t, sqlstore.Options{SeriesNames: 2, Clock: c})
	count := func(name string, millis int64) {
		t.Helper()
		must(t, apply(t.Context(), s, &store.Effect{Counts: []sluice.Count{{Kind: sluice.KindCustom, TimeMillis: millis, By: 1, App: "a", Name: name}}}))
	}
	late := first + 5*day
	count("old", first)
	count("stays", late)
	count("new", late)
	removed, err := s.DeleteSeries(t.Context(), true, first+2*day)
	if must(t, err); removed != 1 {
		t.Fatalf("%d rows were removed, want that of the old name", removed)
	}
	c.Move(time.Hour - time.Millisecond)
	count("new", late) // they are not read again for each transaction
	c.Move(time.Millisecond)
	count("new", late)
	count("more", late)

	got := make(map[string]int64)
	rows, err := s.Series(t.Context(), store.SeriesQuery{Days: true, ToMillis: late + day, ByName: true, Limit: 10})
	must(t, err)
	for _, r := range rows {
		got[r.Name] += r.Count
	}
	if want := map[string]int64{"stays": 1, "new": 1, store.OtherName: 3}; !maps.Equal(got, want) {
		t.Errorf("counted are %v, want %v", got, want)
	}
}

// While names are read, which takes as long as the table is large, no transaction is under
// way for it, and none waits in its midst: a server ends one that is idle.
func TestNamesAreReadBeforeTransactions(t *testing.T) {
	c := clocktest.At(time.UnixMilli(1_700_000_000_000))
	database := newPostgresDatabase(t)
	s := migrated(t, postgres.SocketURL(database), sqlstore.Options{SeriesNames: 1, Clock: c})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	count := func(name string) error {
		return apply(ctx, s, &store.Effect{Counts: []sluice.Count{{Kind: sluice.KindCustom, TimeMillis: 1, By: 1, App: "a", Name: name}}})
	}
	must(t, count("known"))
	must(t, count("refused"))
	c.Move(time.Hour)
	readNow := holdNames(ctx, t, database, func() error { return count("known") })
	known := make(chan bool, 1)
	go func() { known <- sqlstore.CountsName(s, "a", "known") }()
	select {
	case is := <-known:
		if !is {
			t.Error("a known name is not counted by itself meanwhile")
		}
	case <-ctx.Done():
		t.Error("a transaction waits until the names are read")
	}
	_, err := s.Cursors(ctx, "another", []int{0}) // another transaction
	must(t, err)
	readNow()
}

// holdNames has names read by a call, which waits until it is told to go on.
func holdNames(ctx context.Context, t *testing.T, database string, read func() error) (goOn func()) {
	t.Helper()
	conn, err := bypass(t, "pgx", postgres.SocketURL(database)).Conn(ctx)
	must(t, err)
	runOn(t, conn, []string{"BEGIN", "LOCK TABLE series_days IN ACCESS EXCLUSIVE MODE"})
	done := make(chan error, 1)
	go func() { done <- read() }()
	watch := bypass(t, "pgx", postgres.SocketURL(database))
	for queryTexts(t, watch, "SELECT COUNT(*) FROM pg_locks WHERE NOT granted")[0][0] == "0" && ctx.Err() == nil {
		<-time.After(time.Millisecond)
	}
	return func() {
		t.Helper()
		runOn(t, conn, []string{"ROLLBACK"})
		must(t, <-done)
	}
}

// What a transaction under way admits and refuses while names are read is known behind it:
// the reader does not see what is not committed yet.
func TestNamesMetWhileTheyAreRead(t *testing.T) {
	c := clocktest.At(time.UnixMilli(1_700_000_000_000))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	read := func(met func(*sqlstore.Store)) (*sqlstore.Store, func(name string)) {
		database := newPostgresDatabase(t)
		s := migrated(t, postgres.SocketURL(database), sqlstore.Options{SeriesNames: 1, Clock: c})
		try := func(name string) error {
			return apply(ctx, s, &store.Effect{Counts: []sluice.Count{{Kind: sluice.KindCustom, TimeMillis: 1, By: 1, App: "a", Name: name}}})
		}
		count := func(name string) {
			t.Helper()
			must(t, try(name))
		}
		count("known")
		count("refused")
		c.Move(time.Hour)
		readNow := holdNames(ctx, t, database, func() error { return try("known") })
		met(s)
		readNow()
		return s, count
	}

	s, _ := read(func(s *sqlstore.Store) { sqlstore.CountsName(s, "b", "met") })
	if sqlstore.CountsName(s, "b", "other") || !sqlstore.CountsName(s, "b", "met") {
		t.Error("a name that was admitted meanwhile has lost its place")
	}

	s, count := read(func(s *sqlstore.Store) { sqlstore.CountsName(s, "a", "refused") })
	_, err := s.DeleteSeries(ctx, true, c.Now().UnixMilli())
	must(t, err)
	c.Move(time.Hour)
	count("new")
	if !sqlstore.CountsName(s, "a", "new") {
		t.Error("names are not read again, though one was refused meanwhile")
	}
}
