package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/config"
	"sluice/engine"
	"sluice/flow"
	"sluice/test/servers"
	"sluice/test/tables"
)

// served is a program that runs in this process through Main.
type served struct {
	dir     string
	url     string       // of its HTTP server
	client  *http.Client // compares every answer with the API's document
	log     *buffer
	signals chan os.Signal
	done    chan int
}

const serveFile = `
partitions: 4
event_time: {past_days: 0}
public_url: https://mail.example.com
optin: {newsletter: {fields: [first_name], per_address_per_hour: 0, per_ip_per_hour: 0}}
shutdown_seconds: 30
lists:
  q: {dedupe: event_id, app_id: shop}
hooks:
  main: {provider: postmark, secret: a-secret-of-the-documents-examples}
`

var listening = regexp.MustCompile(`listen=(\S+)`)

// startServe starts `sluice serve` on a directory and waits until it is ready.
func startServe(t *testing.T, dir string, environ ...string) *served {
	t.Helper()
	configure(t, dir, serveFile)
	return serveConfigured(t, dir, append([]string{"SLUICE_ROOT_KEY=" + testRoot}, environ...)...)
}

// configure writes the configuration of a directory: its own data, and a text.
func configure(t *testing.T, dir, text string) {
	t.Helper()
	write(t, filepath.Join(dir, config.DefaultFile), "listen: 127.0.0.1:0\ndata: "+filepath.Join(dir, "data")+"\n"+text)
}

// serveConfigured is startServe on a directory with a configuration. At its first start the
// tables are there already.
func serveConfigured(t *testing.T, dir string, environ ...string) *served {
	t.Helper()
	return serveAt(t, nil, dir, environ...)
}

// serveAt is serveConfigured on a machine with a clock of its own.
func serveAt(t *testing.T, clock sluice.Clock, dir string, environ ...string) *served {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err == nil {
		tables.Make(t, filepath.Join(dir, "data", "sluice.db"))
	}
	return serveMain(t, Main{Args: []string{"serve"}, Environ: environ, Dir: dir, Clock: clock})
}

