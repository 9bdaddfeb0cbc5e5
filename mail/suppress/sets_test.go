package suppress

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/flow"
	"sluice/mail"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/servers"
	"sluice/test/tables"
)

// ticking is a clock that is a millisecond later each time: what a set says is not
// at the moment of what it said before.
type ticking struct{ at atomic.Int64 }

func (c *ticking) Now() time.Time { return time.UnixMilli(c.at.Add(1)) }

// followedSet is a set on a server, and its follower into a database that can go
// back.
type followedSet struct {
	*SetFollower
	t     *testing.T
	redis *flow.Redis
	db    *sql.Conn // another connection to the database
}

func followSet(t *testing.T) *followedSet {
	t.Helper()
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), AppendFsync: "no"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	redis, err := flow.Dial(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	set, err := flow.OpenSet(t.Context(), server.URL(), "bad")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	path := filepath.Join(t.TempDir(), "test.db")
	tables.Make(t, path)
	store, err := sqlstore.Open(t.Context(), "sqlite:"+path, sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	pool, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	db, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	clock := &ticking{}
	clock.at.Store(time.Now().UnixMilli())
	return &followedSet{t: t, redis: redis, db: db, SetFollower: &SetFollower{
		Set: set, Reason: mail.SuppressBadDomain, Store: store, Deployment: "d", Clock: clock, Log: slog.New(slog.DiscardHandler), Health: untold{},
	}}
}

// untold is a flow.Health that nobody asks.
type untold struct{}

func (untold) Fine(string)                     {}
func (untold) Lasts(string, time.Time)         {}
func (untold) Failed(string, error, time.Time) {}

func (f *followedSet) add(members ...string) {
	f.t.Helper()
	if err := f.redis.Do(f.t.Context(), "add members", f.redis.B().Sadd().Key("bad").Member(members...).Build()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *followedSet) remove(members ...string) {
	f.t.Helper()
	if err := f.redis.Do(f.t.Context(), "remove members", f.redis.B().Srem().Key("bad").Member(members...).Build()); err != nil {
		f.t.Fatal(err)
	}
}

// pass is one round of follow.
func (f *followedSet) pass() {
	f.t.Helper()
	if err := f.know(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	if err := f.Pass(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// known is what is noted beside the set.
func (f *followedSet) known() string {
	f.t.Helper()
	known, err := f.Set.Known(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return known
}

// held are the entries that hold.
func (f *followedSet) held() string {
	f.t.Helper()
	rows, err := f.Store.Suppressions(f.t.Context(), mail.SuppressionQuery{Limit: 100})
	if err != nil {
		f.t.Fatal(err)
	}
	var all []string
	for i := range rows {
		all = append(all, rows[i].Entry)
	}
	return strings.Join(all, " ")
}

func (f *followedSet) wantHeld(want string) {
	f.t.Helper()
	if held := f.held(); held != want {
		f.t.Errorf("%q hold, want %q", held, want)
	}
}

func (f *followedSet) awaitHeld(want string) {
	f.t.Helper()
	for began := time.Now(); f.held() != want; clocktest.Rest(began) {
		if time.Since(began) > 3*time.Minute {
			f.t.Fatalf("%q hold, want %q", f.held(), want)
		}
	}
}

func (f *followedSet) exec(statements ...string) {
	f.t.Helper()
	for _, s := range statements {
		if _, err := f.db.ExecContext(f.t.Context(), s); err != nil {
			f.t.Fatalf("%s: %v", s, err)
		}
	}
}

// save writes what the database has into a file; goBack makes it what it was then.
func (f *followedSet) save() (file string) {
	f.t.Helper()
	file = filepath.Join(f.t.TempDir(), "saved.db")
	f.exec("VACUUM INTO '" + file + "'")
	return file
}

func (f *followedSet) goBack(file string) {
	f.t.Helper()
	f.exec("ATTACH '"+file+"' AS saved", "BEGIN IMMEDIATE",
		"DELETE FROM suppressions", "INSERT INTO suppressions SELECT * FROM saved.suppressions",
		"DELETE FROM cursors", "INSERT INTO cursors SELECT * FROM saved.cursors",
		"COMMIT", "DETACH saved")
}

// A database that goes back under a follower that runs gets again what it has lost,
// and gives up again what had gone, though others have changed suppressions since.
func TestSetOfADatabaseThatGoesBack(t *testing.T) {
	t.Parallel()
	f := followSet(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil { // as Run does
			_ = f.follow(ctx)
		}
	}()
	defer func() { stop(); <-ended }()
	f.add("a.example", "gone.example")
	f.awaitHeld("a.example gone.example")
	file := f.save()
	f.add("lost.example")
	f.remove("gone.example")
	f.awaitHeld("a.example lost.example")
	f.goBack(file)
	other := []mail.Suppression{{Entry: "other.example", Reason: mail.SuppressManual, TimeMillis: time.Now().UnixMilli()}}
	if _, err := f.Store.Suppress(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	f.awaitHeld("a.example lost.example other.example")
}

// A member that an operator had suppressed before is no row of the set. It becomes one
// when the database loses the operator's.
func TestSetBelowARowThatIsLost(t *testing.T) {
	t.Parallel()
	f := followSet(t)
	f.add("a.example")
	f.pass()
	file := f.save()
	manual := []mail.Suppression{{Entry: "b.example", Reason: mail.SuppressBadDomain, Source: "cli", TimeMillis: time.Now().UnixMilli()}}
	if _, err := f.Store.Suppress(t.Context(), manual); err != nil {
		t.Fatal(err)
	}
	f.add("b.example")
	f.pass()
	f.goBack(file)
	f.wantHeld("a.example")
	f.pass()
	f.wantHeld("a.example b.example")
}

// A process that dies behind a commit has noted nothing of it, and a server of the
// set may lose what was noted, with the set or without. The next one reads the rows,
// once.
func TestSetWithoutItsNote(t *testing.T) {
	t.Parallel()
	f := followSet(t)
	f.add("a.example", "b.example")
	f.pass()
	before := f.known()
	f.add("c.example", "d.example")
	f.remove("a.example")
	f.pass()
	f.wantHeld("b.example c.example d.example")
	for _, err := range []error{
		f.Set.See(t.Context(), []string{"c.example", "d.example"}, false), f.Set.See(t.Context(), []string{"a.example"}, true), f.Set.Know(t.Context(), before),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.remove("d.example") // which nothing beside the set knows of
	f.pass()
	f.wantHeld("b.example c.example")
	noted := f.known()
	if err := f.know(t.Context()); err != nil || noted != f.owner() || f.known() != noted {
		t.Errorf("noted %q, then %q, of %q, %v", noted, f.known(), f.owner(), err)
	}
}

// Members that are written otherwise than entries stay in force while the note is made anew:
// no row changes. What has gone meanwhile is found as ever, and what has come.
func TestSetWithoutItsNoteWrittenOtherwise(t *testing.T) {
	t.Parallel()
	for _, below := range []bool{false, true} {
		f := followSet(t)
		f.Below = below
		f.add("Ann@Example.com", "ANN@example.com", "bob@example.com", "*.bad.example", "@at.example", "bücher.example", "dot.example.", "Gone.Example", "low.example", "Two@Example.com", "two@example.com")
		f.pass()
		held := f.held()
		last, err := f.Store.LastSuppression(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := f.Set.Forget(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.pass()
			if now, err := f.Store.LastSuppression(t.Context()); err != nil || now != last {
				t.Errorf("below %v: rows were changed up to %d, then to %d (%v)", below, last, now, err)
			}
		}
		f.wantHeld(held)
		if err := f.Set.Forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.remove("Gone.Example", "low.example")
		f.add("New.example")
		f.pass()
		gone, come := "gone.example low.example ", "new.example "
		if below {
			gone, come = ".gone.example .low.example ", ".new.example "
		}
		f.wantHeld(strings.Replace(held, gone, come, 1))
		f.remove("Ann@Example.com", "ANN@example.com", "bücher.example")
		f.pass()
		if held := f.held(); strings.Contains(held, "ann@") || strings.Contains(held, "xn--") {
			t.Errorf("%q hold, although some have gone", held)
		}
	}
}

// lookups counts the entries whose rows are asked for.
type lookups struct {
	SetStore
	entries int
}

func (l *lookups) SuppressionsOf(ctx context.Context, entries []string) ([]mail.Suppression, error) {
	l.entries += len(entries)
	return l.SetStore.SuppressionsOf(ctx, entries)
}

// A set that has no rows yet is read once, to be taken over, and none of its members is looked
// for in the database.
func TestSetWithoutRows(t *testing.T) {
	t.Parallel()
	f := followSet(t)
	store := &lookups{SetStore: f.Store}
	f.Store = store
	f.add("Ann@Example.com", "a.example")
	f.pass()
	f.wantHeld("a.example ann@example.com")
	if store.entries != 0 {
		t.Errorf("%d members were looked for", store.entries)
	}
}

// What an older version has noted is good: a set is not read anew by an upgrade, which
// would suppress again what an operator has removed. From then on the note names a number of
// the database, though the set does not change.
func TestSetOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	f := followSet(t)
	f.add("a.example", "removed.example")
	for _, err := range []error{f.Set.See(t.Context(), []string{"a.example", "removed.example"}, true), f.Set.Know(t.Context(), "d")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.pass()
	f.wantHeld("")
	if at, err := f.cursor(t.Context()); err != nil || at.IsZero() || f.known() != "d "+at.String() {
		t.Errorf("noted %q at %v (%v), want the number too", f.known(), at, err)
	}
	f.add("new.example")
	f.pass()
	f.pass()
	f.wantHeld("new.example")
}
