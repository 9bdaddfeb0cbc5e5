package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/api"
	"sluice/ops/alert"
)

// doubter is a provider that takes each mail and says so from the second time on.
type doubter struct {
	mu   sync.Mutex
	seen map[string]int // by recipient
}

func (d *doubter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[string(body)]++; d.seen[string(body)] == 1 {
		w.WriteHeader(http.StatusBadGateway)
	}
	_, _ = io.WriteString(w, `{"id":"p-1"}`)
}

func (d *doubter) times(to string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[`{"to":"`+to+`"}`]
}

// serveDoubts starts a program by whose route nobody knows of any first attempt,
// with mail to some recipients.
func serveDoubts(t *testing.T, environ []string, to ...string) (*served, *doubter, map[string]string) {
	t.Helper()
	d := &doubter{seen: make(map[string]int)}
	provider := httptest.NewServer(d)
	t.Cleanup(provider.Close)
	dir := t.TempDir()
	configure(t, dir, "partitions: 2\nsending: 'on'\nroutes:\n  provider: {http: {url: '"+provider.URL+"', body: '{\"to\":\"{{to}}\"}', id: /id}}\n")
	s := serveConfigured(t, dir, append(environ, "SLUICE_ROOT_KEY="+testRoot)...)
	sends := make(map[string]string)
	for _, address := range to {
		_, text := s.ask(t, http.MethodPost, "/v1/messages", `{"from":"shop@example.com","to":"`+address+`","subject":"s","text":"hello","class":"marketing"}`)
		var done struct{ Messages []struct{ ID string } }
		if err := json.Unmarshal([]byte(text), &done); err != nil || len(done.Messages) != 1 {
			t.Fatalf("%s: %v", text, err)
		}
		sends[address] = done.Messages[0].ID + ".0"
	}
	if n := s.metric(t, "sluice_accepted_items_total"); n != len(to) {
		t.Errorf("%d items are counted as taken in, want %d", n, len(to))
	}
	await(t, "all are in doubt", func() bool { return s.metric(t, "sluice_in_doubt_sends") == len(to) })
	return s, d, sends
}

