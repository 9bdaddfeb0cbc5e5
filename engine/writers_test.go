package engine_test

import (
	"database/sql"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"sluice/config"
	"sluice/engine"
	"sluice/store"
	"sluice/test/clocktest"
	"sluice/test/proxy"
)

// writersOf are the names of the writers of the store that run.
func writersOf(e *engine.Engine) string {
	names := slices.Sorted(maps.Keys(e.Stats().Failing))
	return strings.Join(slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "store") }), ", ")
}

// postForty hands in events of seven people.
func postForty(t *testing.T, e *engine.Engine) (count int64) {
	t.Helper()
	for i := range 40 {
		post(t, e, i, time.Now())
	}
	return 40
}

// TestWritersByDistance: a database is written by two transactions at once, one that is far by
// four, unless the configuration says how many. All that comes is stored once.
func TestWritersByDistance(t *testing.T) {
	before := runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for _, test := range []struct {
		name    string
		writers int
		delay   time.Duration // of each way
		want    string
	}{
		{"near", 0, 0, "store, store 2"},
		{"near and told", 1, 0, "store"},
		{"far", 0, 5 * time.Millisecond, "store, store 2, store 3, store 4"},
		{"told", 2, 5 * time.Millisecond, "store, store 2"},
		{"more than partitions", 16, 0, "store, store 2, store 3, store 4, store 5, store 6, store 7, store 8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			redis, database := sharedServers(t)
			to, err := url.Parse(database)
			if err != nil {
				t.Fatal(err)
			}
			p, err := proxy.New("tcp", to.Host)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = p.Close() })
			p.Delay(test.delay)
			to.Host = p.Addr()
			e, _ := openNear(t, redis, to.String(), 8, test.writers, func(text string) bool {
				return test.writers == 0 && test.delay == 0 && strings.Contains(text, saidFar)
			})
			all := postForty(t, e)
			await(t, "all is counted", func() bool { return counted(t, e) == all })
			if got := writersOf(e); got != test.want {
				t.Errorf("writers: %s; want %s", got, test.want)
			}
		})
	}
}

// TestNamesOfSeveralWriters: the writers of a process agree which names are counted by
// themselves. There are as many as may be, and each is counted as a whole.
func TestNamesOfSeveralWriters(t *testing.T) {
	const names, bound, people = 12, 4, 20
	redis, database := sharedServers(t)
	e := open(t, redis, database, 8, func(cfg *config.Config) { cfg.StoreWriters, cfg.SeriesNames = 2, bound })
	var all int
	send := func(name, user int) {
		postNamed(t, e, fmt.Sprint("n-", name), all, user, time.Now())
		all++
	}
	for name := range names { // each is met by one writer first
		send(name, name)
		await(t, "it is counted", func() bool { return counted(t, e) == int64(all) })
	}
	for name := range names {
		for user := range people {
			send(name, 100+user)
		}
	}
	await(t, "all is counted", func() bool { return counted(t, e) == int64(all) })
	got := countedByName(t, e)
	delete(got, store.OtherName)
	if len(got) != bound {
		t.Errorf("%d names are counted by themselves, want %d", len(got), bound)
	}
	for name, n := range got {
		if n != people+1 {
			t.Errorf("%s happened %d times, and %d are counted", name, people+1, n)
		}
	}
}

// TestWritersOfAFile: SQLite has one writer, and followers that take turns at it. All that
// comes is stored once.
func TestWritersOfAFile(t *testing.T) {
	for _, test := range []struct {
		name       string
		writers    int
		processors int
		want       string
	}{
		{"one processor", 0, 1, "store"},
		{"several processors", 0, 4, "store, store 2"},
		{"told", 3, 1, "store, store 2, store 3"},
		{"told one", 1, 4, "store"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := runtime.GOMAXPROCS(test.processors)
			t.Cleanup(func() { runtime.GOMAXPROCS(before) })
			e := open(t, "embedded", "sqlite:"+filepath.Join(t.TempDir(), "sluice.db"), 8, func(cfg *config.Config) { cfg.StoreWriters = test.writers })
			all := postForty(t, e)
			await(t, "all is counted", func() bool { return counted(t, e) == all })
			if got := writersOf(e); got != test.want {
				t.Errorf("writers: %s; want %s", got, test.want)
			}
		})
	}
}

// TestWritersAtOnce: as many transactions as writers are in the database at once. They
// are counted while another transaction has the rows of all cursors.
func TestWritersAtOnce(t *testing.T) {
	redis, database := sharedServers(t)
	const writers = 3
	e := open(t, redis, database, 8, func(cfg *config.Config) { cfg.StoreWriters = writers })
	await(t, "all partitions are held", func() bool { return e.Stats().Leases["store"] == 8 })
	db, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var all int64
	await(t, "each writer waits for a cursor", func() bool {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(t.Context(), "SELECT 1 FROM cursors WHERE follower = 'store' FOR UPDATE"); err != nil {
			t.Fatal(err)
		}
		for range 40 {
			post(t, e, int(all), time.Now())
			all++
		}
		return waitForCursors(t, db, writers)
	})
	await(t, "all is counted", func() bool { return counted(t, e) == all })
}

// waitForCursors reports whether so many transactions come to wait for the rows of cursors
// at once. A transaction gives up waiting after 2 s, and its follower then rests.
func waitForCursors(t *testing.T, db *sql.DB, writers int) bool {
	t.Helper()
	for began := time.Now(); time.Since(began) < 3*time.Second; clocktest.Rest(began) {
		var waiting int
		err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE cursors%'").Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		if waiting == writers {
			return true
		}
	}
	return false
}
