package main

import (
	"compress/gzip"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// recent is an element of a short while ago, n milliseconds after others.
func recent(id, name string, n int) string {
	when := time.Now().Truncate(time.Hour).Add(-time.Hour).UnixMilli() + int64(n)
	return fmt.Sprintf(`{"event_id":"%s","event":"%s","timestamp":%d,"email":"a@example.com","user_id":"u%d","price":%d.50}`, id, name, when, n%5, n)
}

// storedBy serves a directory, has elements stored, and stops.
func storedBy(t *testing.T, dir string, elements ...string) {
	t.Helper()
	s := startServe(t, dir)
	pushAll(t, dir, elements...)
	await(t, "all is stored", func() bool { return s.metric(t, "sluice_stored_rows_total") == len(elements) })
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
}

func TestExportEvents(t *testing.T) {
	dir := t.TempDir()
	storedBy(t, dir, recent("e2", "clicked", 2), recent("e1", "open", 1), recent("e3", "bought", 3))
	lines := strings.Split(strings.TrimSpace(mustRun(t, dir, "export", "events").stdout), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], `{"event_id":"e1","kind":"mail","name":"opened","time":"`) ||
		!strings.HasSuffix(lines[2], `"app_id":"shop","email":"a@example.com","user_id":"u3","properties":{"price":3.50}}`) {
		t.Errorf("exported\n%s", strings.Join(lines, "\n"))
	}
	if out := mustRun(t, dir, "export", "events", "--kind", "mail", "--name", "clicked", "--from", "2020-01-01").stdout; out != lines[1]+"\n" {
		t.Errorf("filtered: %s", out)
	}
	if out := mustRun(t, dir, "export", "events", "--to", "2020-01-01", "--format", "csv").stdout; out != "event_id,kind,name,time,app_id,email,user_id,message_id,properties\n" {
		t.Errorf("none, as CSV: %s", out)
	}
	for _, by := range []string{"hour", "day"} {
		if out := mustRun(t, dir, "export", "series", "--by", by, "--format", "csv").stdout; !strings.HasPrefix(out, "app_id,name,kind,time,count\n") {
			t.Errorf("series by %s: %s", by, out)
		}
	}
	file := filepath.Join(dir, "out.gz")
	if r := mustRun(t, dir, "export", "events", "--gzip", "--output", file); r.stderr != "3 events\n" || r.stdout != "" {
		t.Errorf("to a file: %+v", r)
	}
	if text := gunzip(t, file); !slices.Equal(strings.Split(strings.TrimSpace(text), "\n"), lines) {
		t.Errorf("in the file:\n%s", text)
	}
	if r := sluiceRun(t, dir, "export", "events", "--output", file); r.code != exitFailed || !strings.Contains(r.stderr, "not there yet") {
		t.Errorf("over a file: %+v", r)
	}
}

