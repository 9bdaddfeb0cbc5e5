package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// What is missing is listed with where it is and how much, as text and as JSON;
// names that are none are refused; what is accepted goes on without a restart, and
// nothing else does.
func TestGaps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, "partitions: 1\nlists:\n  q: {table: mine, columns: {n: n}}\n")
	mustRun(t, dir, "migrate")
	s := &served{dir: dir}
	db, err := sql.Open("sqlite", "file:"+s.database()+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	change := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	change("CREATE TABLE mine (n INTEGER)")
	s = serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	if r := mustRun(t, dir, "gaps", "list"); r.stdout != "" || !strings.Contains(r.stderr, "nothing is missing anywhere") {
		t.Errorf("before anything is missing: %q, %q", r.stdout, r.stderr)
	}
	if r := sluiceRun(t, dir, "gaps", "accept", "--all"); r.code != exitFailed || !strings.Contains(r.stderr, "nothing is missing anywhere") {
		t.Errorf("accept nothing: %d %s", r.code, r.stderr)
	}
	rows := func(want int) {
		t.Helper()
		await(t, fmt.Sprintf("%d rows are there", want), func() bool { return len(s.texts(t, "SELECT n FROM mine")) == want })
	}
	opened := func(want int) {
		t.Helper()
		await(t, fmt.Sprintf("%d events are there", want), func() bool { return len(s.texts(t, "SELECT name FROM events WHERE name = 'opened'")) == want })
	}
	position := func() (at string) {
		t.Helper()
		return s.texts(t, "SELECT pos_major || '-' || pos_minor FROM cursors WHERE follower = 'store' AND part = 0")[0]
	}
	pushAll(t, dir, `{"n":1}`)
	rows(1)
	s.accepted(t, 1, `{"event":"opened","email":"a@example.com"}`)
	opened(1)
	before := position()
	s.accepted(t, 1, `{"event":"opened","email":"b@example.com"}`)
	opened(2)

	// The database goes back, and what follows is not in Redis any more.
	redis := s.redis(t)
	do := func(words ...string) string {
		t.Helper()
		answer, err := redis.Do(t.Context(), redis.B().Arbitrary(words...).Build()).ToAny()
		if err != nil {
			t.Fatalf("%s: %v", words, err)
		}
		return fmt.Sprint(answer)
	}
	log := strings.Trim(do("KEYS", "sluice:{p0.*}:log"), "[]")
	removed := strings.TrimSuffix(log, "log") + "removed"
	do("HSET", strings.TrimSuffix(log, "log")+"sources", "@removed", "5")
	do("DEL", removed)
	do("RPUSH", removed, before+" 2")
	do("XTRIM", log, "MAXLEN", "0")
	do("DEL", "sluice:{q}:list:q:held:1")
	major, minor, _ := strings.Cut(before, "-")
	change("UPDATE cursors SET pos_major = ?, pos_minor = ? WHERE follower = 'store'", major, minor)
	change("UPDATE cursors SET pos_major = 0, pos_minor = 0 WHERE follower = 'list:q'")
	s.accepted(t, 1, `{"event":"opened","email":"c@example.com"}`)
	pushAll(t, dir, `{"n":2}`)

	type gap struct {
		In, From, To string
		Since        int64
		Entries      int
		Known, About bool
	}
	list := func() (all []gap) {
		t.Helper()
		for line := range strings.Lines(mustRun(t, dir, "gaps", "list", "--json").stdout) {
			var g gap
			if err := json.Unmarshal([]byte(line), &g); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, g)
		}
		return all
	}
	await(t, "both are listed", func() bool { return len(list()) == 2 })
	found := list()
	if g := found[0]; g.In != "list q" || g.From != "1-0" || g.To != "2-0" || g.Since == 0 || g.Known {
		t.Errorf("of the list: %+v", g)
	}
	if g := found[1]; g.In != "log of partition 0" || g.From != before || g.To <= g.From || g.Since == 0 || g.Entries != 3 || !g.Known || g.About {
		t.Errorf("of the log: %+v", g)
	}
	lines := strings.Split(mustRun(t, dir, "gaps", "list").stdout, "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "list q  from 1-0 to 2-0  stands still since 20") ||
		!strings.HasPrefix(lines[1], "log of partition 0  from "+before+" to ") || !strings.Contains(lines[1], " of time, 3 entries at most  stands still since 20") {
		t.Errorf("listed:\n%s", strings.Join(lines, "\n"))
	}
	for _, args := range [][]string{{"accept"}, {"accept", "--all", "list q"}, {"list", "--all"}, {"list", "list q"}, {"forget"}} {
		if r := sluiceRun(t, dir, append([]string{"gaps"}, args...)...); r.code != exitUsage {
			t.Errorf("gaps %q: %d %s", args, r.code, r.stderr)
		}
	}
	if r := sluiceRun(t, dir, "gaps", "accept", "list q", "log of partition 7"); r.code != exitFailed || !strings.Contains(r.stderr, `"log of partition 7": nobody stands still there`) {
		t.Errorf("accept one that is none: %d %s", r.code, r.stderr)
	}

	if r := mustRun(t, dir, "gaps", "accept", "list q"); !strings.HasPrefix(r.stdout, "accepted: list q  from 1-0 to 2-0") || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("accepted: %s", r.stdout)
	}
	rows(2)
	await(t, "the other is still listed", func() bool { all := list(); return len(all) == 1 && all[0].In == "log of partition 0" })
	if r := mustRun(t, dir, "gaps", "accept", "--all"); !strings.HasPrefix(r.stdout, "accepted: log of partition 0") || !strings.Contains(r.stdout, "3 entries at most") {
		t.Errorf("accepted: %s", r.stdout)
	}
	opened(3)
	await(t, "nothing is listed", func() bool { return len(list()) == 0 })
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
}
