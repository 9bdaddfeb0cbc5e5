package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"sluice/test/servers"
)

// What is past its retention when the program starts goes, the rest stays: by
// kind, and the dead letters too. An import of such events is refused.
func TestRetention(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeRetention := func(retention string) {
		configure(t, dir, "partitions: 4\n"+retention+"\nlists:\n  q: {dedupe: event_id}\n")
	}
	ago := func(days int) string { return time.Now().UTC().AddDate(0, 0, -days).Format(time.RFC3339) }
	line := func(id, name string, days int) string {
		return fmt.Sprintf("{\"event_id\":%q,\"event\":%q,\"time\":%q,\"user_id\":\"u\"}", id, name, ago(days))
	}
	writeRetention("event_time: {past_days: 0}")
	s := serveConfigured(t, dir)
	pushAll(t, dir, line("m1", "opened", 100), line("m2", "opened", 55), line("m3", "opened", 1), line("c1", "own", 55), line("c2", "own", 1), "broken")
	bypass, err := sql.Open("sqlite", s.database()+"?_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	defer bypass.Close()
	count := func(statement string) (n int) {
		t.Helper()
		if err := bypass.QueryRow(statement).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	await(t, "all is stored", func() bool {
		return count("SELECT COUNT(*) FROM events") == 5 && count("SELECT COUNT(*) FROM dead_letters") == 1
	})
	s.stop(t)
	if _, err := bypass.Exec("UPDATE dead_letters SET found_at = ?", time.Now().AddDate(0, 0, -9).UnixMilli()); err != nil {
		t.Fatal(err)
	}
	writeRetention("retention: {events: {mail: 60, custom: 30, purchase: 30, system: 30}, dead_letters: 7, series_hours: 30}")
	serveConfigured(t, dir)
	await(t, "old rows are gone", func() bool {
		return count("SELECT COUNT(*) FROM events") == 3 && count("SELECT COUNT(*) FROM dead_letters") == 0 && count("SELECT COUNT(*) FROM series_hours") == 2
	})
	if count("SELECT COUNT(*) FROM events WHERE event_id IN ('m2', 'm3', 'c2')") != 3 || count("SELECT COUNT(*) FROM series_days") != 5 {
		t.Error("something else went")
	}
	file := filepath.Join(dir, "old.ndjson")
	write(t, file, line("c3", "own", 40)+"\n"+line("m4", "opened", 40)+"\n")
	r := sluiceRun(t, dir, "import", "events", file)
	if r.code != exitFailed || !strings.Contains(r.stdout, "2 lines: 1 events, 0 of an earlier run, 1 rejected") {
		t.Errorf("import: %d %s%s", r.code, r.stdout, r.stderr)
	}
}

// On MariaDB a day past its retention goes with its partition.
func TestRetentionDropsDays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	maria, err := servers.StartMariaDB(t.Context(), servers.MariaDBOptions{Dir: filepath.Join(dir, "maria")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = maria.Kill() })
	if err := maria.CreateDatabase(t.Context(), "kept"); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", maria.DSN("kept"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	start := func(settings string) *served {
		configure(t, dir, fmt.Sprintf("partitions: 4\ndatabase: mysql://root@%s/kept\n%s\nlists:\n  q: {dedupe: event_id}\n", maria.Addr(), settings))
		return serveConfigured(t, dir)
	}
	event := func(days int) string {
		return fmt.Sprintf("{\"event_id\":\"e%d\",\"event\":\"opened\",\"time\":%q}", days, time.Now().UTC().AddDate(0, 0, -days).Format(time.RFC3339))
	}
	left := func() (ids string) {
		t.Helper()
		if err := db.QueryRow("SELECT COALESCE(GROUP_CONCAT(event_id ORDER BY event_id), '') FROM events").Scan(&ids); err != nil {
			t.Fatal(err)
		}
		return ids
	}
	s := start("event_time: {past_days: 0}")
	pushAll(t, dir, event(20), event(9))
	await(t, "both are stored", func() bool { return left() == "e20,e9" })
	s.stop(t)
	s = start("event_time: {past_days: 10}\nretention: {events: {mail: 10, custom: 10, purchase: 10, system: 10}}")
	await(t, "the old one is gone", func() bool { return left() == "e9" })
	await(t, "it says so", func() bool { return strings.Contains(s.log.String(), "were dropped") })
	if code := s.stop(t); code != exitOK || strings.Contains(s.log.String(), "were deleted") {
		t.Errorf("it was not dropped, or the program ended with %d:\n%s", code, s.log.String())
	}
}