// state is where the only send of a message stands, and its life.
func (s *served) state(t *testing.T, send string) (state, life string) {
	t.Helper()
	_, text := s.ask(t, http.MethodGet, "/v1/messages/"+strings.TrimSuffix(send, ".0"), "")
	var m struct {
		Sends []struct {
			State string
			Life  []json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil || len(m.Sends) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	for _, line := range m.Sends[0].Life {
		life += string(line) + "\n"
	}
	return m.Sends[0].State, life
}

// settled waits until the only send of a message stands in a state, and returns its life.
func (s *served) settled(t *testing.T, send, want string) (life string) {
	t.Helper()
	awaitFound(t, "it is "+want, func() (any, bool) {
		var state string
		state, life = s.state(t, send)
		return state + "\n" + life, state == want
	})
	return life
}

// What is in doubt is listed with its evidence and decided about, by HTTP and by
// the command, and who has decided stays.
func TestDoubts(t *testing.T) {
	t.Parallel()
	s, d, sends := serveDoubts(t, nil, "a@example.com", "b@example.com", "c@example.com")
	list := mustRun(t, s.dir, "doubt", "list").stdout
	for to, send := range sends {
		if !strings.Contains(list, send+"  to "+to+"  from shop@example.com  marketing, normal\n") {
			t.Errorf("%s is not in the list:\n%s", to, list)
		}
	}
	if strings.Count(list, " in_doubt attempt 1 by provider ") != 3 || !strings.Contains(list, " 502 ") {
		t.Errorf("the evidence:\n%s", list)
	}
	var ledger api.Ledger
	if _, text := s.ask(t, http.MethodGet, "/v1/ledger", ""); json.Unmarshal([]byte(text), &ledger) != nil || !ledger.AddsUp || ledger.Undecided != 3 || ledger.Classes[0].InDoubt != 3 {
		t.Errorf("%s", text)
	}
	began := time.Now()
	if status, text := s.ask(t, http.MethodPost, "/v1/ledger/doubts/"+sends["a@example.com"], `{"decision":"sent"}`); status != http.StatusOK || !strings.Contains(text, `"settled":true`) && time.Since(began) < shownWithin {
		t.Errorf("%d %s", status, text)
	}
	if life := s.settled(t, sends["a@example.com"], "sent"); !strings.Contains(life, "sent, decided by key root (root key)") {
		t.Errorf("its life:\n%s", life)
	}
	began = time.Now()
	if out := mustRun(t, s.dir, "doubt", "resolve", sends["b@example.com"], "--as", "again", "--note", "their log is empty").stdout; out != "1 decided about, 0 not seen in the ledger yet, 0 failed\n" && (out != "0 decided about, 1 not seen in the ledger yet, 0 failed\n" || time.Since(began) < shownWithin) {
		t.Errorf("%q", out)
	}
	if life := s.settled(t, sends["b@example.com"], "sent"); !strings.Contains(life, "again, decided by ") || !strings.Contains(life, ": their log is empty") {
		t.Errorf("its life:\n%s", life)
	}
	mustRun(t, s.dir, "doubt", "resolve", "--all", "--as", "give_up")
	s.settled(t, sends["c@example.com"], "failed")
	for to, want := range map[string]int{"a@example.com": 1, "b@example.com": 2, "c@example.com": 1} {
		if n := d.times(to); n != want {
			t.Errorf("the provider got the mail to %s %d times, want %d", to, n, want)
		}
	}
	if r := sluiceRun(t, s.dir, "doubt", "resolve", sends["a@example.com"], "--as", "again"); r.code != exitFailed || !strings.Contains(r.stderr, "is not in doubt, it is sent") {
		t.Errorf("%d %s", r.code, r.stderr)
	}
	if r := mustRun(t, s.dir, "doubt", "list"); r.stdout != "" || !strings.Contains(r.stderr, "nothing is in doubt") {
		t.Errorf("%q %q", r.stdout, r.stderr)
	}
	for _, args := range [][]string{{"doubt"}, {"doubt", "lst"}, {"doubt", "list", sends["a@example.com"]}, {"doubt", "resolve", "--as", "sent"}, {"doubt", "resolve", "x", "--as", "sent"}, {"doubt", "resolve", "--all", "--as", "lost"}} {
		if r := sluiceRun(t, s.dir, args...); r.code != exitUsage {
			t.Errorf("%v: %d %s", args, r.code, r.stderr)
		}
	}
	_, text := s.get(t, "/v1/profile")
	var profile api.Profile
	if err := json.Unmarshal([]byte(text), &profile); err != nil || len(profile.Routes) != 1 || profile.Routes[0].Results["in_doubt"] != 3 || profile.Routes[0].Results["sent"] != 1 {
		t.Errorf("%s %v", text, err)
	}
}

// Somebody is told that there is something to decide about.
func TestDoubtsAreTold(t *testing.T) {
	t.Parallel()
	url, messages := hook(t)
	serveDoubts(t, []string{"SLUICE_ALERTS_WEBHOOK=" + url, "SLUICE_ALERTS_SECRET=0123456789abcdef", "SLUICE_ALERTS_HOLD_SECONDS=0", "SLUICE_ALERTS_DISK_FREE_PERCENT=0"}, "a@example.com", "b@example.com")
	awaitTold(t, messages, func(n alert.Notice) bool {
		return n.Alert == alert.InDoubt && strings.Contains(n.Summary, "mails are in doubt")
	})
}

// The program is watched: one frame without a terminal, and live until Ctrl-C.
func TestTop(t *testing.T) {
	t.Parallel()
	s, _, _ := serveDoubts(t, nil, "a@example.com")
	frame := func(wanted []string, args ...string) string {
		t.Helper()
		return awaitRun(t, s.dir, func(r result) bool {
			lacks := func(want string) bool { return !strings.Contains(r.stdout, want) }
			return r.code == exitOK && !slices.ContainsFunc(wanted, lacks)
		}, append([]string{"top", "--once", "--url", s.url}, args...)...).stdout
	}
	out := frame([]string{"ready\n", "accepted ", "high ", "for a time ", "provider ", "closed ", "ledger: not shown without a key with ledger:read\n", " %"})
	if strings.Contains(out, "\x1b") {
		t.Errorf("the frame is for a terminal:\n%q", out)
	}
	file := filepath.Join(s.dir, "key.txt")
	if err := os.WriteFile(file, []byte(testRoot+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out = frame([]string{"ledger adds up: accepted 1\n", "in doubt 1 (to be decided about: 1)"}, "--key-file", file)
	for line := range strings.Lines(out) {
		if len([]rune(line)) > screenColumns+1 {
			t.Errorf("a line has %d characters: %s", len([]rune(line)), line)
		}
	}
	var live, log buffer
	signals, done := make(chan os.Signal, 2), make(chan int, 1)
	m := Main{Args: []string{"top", "--url", s.url}, Dir: s.dir, Stdout: &live, Stderr: &log, Signals: signals}
	go func() { done <- m.Run(t.Context()) }()
	await(t, "two frames", func() bool { return strings.Count(live.String(), "sluice unversioned") >= 2 })
	signals <- syscall.SIGINT
	if code := <-done; code != exitOK {
		t.Errorf("Ctrl-C ends it with %d: %s", code, log.String())
	}
	for _, args := range [][]string{{"top", "x"}, {"top", "--url", "ftp://x"}, {"top", "--url", "http://mail.example.com", "--key-file", file}} {
		if r := sluiceRun(t, s.dir, args...); r.code != exitUsage {
			t.Errorf("%v: %d %s", args, r.code, r.stderr)
		}
	}
	if r := sluiceRun(t, s.dir, "top", "--once", "--url", "http://127.0.0.1:1"); r.code != exitFailed || !strings.Contains(r.stderr, "does it run") {
		t.Errorf("%d %s", r.code, r.stderr)
	}
}
