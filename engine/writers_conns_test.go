package engine_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/config"
	"sluice/engine"
	"sluice/test/logtest"
)

// logged keeps what is logged.
type logged = logtest.Buffer

// limited makes a user of a PostgreSQL with a bound on connections, and returns the URL of a
// database of that user.
func limited(t *testing.T, database string, connections int) string {
	t.Helper()
	db, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range []string{fmt.Sprint("CREATE ROLE limited LOGIN PASSWORD 'limited' CONNECTION LIMIT ", connections), "CREATE DATABASE limited OWNER limited"} {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	to, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	to.User, to.Path = url.UserPassword("limited", "limited"), "/limited"
	return to.String()
}

// openLogged opens an engine and returns what it logs.
func openLogged(t *testing.T, redis, database string, partitions, writers int, settings ...func(*config.Config)) (*engine.Engine, *logged) {
	t.Helper()
	log := &logged{}
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.Partitions = t.TempDir(), "127.0.0.1:0", partitions
	cfg.Redis, cfg.Database, cfg.RootKey, cfg.StoreWriters = config.URL(redis), config.URL(database), config.Secret(rootKey), writers
	for _, set := range settings {
		set(cfg)
	}
	e, err := engine.Open(t.Context(), engine.Options{Config: cfg, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(context.Background()) })
	return e, log
}

// saidFar is logged of a database that counts as far.
const saidFar = "several transactions at once"

// openNear is openLogged for a database that is near, unless the test makes it far. It opens
// the engine anew while the log says that it was taken for far: a busy machine may give no
// quick answer of five.
func openNear(t *testing.T, redis, database string, partitions, writers int, far func(text string) bool) (*engine.Engine, *logged) {
	t.Helper()
	before := connectionsOfLimited(t, database)
	for began := time.Now(); ; {
		e, log := openLogged(t, redis, database, partitions, writers)
		if !far(log.String()) || time.Since(began) > 3*time.Minute {
			return e, log
		}
		if err := e.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		await(t, "its connections have ended", func() bool { return connectionsOfLimited(t, database) <= before })
	}
}

// connectionsOfLimited is how many connections the role of limited has, as far as it may
// have one more to say so.
func connectionsOfLimited(t *testing.T, database string) (n int) {
	t.Helper()
	db, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM pg_stat_activity WHERE usename = 'limited'").Scan(&n); err != nil {
		return math.MaxInt
	}
	return n
}

// TestWritersOfFewConnections: a process has a second writer only if the database takes its
// connections, beside those of the processes that live. It says in the log if it does not.
// What it may take is no finding of its own start, and all that comes is stored.
func TestWritersOfFewConnections(t *testing.T) {
	before := runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	const said, finding = "fewer transactions at once", "database-connections"
	for _, test := range []struct {
		name                             string
		connections, partitions, writers int
		want                             []string // of each process, which start one after the other
		says, finds                      bool     // the last one
	}{
		{name: "enough for one process of one", connections: 8, partitions: 8, want: []string{"store"}, says: true, finds: true},
		{name: "told two", connections: 18, partitions: 8, writers: 2, want: []string{"store, store 2"}, finds: true},
		{name: "enough for two", connections: 19, partitions: 8, want: []string{"store, store 2"}},
		{name: "one partition", connections: 15, partitions: 1, want: []string{"store"}},
		{name: "two processes", connections: 29, partitions: 8, want: []string{"store, store 2", "store"}, says: true},
		{name: "enough for two of both", connections: 30, partitions: 8, want: []string{"store, store 2", "store, store 2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			redis, database := sharedServers(t)
			database = limited(t, database, test.connections)
			var e *engine.Engine
			var log *logged
			far := func(text string) bool { // where fewer are said all the same, it makes no difference
				return strings.Contains(text, saidFar) || !test.says && strings.Contains(text, "4 writers in each process")
			}
			for i, want := range test.want {
				e, log = openNear(t, redis, database, test.partitions, test.writers, far)
				await(t, "its writers have partitions", func() bool { return e.Stats().Leases["store"] == max(1, test.partitions/(i+1)) })
				if got := writersOf(e); got != want {
					t.Errorf("writers of process %d: %s; want %s", i, got, want)
				}
			}
			all := postForty(t, e)
			await(t, "all is counted", func() bool { return counted(t, e) == all })
			text := log.String()
			if got := strings.Contains(text, said); got != test.says {
				t.Errorf("says that there are fewer writers: %t, want %t:\n%s", got, test.says, text)
			}
			if got := strings.Contains(text, finding); got != test.finds {
				t.Errorf("finds too few connections: %t, want %t:\n%s", got, test.finds, text)
			}
			if strings.Contains(text, "too many connections") {
				t.Errorf("it wanted more than it may have:\n%s", text)
			}
		})
	}
}
