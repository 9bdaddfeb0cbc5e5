package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/store"
)

// importLines are lines without ids, whose seconds differ.
// importsBegin is the time of the first line, the same in all files: the hour may end meanwhile.
var importsBegin = time.Now().Truncate(time.Hour).Add(-24 * time.Hour)

func importLines(from, count int) string {
	var b strings.Builder
	for i := from; i < from+count; i++ {
		fmt.Fprintf(&b, "{\"action\":\"opened\",\"when\":\"%s\",\"user_id\":\"u%d\",\"n\":%d}\n", importsBegin.Add(time.Duration(i)*time.Second).UTC().Format(time.RFC3339), i%100, i)
	}
	return b.String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// stillUnstored is what an import says that has stopped waiting for the store.
const stillUnstored = "in Redis, safely"

// importSeen runs `sluice import` until it has seen all stored. On a busy machine the store
// may stand for 10 s, and no import waits longer. The next run finds what this one put in.
func importSeen(t *testing.T, dir string, args ...string) (r result) {
	t.Helper()
	await(t, "an import sees all stored", func() bool {
		began := time.Now()
		r = sluiceRun(t, dir, append([]string{"import"}, args...)...)
		return !gaveUp(t, r, began)
	})
	return r
}

// gaveUp reports whether an import has stopped waiting, which it may when the store stood.
func gaveUp(t *testing.T, r result, began time.Time) bool {
	t.Helper()
	gave, took := strings.Contains(r.stdout, stillUnstored), time.Since(began)
	if gave && took < storedStands {
		t.Fatalf("it did not wait for the store: it ended after %s", took)
	}
	return gave
}

// A file goes in once however often and however it is imported; what it has
// grown by goes in; what is no event is reported.
func TestImportEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writePlain(t, dir)
	file := filepath.Join(dir, "old.ndjson")
	write(t, file, importLines(0, 5000)+"broken\n{\"action\":\"opened\",\"user_id\":\"u1\"}\n")
	s := serveConfigured(t, dir)
	db := filepath.Join(dir, "data", "sluice.db")
	columns := []string{"events", "--columns", "action=event,when=time", "--app-id", "shop"}
	run := func(code int, text string, args ...string) {
		t.Helper()
		r := importSeen(t, dir, append(columns, args...)...)
		if r.code != code || !strings.Contains(r.stdout, text) {
			t.Fatalf("%v: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	rows := func(want int) {
		t.Helper()
		pushAll(t, dir, anonymous(0, 1)...) // when it is stored, what was before it is
		at := s.metric(t, "sluice_stored_rows_total")
		await(t, fmt.Sprintf("%d rows are there", want+1), func() bool { return rowsIn(t, db) >= want+1 || s.metric(t, "sluice_stored_rows_total") > at+10_000 })
		if n := rowsIn(t, db); n != want+1 {
			t.Fatalf("%d rows, want %d", n, want+1)
		}
	}
	run(exitFailed, "5,002 lines: 5,000 events, 0 of an earlier run, 2 rejected", file)
	rows(5000)
	report, err := os.ReadFile(file + ".rejected")
	if err != nil || !strings.Contains(string(report), `{"line":5001,"reason":"not JSON`) || !strings.Contains(string(report), `{"line":5002,"reason":"time is missing`) {
		t.Errorf("report: %s %v", report, err)
	}
	run(exitFailed, "all are stored: 0 are new, 5,000 were there already", file)
	write(t, file, importLines(0, 6000))
	run(exitOK, "6,000 lines: 6,000 events, 0 of an earlier run, 0 rejected", file)
	run(exitOK, "all are stored: 0 are new, 6,000 were there already", file)
	rows(6001)

	var stdout, stderr buffer
	m := Main{Args: []string{"import", "events", "-", "--columns=action=event,when=time", "--app-id=shop"}, Dir: dir, Stdin: strings.NewReader(importLines(0, 6000)), Stdout: &stdout, Stderr: &stderr}
	if code := m.Run(context.Background()); code != exitOK || !strings.Contains(stdout.String(), "6,000 events") {
		t.Errorf("from a pipe: %d %s%s", code, stdout.String(), stderr.String())
	}
	rows(6002)
	run(exitOK, "6,000 events", "--app-id", "another", file) // the app is part of what an event is
	rows(12_003)
	undo := func(text string, args ...string) {
		t.Helper()
		r := sluiceRun(t, dir, append([]string{"import", "undo"}, args...)...)
		if r.code != exitOK || !strings.Contains(r.stdout, text) {
			t.Fatalf("undo %v: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	counted := func() string { // with one of each call of rows
		const apps = " WHERE app_id IN ('shop', 'another')"
		return s.texts(t, "SELECT TOTAL(count) FROM series_hours"+apps)[0] + " " + s.texts(t, "SELECT TOTAL(count) FROM series_days"+apps)[0]
	}
	if got := counted(); got != "12004 12004" {
		t.Errorf("counted %s", got)
	}
	undo("12,000 events were put in by it; --yes removes them", file)
	undo("12,000 events removed", "--yes", file+".imported")
	rows(4) // those of pushAll stay
	if got := counted(); got != "5 5" {
		t.Errorf("counted after the undo: %s", got)
	}
	if r := sluiceRun(t, dir, "import", "undo", file); r.code != exitFailed || !strings.Contains(r.stderr, "there is no record") {
		t.Errorf("undone twice: %+v", r)
	}
	if _, err := os.Stat(file + ".imported.undone"); err != nil {
		t.Errorf("the record of what was undone: %v", err)
	}
	began := time.Now()
	r := mustRun(t, dir, append([]string{"import"}, append(columns, file)...)...) // a second run would find none of it new
	if !gaveUp(t, r, began) && !strings.Contains(r.stdout, "all are stored: 6,000 are new, 0 were there already") {
		t.Errorf("after the undo: %s%s", r.stdout, r.stderr)
	}
	rows(6005) // with those of pushAll
	out := mustRun(t, dir, "export", "events", "--app-id", "shop").stdout
	if !strings.Contains(out, `"kind":"mail","name":"opened","time":"`) || !strings.Contains(out, `"app_id":"shop","user_id":"u99","properties":{"n":99}}`) {
		t.Errorf("stored: %.500s", out)
	}
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	if r := sluiceRun(t, dir, "import", "events", file); r.code != exitFailed || !strings.Contains(r.stderr, "start") {
		t.Errorf("without a program: %+v", r)
	}
}

// An undo beside another deployment says so, removes nothing and leaves the record as it
// is: the undo where the import went still finds its rows. What an undo has used is kept.
func TestUndoElsewhereKeepsTheRecord(t *testing.T) {
	t.Parallel()
	production, staging := t.TempDir(), t.TempDir()
	file := filepath.Join(production, "old.ndjson")
	write(t, file, importLines(0, 2000))
	imported := func(dir, at string) {
		t.Helper()
		mustRun(t, dir, "import", "events", "--columns", "action=event,when=time", at)
		await(t, "it is stored", func() bool { return sluiceRun(t, dir, "import", "undo", at).code == exitOK })
	}
	for _, dir := range []string{production, staging} { // the other's logs are further on
		writePlain(t, dir)
		serveConfigured(t, dir)
		at := filepath.Join(dir, "old.ndjson")
		write(t, at, importLines(0, 2000))
		imported(dir, at)
	}
	record, err := os.ReadFile(file + recordSuffix)
	if err != nil {
		t.Fatal(err)
	}
	undo := func(dir, stdout, stderr string, args ...string) {
		t.Helper()
		r := mustRun(t, dir, append([]string{"import", "undo", file}, args...)...)
		if !strings.Contains(r.stdout, stdout) || !strings.Contains(r.stderr, stderr) || stderr == "" && strings.Contains(r.stderr, "deployment") {
			t.Errorf("undo in %s:\n%s%swant %s and %q", dir, r.stdout, r.stderr, stdout, stderr)
		}
	}
	undo(staging, "0 events were put in by it", "is of imports into deployment ")
	undo(staging, "0 events removed: none of it is there. The record "+file+recordSuffix+" stays", "are --redis and --database right?", "--yes")
	if now, err := os.ReadFile(file + recordSuffix); err != nil || string(now) != string(record) {
		t.Fatalf("the record is\n%s%v\nit was\n%s", now, err, record)
	}
	for _, aside := range []string{file + recordSuffix + undoneSuffix, file + recordSuffix + undoneSuffix + "-2"} {
		undo(production, "2,000 events were put in by it", "")
		undo(production, "the record is "+aside+" now\n", "", "--yes")
		undone, err := os.ReadFile(aside)
		if err != nil || !strings.Contains(string(undone), `"deployment":"`) {
			t.Errorf("the record of what was undone: %s %v", undone, err)
		}
		imported(production, file) // with a record of its own
	}
	// The same file was imported into both, by mistake: production can still undo its own.
	mustRun(t, staging, "import", "undo", filepath.Join(staging, "old.ndjson"), "--yes")
	imported(staging, file)
	undo(staging, "stays: it is of imports into other deployments as well", "is of imports into deployment ", "--yes")
	if _, err := os.Stat(file + recordSuffix); err != nil {
		t.Error(err)
	}
	// A record of before this version says nothing of its deployment.
	write(t, file+recordSuffix, strings.Join(regexp.MustCompile(`"deployment":"[0-9a-f]+",`).Split(string(record), -1), ""))
	undo(staging, "0 events were put in by it", "")
}

// What is exported goes in elsewhere as it was: import(export(x)) is x.
func TestImportOfExport(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	storedBy(t, from, append([]string{recent("e1", "hard_bounce", 1), recent("e2", "bought", 2), `{"event":"näme \"x\"","ts":` + fmt.Sprint(time.Now().UnixMilli()) + `,"event_id":"a,b","deep":{"a":[1,2.50]}}`}, recent("e4", "=1+1", 4))...)
	writePlain(t, to)
	s := serveConfigured(t, to)
	for _, format := range []string{"ndjson", "csv"} {
		file := filepath.Join(from, "out."+format+".gz")
		mustRun(t, from, "export", "events", "--format", format, "--gzip", "--output", file)
		mustRun(t, to, "import", "events", "--exported", file)
	}
	await(t, "all is stored", func() bool { return s.metric(t, "sluice_duplicates_total") == 4 })
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	was, is := mustRun(t, from, "export", "events").stdout, mustRun(t, to, "export", "events").stdout
	if was != is || strings.Count(is, "\n") != 4 {
		t.Errorf("exported\n%simported and exported again\n%s", was, is)
	}
}

// Users go in once, what is wrong is reported, and what is exported goes in
// elsewhere as it was.
func TestImportUsers(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "{\"external_id\":\"u%d\",\"email\":\"U%d@example.com\",\"n\":{\"inc\":1},\"deep\":{\"a\":[%d]}}\n", i%1500, i%1500, i)
	}
	b.WriteString(`{"user_alias":{"alias_name":"a","alias_label":"l"},"subscription_groups":[{"subscription_group_id":"g","subscription_state":"subscribed"}]}` + "\n")
	file := filepath.Join(from, "people.ndjson")
	write(t, file, b.String()+"{\"email\":\"nobody\"}\n{\"external_id\":\"u1\",\"dob\":\"soon\"}\n")
	exports := make(map[string]string)
	load := func(dir string, code int, files ...string) {
		writePlain(t, dir)
		s := serveConfigured(t, dir)
		for _, f := range files {
			r := sluiceRun(t, dir, "import", "users", f)
			if r.code != code || code == exitFailed && !strings.Contains(r.stdout, "3,003 lines: 3,001 users, 0 of an earlier run, 2 rejected") {
				t.Fatalf("import %s: exit code %d\n%s%s", f, r.code, r.stdout, r.stderr)
			}
		}
		await(t, "all users are there", func() bool {
			return s.texts(t, "SELECT COUNT(*) || ' ' || TOTAL(json_extract(profile, '$.custom.n')) FROM users")[0] == "1501 3000.0"
		})
		if code := s.stop(t); code != exitOK {
			t.Fatalf("exit code %d:\n%s", code, s.log)
		}
		lines := strings.Split(strings.TrimSpace(mustRun(t, dir, "export", "users").stdout), "\n")
		slices.Sort(lines)
		exports[dir] = strings.Join(lines, "\n")
	}
	load(from, exitFailed, file)
	report, err := os.ReadFile(file + ".rejected")
	if err != nil || strings.Count(string(report), "\n") != 2 || !strings.Contains(string(report), `{"line":3003,"reason":"The value provided for the 'dob' field`) {
		t.Errorf("report: %s %v", report, err)
	}
	if got := exports[from]; !strings.Contains(got, `{"external_id":"u7","email":"u7@example.com","deep":{"a":[1507]},"n":2}`) || !strings.Contains(got, `{"user_alias":{"alias_name":"a","alias_label":"l"},"subscription_groups":[{"subscription_group_id":"g","subscription_state":"subscribed"}]}`) {
		t.Errorf("exported: %.1000s", got)
	}
	packed := filepath.Join(from, "out.gz")
	mustRun(t, from, "export", "users", "--gzip", "--output", packed)
	load(to, exitOK, packed)
	if exports[from] != exports[to] {
		t.Errorf("exported\n%.500s\nimported and exported again\n%.500s", exports[from], exports[to])
	}
	if csv := mustRun(t, to, "export", "users", "--format", "csv").stdout; !strings.HasPrefix(csv, "external_id,user_alias,email,subscription_groups,deep,n\n") || strings.Count(csv, "\n") != 1502 {
		t.Errorf("as CSV: %.300s", csv)
	}
}

// A record that was cut off in a line, its first one or a later one, goes on behind the
// last whole line: the import can be undone.
func TestRecordGoesOnBehindACutLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "old.ndjson"+recordSuffix)
	batch := func(n uint64) store.ImportedBatch {
		return store.ImportedBatch{Partition: 1, Position: sluice.Position{Major: n}, Items: 3, FromMillis: 1, ToMillis: 2}
	}
	goOn := func(batches ...store.ImportedBatch) {
		t.Helper()
		r, err := openRecord(name, recordSource{"events:import:a", "d1"})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			if err := r.add(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cut := func(bytes int64) {
		t.Helper()
		info, err := os.Stat(name)
		if err == nil {
			err = os.Truncate(name, info.Size()-bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	goOn()
	cut(5) // of its first line
	goOn(batch(1), batch(2))
	cut(5)
	goOn(batch(2), batch(3))
	cut(1) // only the end of the line is missing
	goOn(batch(3), batch(4))
	sources, batches, err := readRecord(name)
	if want := []store.ImportedBatch{batch(1), batch(2), batch(3), batch(4)}; err != nil || !slices.Equal(batches, want) || !sources[recordSource{"events:import:a", "d1"}] || len(sources) != 1 {
		t.Errorf("read %v of %v, %v; want %v", batches, sources, err, want)
	}
}
