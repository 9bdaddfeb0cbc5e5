package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/flow"
	"sluice/ingest/spill"
)

// TestKilledRestore kills a restore at each of its steps. No program starts on
// what it leaves, and the next restore puts everything back.
func TestKilledRestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start("")
	w.startPushing()
	w.passed()
	w.stopPushing()
	w.check()
	file := filepath.Join(w.dir, "b.tar")
	if out, err := w.run("", "backup", file); err != nil {
		t.Fatalf("backup: %v\n%s", err, out)
	}
	if out, err := w.run("", "restore", "--replace", file); err == nil || !strings.Contains(out, "processes of sluice run") {
		t.Fatalf("a restore under a running program: %v\n%s", err, out)
	}
	p.signal(syscall.SIGTERM)
	<-p.exited
	for _, step := range []string{"restore-logs", "restore-rows", "restore-finish"} {
		w.command(step+"=kill,1", "restore", "--replace", file)
		if out, err := w.run("", "serve"); err == nil || !strings.Contains(out, "half restored") {
			t.Fatalf("after a restore that was killed at %s the program starts: %v\n%s", step, err, out)
		}
		if out, err := w.run("", "backup", filepath.Join(w.dir, "b2.tar")); err == nil || !strings.Contains(out, "half restored") {
			t.Fatalf("what is half restored is backed up: %v\n%s", err, out)
		}
	}
	if out, err := w.run("", "restore", "--replace", file); err != nil || !strings.Contains(out, "no gap") {
		t.Fatalf("the last restore: %v\n%s", err, out)
	}
	w.start("")
	w.check()
}

// TestKilledImport kills an import while it appends, and between appends. The
// next one goes on: every line is stored once, though none has an id.
func TestKilledImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("")
	w.awaitListen()
	const lines = 60_000
	var text strings.Builder
	start := time.Now().Add(-24 * time.Hour).UnixMilli()
	for i := range lines {
		fmt.Fprintf(&text, "{\"event\":\"e\",\"user_id\":\"u%d\",\"message_id\":\"%d\",\"ts\":%d}\n", i%97, i, start+int64(i))
	}
	file := filepath.Join(w.dir, "lines")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"import=kill,2", "imported=kill,1"} {
		w.command(step, "import", "events", file)
	}
	out, err := w.run("", "import", "events", file)
	if err != nil || !strings.Contains(out, "60,000 lines: ") || strings.Contains(out, " 0 of an earlier run") {
		t.Fatalf("the last import: %v\n%s", err, out)
	}
	w.eventually("all lines are stored", func() bool { return w.highest("SELECT COUNT(DISTINCT message_ref) FROM events") >= lines })
	if n := w.highest("SELECT COUNT(*) FROM events"); n != lines {
		t.Fatalf("%d rows of %d lines", n, lines)
	}
}

// TestKilledImportOfUsers kills an import of users while it appends, between
// appends, and while it forgets what it has appended: every increment is applied
// once. Imported again after that, it is applied again.
func TestKilledImportOfUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("")
	w.awaitListen()
	const lines, people = 40_000, 97
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, "{\"external_id\":\"u%d\",\"n\":{\"inc\":1},\"filler\":\"%s\"}\n", i%people, strings.Repeat("x", 100))
	}
	file := filepath.Join(w.dir, "people")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"import=kill,2", "imported=kill,1", "import-forget=kill,1", "import-forget=kill,2"} {
		w.command(step, "import", "users", file)
	}
	out, err := w.run("", "import", "users", file)
	if err != nil || !strings.Contains(out, "40,000 lines: 0 users, 40,000 of an earlier run, 0 rejected") {
		t.Fatalf("the last import: %v\n%s", err, out)
	}
	const sum = "SELECT COALESCE(SUM(JSON_EXTRACT(profile, '$.custom.n')), 0) FROM users"
	w.eventually("all lines are applied", func() bool { return w.highest(sum) >= lines })
	if out, err = w.run("", "import", "users", file); err != nil || !strings.Contains(out, "40,000 lines: 40,000 users, 0 of an earlier run") {
		t.Fatalf("once more: %v\n%s", err, out)
	}
	w.eventually("all lines are applied again", func() bool { return w.highest(sum) >= 2*lines })
	if n, users := w.highest(sum), w.highest("SELECT COUNT(*) FROM users"); n != 2*lines || users != people {
		t.Fatalf("%d of %d increments, %d users", n, 2*lines, users)
	}
}

