package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"sluice/test/servers"
)

const hashesFile = `
partitions: 4
hashes:
  - redis: [%s]
    dirty: buffered
    key: "{app_id}|{date}|{name}"
    zone: Europe/Berlin
`

// hashesDir makes a directory whose configuration drains these servers.
func hashesDir(t *testing.T, urls ...string) string {
	t.Helper()
	dir := t.TempDir()
	configure(t, dir, fmt.Sprintf(hashesFile, `"`+strings.Join(urls, `", "`)+`"`))
	return dir
}

func startOther(t *testing.T) (*servers.Redis, func(words ...string)) {
	t.Helper()
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), Listen: "tcp"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	option, err := rueidis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return server, func(words ...string) {
		t.Helper()
		if err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatalf("%q: %v", words, err)
		}
	}
}

// The whole program: from two servers into the series, dead letters replayed
// from the command line, metrics of both.
func TestServeDrainsHashes(t *testing.T) {
	t.Parallel()
	one, doOne := startOther(t)
	two, doTwo := startOther(t)
	dir := hashesDir(t, one.URL(), two.URL())
	s := serveConfigured(t, dir)
	for _, do := range []func(...string){doOne, doTwo} {
		do("HINCRBY", "shop|2026-01-31|open", "0", "5")
		do("SADD", "buffered", "shop|2026-01-31|open")
	}
	doTwo("HINCRBY", "shop|open", "0", "1")
	doTwo("SADD", "buffered", "shop|open")
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "data", "sluice.db")+"?mode=ro&_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	series := func() string {
		var text string
		if err := db.QueryRow("SELECT COALESCE(group_concat(app_id || ' ' || name || ' ' || datetime(bucket / 1000, 'unixepoch') || ' ' || n), '') FROM (SELECT app_id, name, bucket, SUM(count) n FROM series_hours GROUP BY 1, 2, 3)").Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	const want = "shop open 2026-01-30 23:00:00 " // midnight in Berlin
	await(t, "both servers are counted", func() bool { return series() == want+"10" })
	await(t, "the key without a date is dead", func() bool { return s.metric(t, "sluice_dead_letters_total") == 1 })
	if out := mustRun(t, dir, "dead", "list").stdout; !strings.Contains(out, "the key does not fit {app_id}|{date}|{name}") || !strings.Contains(out, "hashes:buffered@") {
		t.Errorf("dead list: %s", out)
	}
	if out := mustRun(t, dir, "dead", "replay", "--all").stdout; out != "1 replayed, 0 failed\n" {
		t.Errorf("dead replay: %s", out)
	}
	await(t, "it is dead again", func() bool { return s.metric(t, "sluice_dead_letters_total") == 2 })
	if out := mustRun(t, dir, "config").stdout; !strings.Contains(out, "hashes:") {
		t.Errorf("config: %s", out)
	}
	if code := s.stop(t); code != exitOK {
		t.Fatalf("serve ended with %d", code)
	}
	if got := series(); got != want+"10" {
		t.Errorf("in the end %s", got)
	}
}

// Two names of one server would take turns at its lease, for ever.
func TestHashesOfOneServerByTwoNames(t *testing.T) {
	t.Parallel()
	one, _ := startOther(t)
	dir := hashesDir(t, one.URL(), strings.Replace(one.URL(), "127.0.0.1", "localhost", 1))
	if r := sluiceRun(t, dir, "serve"); r.code != exitFailed || !strings.Contains(r.stderr, "has the same hashes as a server before it") || !strings.Contains(r.stderr, "begin with sluice:{buffered}:hashes:buffered: first") {
		t.Errorf("serve ended with %d: %s", r.code, r.stderr)
	}
}