// devAt starts `sluice dev` in a directory.
func devAt(t *testing.T, dir string) *served {
	t.Helper()
	return serveMain(t, Main{Args: []string{"dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "sluice-data")}, Dir: dir})
}

// serveMain runs a program that serves until the test ends.
func serveMain(t *testing.T, m Main) *served {
	t.Helper()
	s := &served{dir: m.Dir, log: &buffer{}, signals: make(chan os.Signal, 2), done: make(chan int, 1)}
	m.Stdout, m.Stderr, m.Signals = s.log, s.log, s.signals
	ended := false
	go func() { s.done <- m.Run(context.Background()) }()
	t.Cleanup(func() { // before its directory is removed
		if !ended {
			s.stop(t)
		}
		if t.Failed() {
			t.Logf("the last warnings of the program:\n%s", s.log.Warnings(20))
		}
	})
	await(t, "the program listens", func() bool {
		select {
		case code := <-s.done:
			ended = true
			t.Fatalf("serve ended with %d:\n%s", code, s.log)
		default:
		}
		found := listening.FindStringSubmatch(s.log.String())
		if found != nil {
			s.url = "http://" + found[1]
		}
		return found != nil
	})
	s.client = documented(t, s.url)
	await(t, "the program is ready", func() bool { status, _ := s.get(t, "/readyz"); return status == http.StatusOK })
	return s
}

func (s *served) get(t *testing.T, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testRoot) // with public_url the metrics want a key
	res, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// metric is sample as a whole number: -1 where the program does not say it now. It
// leaves out what the database has not told it in time.
func (s *served) metric(t *testing.T, name string) int {
	t.Helper()
	return int(s.sample(t, name))
}

// stop ends the program by a signal and returns its exit code.
func (s *served) stop(t *testing.T) int {
	t.Helper()
	s.signals <- syscall.SIGTERM
	select {
	case code := <-s.done:
		s.done <- code
		return code
	case <-time.After(patience):
		t.Fatalf("serve does not end:\n%s", s.log)
		return 0
	}
}

// pushAll pushes elements to the list q of a program with an embedded Redis.
func pushAll(t *testing.T, dir string, elements ...string) {
	t.Helper()
	pushTo(t, dir, "q", elements...)
}

// pushTo is pushAll to another list.
func pushTo(t *testing.T, dir, list string, elements ...string) {
	t.Helper()
	cfg := config.Default()
	cfg.Data = filepath.Join(dir, "data")
	r, err := engine.DialRunning(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Push(t.Context(), list, elements); err != nil {
		t.Fatal(err)
	}
}

// rowsIn counts rows of the table events by a look of its own.
func rowsIn(t *testing.T, file string, where ...string) int {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	n := 0
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM events "+strings.Join(where, "")).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func element(id, name string) string {
	return fmt.Sprintf(`{"event_id":"%s","event":"%s","timestamp":1700000000000,"email":"a@example.com","user_id":"u1"}`, id, name)
}

// From a list to the database and back to the operator: stored once, tailed,
// the broken one listed, shown, replayed, dropped; stopped and started again.
func TestServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, serveFile)
	s := serveMain(t, Main{Args: []string{"serve"}, Environ: []string{"SLUICE_ROOT_KEY=" + testRoot}, Dir: dir}) // with no database yet
	if status, body := s.get(t, "/v1/users/track"); status != 404 || !strings.Contains(body, `"code":"not_found"`) {
		t.Errorf("unknown path: %d %s", status, body)
	}
	pushAll(t, dir, element("e1", "opened"), element("e2", "clicked"), "\x1b[2Jbroken", element("e1", "opened"))
	await(t, "all is stored", func() bool {
		return s.metric(t, "sluice_stored_rows_total") == 2 && s.metric(t, "sluice_dead_letters_total") == 1 &&
			s.metric(t, "sluice_duplicates_total") == 1
	})
	if n := rowsIn(t, filepath.Join(dir, "data", "sluice.db")); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}

	tail := mustRun(t, dir, "tail", "--from", "start", "--name", "clicked", "--limit", "1", "--json").stdout
	var event tailed
	if err := json.Unmarshal([]byte(tail), &event); err != nil || event.Name != "clicked" || event.ID != "e2" || event.App != "shop" {
		t.Errorf("tail: %s %v", tail, err)
	}
	if line := mustRun(t, dir, "tail", "--from=start", "--name=clicked", "--limit=1").stdout; !strings.Contains(line, "  mail  clicked  shop  a@example.com  u1  ") {
		t.Errorf("tail: %s", line)
	}
	checkDead(t, dir, s)

	if code := s.stop(t); code != exitOK || !strings.Contains(s.log.String(), "sluice has stopped") {
		t.Errorf("exit code %d:\n%s", code, s.log)
	}
	again := startServe(t, dir)
	pushAll(t, dir, element("e3", "opened"))
	await(t, "the new event is stored", func() bool { return again.metric(t, "sluice_stored_rows_total") == 1 })
	if n := rowsIn(t, filepath.Join(dir, "data", "sluice.db")); n != 3 {
		t.Errorf("%d rows after a restart, want 3", n)
	}
	if code := again.stop(t); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, again.log)
	}
	if say := "the tables are made"; !strings.Contains(s.log.String(), say) || strings.Contains(again.log.String(), say) {
		t.Errorf("the first start says %q, the second does not:\n%s%s", say, s.log, again.log)
	}
}

// checkDead looks after the one dead letter of TestServe.
func checkDead(t *testing.T, dir string, s *served) {
	t.Helper()
	list := func() []shownDead {
		var all []shownDead
		decoder := json.NewDecoder(strings.NewReader(mustRun(t, dir, "dead", "list", "--json").stdout))
		for {
			var d shownDead
			if err := decoder.Decode(&d); err == io.EOF {
				return all
			} else if err != nil {
				t.Fatal(err)
			}
			all = append(all, d)
		}
	}
	all := list()
	if len(all) != 1 || all[0].Source != "list:q" || all[0].Form != "element" || all[0].Reason == "" {
		t.Fatalf("dead letters: %+v", all)
	}
	id := strconv.FormatInt(all[0].ID, 10)
	if out := mustRun(t, dir, "dead", "show", id).stdout; !strings.Contains(out, `\x1b[2Jbroken`) || strings.Contains(out, "\x1b") {
		t.Errorf("show: %q", out)
	}
	if out := mustRun(t, dir, "dead", "show", id, "--raw").stdout; out != "\x1b[2Jbroken" {
		t.Errorf("show --raw: %q", out)
	}
	if out := mustRun(t, dir, "dead", "replay", "--all", "--source", "list:other").stdout; out != "0 replayed, 0 failed\n" {
		t.Errorf("replay of another source: %s", out)
	}
	if out := mustRun(t, dir, "dead", "replay", id).stdout; out != "1 replayed, 0 failed\n" {
		t.Errorf("replay: %s", out)
	}
	await(t, "it is dead again", func() bool { return s.metric(t, "sluice_dead_letters_total") == 2 })
	all = list()
	if len(all) != 1 || strconv.FormatInt(all[0].ID, 10) == id {
		t.Fatalf("dead letters after the replay: %+v", all)
	}
	if r := sluiceRun(t, dir, "dead", "replay", id); r.code != exitFailed || !strings.Contains(r.stderr, "there is none") {
		t.Errorf("replay of what is gone: %+v", r)
	}
	if out := mustRun(t, dir, "dead", "drop", "--all").stdout; out != "1 dropped, 0 failed\n" || len(list()) != 0 {
		t.Errorf("drop: %s", out)
	}
	if r := sluiceRun(t, dir, "dead", "drop", id); r.code != exitFailed {
		t.Errorf("drop of what is gone: %+v", r)
	}
}