func gunzip(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ids returns the ids of the stored events.
func ids(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(mustRun(t, dir, "export", "events").stdout) {
		_, rest, _ := strings.Cut(line, `"event_id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		all = append(all, id)
	}
	slices.Sort(all)
	if len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("events are stored twice: %v", all)
	}
	return all
}

// anonymous are elements without an id of their own: a second copy is seen.
func anonymous(from, count int) []string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf(`{"event":"opened","user_id":"u%d","message_id":"m%d","ts":%d}`, i%7, from+i, time.Now().UnixMilli()))
	}
	return all
}

const plainFile = "partitions: 4\nlists:\n  q: {app_id: shop}\n"

func writePlain(t *testing.T, dir string) {
	t.Helper()
	configure(t, dir, plainFile)
}

// A backup beside a running program, put back into nothing: what was pushed
// before it began is there, what was pushed while it ran is there once or not
// at all, and the restored deployment goes on.
func TestBackupAndRestoreIntoNothing(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	writePlain(t, from)
	writePlain(t, to)
	s := serveConfigured(t, from)
	pushAll(t, from, anonymous(0, 1000)...)
	await(t, "all is stored", func() bool { return s.metric(t, "sluice_stored_rows_total") == 1000 })
	file := filepath.Join(from, "b.tar")
	done := make(chan result, 1)
	go func() { done <- sluiceRun(t, from, "backup", file) }()
	pushed := 1000
	var r result
	for running := true; running; {
		pushAll(t, from, anonymous(pushed, 50)...)
		pushed += 50
		select {
		case r = <-done:
			running = false
		default:
		}
	}
	if r.code != exitOK || !strings.Contains(r.stdout, file+"\n") {
		t.Fatalf("backup: %+v", r)
	}
	if out := sluiceRun(t, from, "restore", file); out.code != exitFailed || !strings.Contains(out.stderr, "sluice") {
		t.Errorf("restore under a running program: %+v", out)
	}
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	for _, args := range [][]string{{"restore", file}, {"restore", "--only", "database", file}} {
		if out := sluiceRun(t, from, args...); out.code != exitFailed || !strings.Contains(out.stderr, "--replace") {
			t.Errorf("%v over what is there: %+v", args, out)
		}
	}
	if out := mustRun(t, to, "restore", "--check", file).stdout; !strings.Contains(out, "the backup is whole") {
		t.Errorf("check: %s", out)
	}
	if out := mustRun(t, to, "restore", file).stdout; !strings.Contains(out, "no gap") {
		t.Errorf("restore: %s", out)
	}
	again := serveConfigured(t, to)
	pushAll(t, to, anonymous(1_000_000, 10)...)
	await(t, "the restored deployment stores", func() bool {
		return strings.Contains(mustRun(t, to, "export", "events").stdout, `"m1000009"`)
	})
	if code := again.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, again.log)
	}
	seen := make(map[string]int)
	for line := range strings.Lines(mustRun(t, to, "export", "events").stdout) {
		_, rest, _ := strings.Cut(line, `"message_id":"m`)
		n, _, _ := strings.Cut(rest, `"`)
		seen[n]++
	}
	for i := range 1000 {
		if seen[fmt.Sprint(i)] != 1 {
			t.Fatalf("event %d was stored before the backup and is there %d times after the restore", i, seen[fmt.Sprint(i)])
		}
	}
	for n, times := range seen {
		if times != 1 {
			t.Errorf("event %s is there %d times", n, times)
		}
	}
}

// Last night's database under today's Redis: the gap is reported, what the logs
// still have is stored again, nothing twice. Then last night's Redis under
// today's database: nothing is stored again.
func TestRestoreOneUnderTheOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writePlain(t, dir)
	s := serveConfigured(t, dir)
	store := func(from, count int) {
		pushAll(t, dir, anonymous(from, count)...)
		await(t, "all is stored", func() bool { return s.metric(t, "sluice_stored_rows_total") == from+count })
	}
	store(0, 100)
	file := filepath.Join(dir, "b.tar")
	mustRun(t, dir, "backup", file)
	last := 100
	for range 16 {
		store(last, 20)
		last += 20
	}
	redis := s.redis(t)
	keys, err := redis.Do(t.Context(), redis.B().Keys().Pattern("sluice:{p*}:log").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys { // as if the minute had passed for which they keep what is stored
		if err := redis.Do(t.Context(), redis.B().Xtrim().Key(key).Maxlen().Threshold("8").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	const gap = `1-0 5-0 {"since":1}` // at which a list stood still that is no more followed
	if err := redis.Do(t.Context(), redis.B().Hset().Key("sluice:{members}:gaps").FieldValue().FieldValue("list gone", gap).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	all := ids(t, dir)

	out := mustRun(t, dir, "restore", "--only", "database", "--replace", file).stdout
	if strings.Count(out, "LOST, partition ") != 4 {
		t.Errorf("four gaps are not reported:\n%s", out)
	}
	s = serveConfigured(t, dir)
	if listed := mustRun(t, dir, "gaps", "list").stdout; listed != "" {
		t.Errorf("gaps of before are listed still: %s", listed)
	}
	await(t, "what the logs have is stored again", func() bool {
		return strings.Contains(mustRun(t, dir, "export", "events").stdout, fmt.Sprintf(`"m%d"`, last-1))
	})
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	left := ids(t, dir)
	if len(left) <= 100 || len(left) >= len(all) {
		t.Errorf("%d of %d events are there", len(left), len(all))
	}
	for _, id := range left {
		if _, ok := slices.BinarySearch(all, id); !ok {
			t.Errorf("event %s is new: something was stored a second time", id)
		}
	}

	if out := mustRun(t, dir, "restore", "--only", "redis", "--replace", file).stdout; !strings.Contains(out, "no gap") {
		t.Errorf("restore of the logs: %s", out)
	}
	s = serveConfigured(t, dir)
	pushAll(t, dir, anonymous(5_000_000, 10)...)
	await(t, "new events are stored", func() bool { return len(ids(t, dir)) >= len(left)+10 })
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	if n := len(ids(t, dir)); n != len(left)+10 {
		t.Errorf("%d events, want %d", n, len(left)+10)
	}
}

const ownTableFile = "partitions: 2\nlists:\n  q: {table: mine, columns: {n: n}}\n"

// A table of the user's own is not restored. Where it is, its list goes on where
// it was; where it comes from elsewhere, only the operator knows as of when.
func TestRestoreLeavesOwnTablesAlone(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, other} {
		configure(t, d, ownTableFile)
		mustRun(t, d, "migrate")
	}
	file := filepath.Join(dir, "data", "sluice.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	count := func() (n int) {
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM mine").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE mine (n INTEGER)"); err != nil {
		t.Fatal(err)
	}
	serve := func(do func()) {
		t.Helper()
		s := serveConfigured(t, dir)
		do()
		if code := s.stop(t); code != exitOK {
			t.Fatalf("exit code %d:\n%s", code, s.log)
		}
	}
	push := func(want int) {
		t.Helper()
		pushAll(t, dir, `{"n":1}`, `{"n":2}`, `{"n":3}`)
		await(t, fmt.Sprintf("%d rows are there", want), func() bool { return count() >= want })
	}
	backup := filepath.Join(dir, "b.tar")
	serve(func() {
		push(3)
		mustRun(t, dir, "backup", backup)
		push(6)
	})
	if out := mustRun(t, dir, "restore", "--replace", backup).stdout; !strings.Contains(out, "go on where they were: q\n") {
		t.Errorf("restore: %s", out)
	}
	serve(func() { push(9) })
	if n := count(); n != 9 {
		t.Errorf("%d rows, want 9", n)
	}
	if r := sluiceRun(t, other, "restore", backup); r.code != exitFailed || !strings.Contains(r.stderr, "the lists q fill tables of your own") {
		t.Errorf("restore elsewhere: %+v", r)
	}
	mustRun(t, other, "restore", "--list-cursors", backup)
}

// Who looks at a backup while the program runs takes no list and no hashes away from it.
func TestRestoreBesideARunningProgram(t *testing.T) {
	t.Parallel()
	server, do := startOther(t)
	const file = "partitions: 2\nlists:\n  q_events: {redis: '%s'}\n"
	dir, look := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, look} {
		configure(t, d, fmt.Sprintf(file, server.URL()))
	}
	s := serveConfigured(t, dir)
	do("RPUSH", "q_events", `{"event":"first"}`)
	s.awaitRows(t, 1, 0)
	backup := filepath.Join(dir, "b.tar")
	mustRun(t, dir, "backup", backup)
	if r := sluiceRun(t, look, "restore", backup); r.code != exitFailed || !strings.Contains(r.stderr, "list q_events is drained by a process of the installation that the backup") || !strings.Contains(r.stderr, "--take-lists") {
		t.Errorf("restore beside it: %+v", r)
	}
	configure(t, look, "partitions: 2\n")
	mustRun(t, look, "restore", backup)
	do("RPUSH", "q_events", `{"event":"second"}`)
	s.awaitRows(t, 2, 0)
	took := t.TempDir()
	configure(t, took, fmt.Sprintf(file, server.URL()))
	mustRun(t, took, "restore", "--take-lists", backup)
	await(t, "it has lost the list", func() bool {
		_, why := s.get(t, "/readyz")
		return strings.Contains(why, "drained by another installation")
	})
}
