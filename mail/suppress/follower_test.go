package suppress

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store/sqlstore"
	"sluice/test/tables"
)

// openStores opens a database twice, as two processes do.
func openStores(t *testing.T) (writer, reader *sqlstore.Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	tables.Make(t, path)
	open := func() *sqlstore.Store {
		s, err := sqlstore.Open(t.Context(), "sqlite:"+path, sqlstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	return open(), open()
}

func suppress(t *testing.T, s *sqlstore.Store, removed bool, millis int64, entries ...string) {
	t.Helper()
	var changes []mail.Suppression
	for _, e := range entries {
		changes = append(changes, mail.Suppression{Entry: e, Reason: mail.SuppressManual, TimeMillis: millis, Removed: removed})
	}
	if _, err := s.Suppress(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
}

func follow(t *testing.T, s mail.SuppressionStore) (*Follower, func(address string) bool) {
	t.Helper()
	f := &Follower{List: NewList(sluice.SystemClock{}), Store: s, Clock: sluice.SystemClock{}, Log: slog.New(slog.DiscardHandler)}
	if err := f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f, func(address string) bool {
		_, ok := f.List.Check(address, mail.ClassTransactional, "")
		return ok
	}
}

// What one process commits, another has after its next look; also when it is
// more than is read at once, and when changes changed nothing.
func TestFollow(t *testing.T) {
	writer, reader := openStores(t)
	suppress(t, writer, false, 1000, "a@example.com", "b@example.com")
	suppress(t, writer, true, 2000, "b@example.com")
	f, held := follow(t, reader)
	if !held("a@example.com") || held("b@example.com") {
		t.Error("what was loaded is not what holds")
	}
	look := func() {
		t.Helper()
		if err := f.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if last, err := reader.LastSuppression(t.Context()); err != nil || f.Status().Number != last {
			t.Fatalf("it is at %d, the last is %d, %v", f.Status().Number, last, err)
		}
	}
	suppress(t, writer, true, 1001, "a@example.com")
	suppress(t, writer, false, 2001, "b@example.com", ".example.org")
	if !held("a@example.com") {
		t.Error("a removal is in force before it was read")
	}
	look()
	if held("a@example.com") || !held("b@example.com") || !held("x@sub.example.org") {
		t.Error("a change is not in force")
	}
	suppress(t, writer, false, 500, "a@example.com") // older than the removal
	look()
	if held("a@example.com") {
		t.Error("a bounce older than the removal is in force")
	}
	var many []string
	for i := range changeRows + 10 {
		many = append(many, fmt.Sprintf("%d@example.net", i))
	}
	suppress(t, writer, false, 3000, many...)
	suppress(t, writer, true, 3001, many[7])
	look()
	for i, address := range many {
		if held(address) != (i != 7) {
			t.Fatalf("%s: held %v", address, held(address))
		}
	}
	if want := changeRows + 11; f.List.Len() != want {
		t.Errorf("%d entries in memory, want %d", f.List.Len(), want)
	}
}

// A database that has gone back in time is read anew.
func TestFollowBack(t *testing.T) {
	other, _ := openStores(t)
	suppress(t, other, false, 1000, "c@example.com")
	last, err := other.LastSuppression(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	writer, reader := openStores(t)
	suppress(t, writer, false, 1000, "a@example.com", "b@example.com")
	f, held := follow(t, reader)
	f.Store = other
	if err := f.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held("a@example.com") || !held("c@example.com") || f.Status().Number != last {
		t.Error("the list is not what the database has")
	}
}

// A running follower sees changes by itself, and goes on after errors.
func TestFollowRun(t *testing.T) {
	writer, reader := openStores(t)
	f, held := follow(t, reader)
	broken := &failing{SuppressionStore: f.Store, broken: make(chan struct{}, 1)}
	f.Store = broken
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx, t.Context()) }()
	<-broken.broken
	suppress(t, writer, false, 1000, "a@example.com")
	late := time.After(3 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !held("a@example.com") || f.Status().Err != nil {
		select {
		case <-late:
			t.Fatalf("not seen: %+v", f.Status())
		case <-tick.C:
		}
	}
	stop()
	<-done
}

// counted is a store that has the addresses 1@example.com and so on, one a change.
type counted struct {
	mail.SuppressionStore
	last atomic.Int64
}

func (c *counted) LastSuppression(context.Context) (int64, error) { return c.last.Load(), nil }

func (c *counted) SuppressionChanges(_ context.Context, after int64, _ int, do func(*mail.Suppression)) error {
	for n := after + 1; n <= c.last.Load(); n++ {
		do(&mail.Suppression{Entry: fmt.Sprintf("%d@example.com", n), Reason: mail.SuppressManual, Number: n})
	}
	return nil
}

// A change is in force within a second of its commit, whenever that is, in every
// process that follows.
func TestChangesAreInForceWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{}
		var lists []*List
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for range 3 {
			f := &Follower{List: NewList(sluice.SystemClock{}), Store: store, Clock: sluice.SystemClock{}, Log: slog.New(slog.DiscardHandler)}
			lists = append(lists, f.List)
			go f.Run(ctx, ctx) // ends with ctx
			<-time.After(170 * time.Millisecond)
		}
		for n := range 50 {
			<-time.After(time.Duration(n) * 37 * time.Millisecond)
			address, committed := fmt.Sprintf("%d@example.com", store.last.Add(1)), time.Now()
			for _, l := range lists {
				for held := false; !held; {
					<-time.After(time.Millisecond)
					if _, held = l.Check(address, mail.ClassTransactional, ""); time.Since(committed) > time.Second {
						t.Fatalf("%s is not in force a second after its commit", address)
					}
				}
			}
		}
	})
}

// failing fails at the first look.
type failing struct {
	mail.SuppressionStore
	looks  int
	broken chan struct{}
}

func (f *failing) LastSuppression(ctx context.Context) (int64, error) {
	if f.looks++; f.looks == 1 {
		f.broken <- struct{}{}
		return 0, fmt.Errorf("the database is away")
	}
	return f.SuppressionStore.LastSuppression(ctx)
}