// TestRestoreOfWhatWasHeld backs up a deployment whose lists are held and whose
// logs are full, since nothing stores. Redis is emptied. The held elements and
// those in the logs come back, each once.
func TestRestoreOfWhatWasHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.writeConfig(inputLists)
	w.roles, w.flood = "intake", true
	p := w.start("")
	w.startPushing()
	option, err := rueidis.ParseURL(w.redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	waiting := func(list string) []string {
		t.Helper()
		all, err := client.Do(t.Context(), client.B().Lrange().Key(list).Start(0).Stop(-1).Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	held := func() bool {
		keys, err := client.Do(t.Context(), client.B().Keys().Pattern("sluice:{q_events}:list:q_events:held:*").Build()).AsStrSlice()
		return err == nil && len(keys) > 0
	}
	w.eventually("the logs are full and a list is held", func() bool {
		n, err := client.Do(t.Context(), client.B().Llen().Key("q_events").Build()).AsInt64()
		return err == nil && n > 2000 && held()
	})
	w.stopPushing()
	p.kill()
	if !held() {
		t.Fatal("nothing is held: this test shows nothing")
	}
	file := filepath.Join(w.dir, "b.tar")
	if out, err := w.run("", "backup", file); err != nil {
		t.Fatalf("backup: %v\n%s", err, out)
	}
	theirs := map[string][]string{"q_events": waiting("q_events"), "q_table": waiting("q_table")}
	if err := client.Do(t.Context(), client.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	out, err := w.run("", "restore", "--replace", file)
	if err != nil || !strings.Contains(out, "no gap") || strings.Contains(out, " 0 elements held") {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	for list, elements := range theirs { // not Sluice's yet: their owner has them
		if len(elements) == 0 {
			continue
		}
		if err := client.Do(t.Context(), client.B().Rpush().Key(list).Element(elements...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Do(t.Context(), client.B().Set().Key("pushed").Value(fmt.Sprint(w.pushed)).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	w.roles = "intake,store"
	w.start("")
	w.checkElements()
}

// TestKilledSpillReplay kills the replay of a spill file before, between and
// behind its appends, and before the file is removed. Then it lets two do it at
// once: every event is stored once.
func TestKilledSpillReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("")
	w.awaitListen()
	const events = 40_000
	dir := filepath.Join(w.dir, "away")
	write := func() string {
		redis, err := flow.Dial(t.Context(), w.redis.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer redis.Close()
		id, err := redis.Deployment(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := spill.Open(dir, strconv.FormatUint(id, 10), sluice.SystemClock{})
		var all sync.WaitGroup
		for who := range 50 {
			all.Go(func() {
				for n := range events / 50 {
					e := sluice.Event{Kind: sluice.KindMail, TimeMillis: 1790000000000 + int64(n), Name: sluice.EventOpened, User: fmt.Sprint(n % 97), Message: fmt.Sprintf("%d-%d", who, n)}
					if err := s.Write(e); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
		files, err := spill.List(dir)
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		return files[0].Path
	}
	file := write()
	for _, step := range []string{"import=kill,1", "imported=kill,1", "import=kill,2", "replayed=kill,1"} {
		w.command(step, "spill", "replay", file)
	}
	// A copy, and the file itself in the data directory of the program.
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copied, own := filepath.Join(w.dir, "copy"+spill.Suffix), filepath.Join(w.dir, "data", "spill", "own"+spill.Suffix)
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{copied, own} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.start("") // finds its own one
	for _, path := range []string{file, copied} {
		// Two at once may get in each other's way: it says so, and goes on from there.
		for until := time.Now().Add(settleWithin); ; {
			out, err := w.run("", "spill", "replay", path)
			if err == nil {
				break
			}
			if !strings.Contains(out, "another import of the same file is running") || time.Now().After(until) {
				t.Fatalf("replay of %s: %v\n%s", path, err, out)
			}
		}
	}
	w.eventually("the program has replayed its own one", func() bool { _, err := os.Stat(own); return err != nil })
	w.eventually("all events are stored", func() bool { return w.highest("SELECT COUNT(DISTINCT message_ref) FROM events") >= events })
	if n := w.highest("SELECT COUNT(*) FROM events"); n != events {
		t.Fatalf("%d rows of %d events", n, events)
	}
}
