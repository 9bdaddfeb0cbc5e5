package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/config"
	"sluice/engine"
	"sluice/store"
	"sluice/test/clocktest"
	"sluice/test/servers"
	"sluice/test/tables"
)

// sharedServers are a Redis and a PostgreSQL that several engines share, until the end of
// the test.
func sharedServers(t *testing.T) (redisURL, databaseURL string) {
	t.Helper()
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "redis"), AppendFsync: "everysec"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop(context.Background()) })
	postgres, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{Dir: filepath.Join(t.TempDir(), "postgres"), Extra: []string{"-c", "fsync=off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = postgres.Stop(context.Background()) })
	if err := postgres.CreateDatabase(t.Context(), "sluice"); err != nil {
		t.Fatal(err)
	}
	return redis.URL(), postgres.URL("sluice")
}

// TestTwoEnginesInOneProcess: nothing of an engine belongs to the process. Two share
// the partitions of one Redis as two processes do; what both have accepted is stored
// once; and what the first leaves when it stops, the second goes on with.
func TestTwoEnginesInOneProcess(t *testing.T) {
	redis, database := sharedServers(t)
	const partitions = 4
	first := open(t, redis, database, partitions)
	second := open(t, redis, database, partitions)
	await(t, "each stores two of four partitions", func() bool {
		return first.Stats().Leases["store"] == 2 && second.Stats().Leases["store"] == 2
	})
	now := time.Now()
	for i := range 20 {
		post(t, first, i, now)
		post(t, second, 100+i, now)
		post(t, second, i, now) // a repeat
	}
	await(t, "40 events are counted", func() bool { return counted(t, second) == 40 })

	if err := first.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	await(t, "the second stores all", func() bool { return second.Stats().Leases["store"] == partitions })
	for i := range 20 {
		post(t, second, 200+i, now)
	}
	await(t, "60 events are counted", func() bool { return counted(t, second) == 60 })
}

const rootKey = "a root key of the tests, 32 characters at least"

// open runs an engine until the test ends.
func open(t *testing.T, redis, database string, partitions int, settings ...func(*config.Config)) *engine.Engine {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.Partitions = t.TempDir(), "127.0.0.1:0", partitions
	cfg.Redis, cfg.Database, cfg.RootKey = config.URL(redis), config.URL(database), config.Secret(rootKey)
	for _, set := range settings {
		set(cfg)
	}
	if file, ok := strings.CutPrefix(database, "sqlite:"); ok {
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			tables.Make(t, file)
		}
	}
	e, err := engine.Open(t.Context(), engine.Options{Config: cfg, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// post hands in the event with a number: one with the same number is a repeat.
func post(t *testing.T, e *engine.Engine, number int, happened time.Time) {
	t.Helper()
	postNamed(t, e, "seen", number, number%7, happened)
}

// postNamed hands in an event of a name, of one user.
func postNamed(t *testing.T, e *engine.Engine, name string, number, user int, happened time.Time) {
	t.Helper()
	body := fmt.Sprintf(`{"event": %q, "event_id": "e-%d", "user_id": "u-%d", "time": %d}`, name, number, user, happened.Unix())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+e.Address()+"/v1/events", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+rootKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		answer, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		t.Fatalf("event %d is answered %s: %s", number, res.Status, answer)
	}
}

// counted is how often events happened, by the series.
func counted(t *testing.T, e *engine.Engine) (n int64) {
	t.Helper()
	for _, of := range countedByName(t, e) {
		n += of
	}
	return n
}

func countedByName(t *testing.T, e *engine.Engine) map[string]int64 {
	t.Helper()
	all := make(map[string]int64)
	now := time.Now()
	rows, err := e.Services().Series.Series(t.Context(), store.SeriesQuery{
		FromMillis: now.Add(-2 * time.Hour).UnixMilli(), ToMillis: now.Add(2 * time.Hour).UnixMilli(), ByName: true, Limit: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		all[r.Name] += r.Count
	}
	return all
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); clocktest.Rest(began) {
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("waited 3 min in vain until %s", what)
		}
	}
}