// Dead letters can be replayed while no program runs: the element waits in the
// embedded Redis for the next start.
func TestReplayWithoutAProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir)
	pushAll(t, dir, "broken")
	await(t, "it is dead", func() bool { return s.metric(t, "sluice_dead_letters_total") == 1 })
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	if out := mustRun(t, dir, "dead", "replay", "--all").stdout; out != "1 replayed, 0 failed\n" {
		t.Errorf("replay: %s", out)
	}
	s = startServe(t, dir)
	await(t, "it is dead again", func() bool { return s.metric(t, "sluice_dead_letters_total") == 1 })
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
}

// A Redis that does not belong to the database gets nothing of it: dead letters stay where
// they are, and no mail is looked for.
func TestAnotherRedisIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir)
	pushAll(t, dir, "broken")
	await(t, "it is dead", func() bool { return s.metric(t, "sluice_dead_letters_total") == 1 })
	other, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Kill() })
	redis, err := flow.Dial(t.Context(), other.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	refused := func(args ...string) {
		t.Helper()
		r := sluiceRun(t, dir, args...)
		if r.code != exitFailed || r.stdout != "" || !strings.Contains(r.stderr, "do not belong together") {
			t.Errorf("%v: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	refused("dead", "replay", "--all", "--redis", other.URL())
	refused("sending", "purge", "--class", "marketing", "--redis", other.URL())
	// As in a shell that has only the database: an empty embedded Redis is started.
	refused("dead", "replay", "--all", "--config", os.DevNull, "--database", "sqlite:"+s.database(), "--data", t.TempDir())
	if out := mustRun(t, dir, "dead", "list").stdout; strings.Count(out, "\n") != 1 {
		t.Errorf("the dead letter is gone: %q", out)
	}
	if n, err := flow.Ask(t.Context(), redis, "count keys", redis.B().Dbsize().Build(), rueidis.RedisResult.AsInt64); n != 0 || err != nil {
		t.Errorf("%d keys in the other Redis, %v", n, err)
	}
	if out := mustRun(t, dir, "dead", "replay", "--all").stdout; out != "1 replayed, 0 failed\n" {
		t.Errorf("replay: %s", out)
	}
}

// A program whose embedded Redis is gone ends and says so, with what that has said last.
func TestEmbeddedRedisEnds(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Listen, cfg.Data, cfg.ShutdownSeconds = "127.0.0.1:0", t.TempDir(), 5
	cfg.Database = config.URL("sqlite:" + filepath.Join(cfg.Data, "sluice.db"))
	c := &call{main: &Main{Stderr: io.Discard}, kill: context.Background()}
	var e *engine.Engine
	err := c.serve(t.Context(), cfg, io.Discard, func(ctx context.Context, running *engine.Engine) error {
		e = running
		await(t, "the engine is ready", func() bool { return e.Ready() == nil })
		// Its answer is the end of the connection.
		redis := redisOf(t, cfg.Data)
		_ = redis.Do(ctx, redis.B().Arbitrary("SHUTDOWN", "NOSAVE").Build()).Error()
		<-ctx.Done()
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "embedded redis has ended") || !strings.Contains(err.Error(), "User requested shutdown") {
		t.Errorf("got %v", err)
	}
	if err := e.Ready(); err == nil || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("ready after its end: %v", err)
	}
	if err := e.Stop(context.Background()); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

// Commands beside dev would work with the servers of a file that dev does not read.
func TestDevBesideAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, "lists: {q: {}}\n")
	s := devAt(t, dir)
	if !strings.Contains(s.log.String(), "dev does not read ./sluice.yaml, but other commands in this directory do") {
		t.Errorf("it says\n%s", s.log)
	}
	if _, text := s.get(t, "/metrics"); strings.Contains(text, `list="q"`) {
		t.Error("it has read the file")
	}
}
