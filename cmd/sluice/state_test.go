package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tableFile = `
partitions: 4
lists:
  q: {table: opens, columns: {n: n}}
`

// An operator sees that a follower stands still, why, and how much waits; and
// that it gets on again.
func TestAFollowerThatStandsStillIsSeen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, tableFile)
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	mustRun(t, dir, "migrate")
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "data", "sluice.db")+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE opens (n INTEGER)")
	s := serveConfigured(t, dir)
	has := func(path string, status int, parts ...string) func() bool {
		return func() bool {
			got, body := s.get(t, path)
			for _, part := range parts {
				if !strings.Contains(body, part) {
					return false
				}
			}
			return got == status
		}
	}
	pushAll(t, dir, `{"n":1}`)
	await(t, "it is stored", func() bool { return s.metric(t, "sluice_stored_rows_total") == 1 })
	await(t, "all is well", has("/metrics", 200, `sluice_follower_failing{follower="table:q"} 0`, `sluice_list_held_items{list="q"} 0`))
	exec("ALTER TABLE opens RENAME TO away")
	pushAll(t, dir, `{"n":2}`, `{"n":3}`)
	await(t, "it is not ready, and why", has("/readyz", http.StatusServiceUnavailable, `"follower table:q: `, "opens"))
	await(t, "the metrics tell", has("/metrics", 200,
		`sluice_follower_failing{follower="table:q"} 1`, `sluice_list_held_items{list="q"} 2`, `sluice_list_waiting_items{list="q"} 0`, "sluice_ready 0"))
	lag := func() (seconds float64) {
		_, body := s.get(t, "/metrics")
		for line := range strings.Lines(body) {
			if value, ok := strings.CutPrefix(line, `sluice_follower_lag_seconds{follower="list:q",partition="0"} `); ok {
				if _, err := fmt.Sscan(value, &seconds); err != nil {
					t.Fatal(err)
				}
			}
		}
		return seconds
	}
	before := 0.0
	await(t, "the lag has grown", func() bool {
		if before == 0 { // until it is known
			before = lag()
		}
		return before > 0 && lag() > before+0.5
	})
	exec("ALTER TABLE away RENAME TO opens")
	await(t, "it is ready again", has("/readyz", 200))
	await(t, "all is stored", has("/metrics", 200, "sluice_stored_rows_total 3", `sluice_list_held_items{list="q"} 0`, `sluice_follower_failing{follower="table:q"} 0`))
	await(t, "the lag has gone", func() bool { return lag() < before })
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
}

// A second program on the same data is told why it does not start.
func TestSecondProgramOnTheSameData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir)
	var log bytes.Buffer
	second := Main{Args: []string{"serve", "--start-seconds", "1"}, Dir: dir, Stdout: io.Discard, Stderr: &log, Signals: make(chan os.Signal)}
	if code := second.Run(context.Background()); code != exitFailed || !strings.Contains(log.String(), filepath.Join(dir, "data", "redis")) || !strings.Contains(log.String(), "of a program that still runs") {
		t.Errorf("exit code %d:\n%s", code, &log)
	}
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
}
