package api

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/ingest"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/track/hook"
)

// A call that has its key in the body may be as long as others, whether or not it says so
// before, and gives back what it took.
func TestALongBodyWithItsKey(t *testing.T) {
	s, url, p, _ := startBraze(t, Options{})
	defer stop(t, s)
	_, text := addKey(t, p.keys.(*sqlstore.Store), "users.export.ids")
	body := `{"external_ids":["u"],"api_key":"` + text + `","more":"`
	body += strings.Repeat("x", maxEventsBytes-len(body)-2) + `"}`
	for name, of := range map[string]io.Reader{"its length": strings.NewReader(body), "chunks": io.MultiReader(strings.NewReader(body))} {
		res, err := http.Post(url+"/users/export/ids", "application/json", of)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(res.Body)
		if _ = res.Body.Close(); res.StatusCode != http.StatusCreated {
			t.Errorf("with %s: %d %.300s", name, res.StatusCode, answer)
		}
	}
	if left := s.dialect.strangers.Left(); left != maxStrangersBytes {
		t.Errorf("%d bytes of strangers' bodies are left of %d", left, maxStrangersBytes)
	}
}

// Strangers who post to one source take half of the memory of all sources, and only while
// they go on sending.
func TestStrangersAtAHook(t *testing.T) {
	mailgun, err := hook.Find("mailgun")
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{"a secret of a test"}
	receiver := hook.NewReceiver([]hook.Source{{Name: "a", Provider: mailgun, Secrets: secrets}, {Name: "b", Provider: mailgun, Secrets: secrets}}, hook.Options{})
	s := New("127.0.0.1:0", &program{intake: &ingest.Intake{}}, slog.New(slog.DiscardHandler), Options{Hooks: receiver})
	s.strangerWithin, s.http.ReadTimeout = 50*time.Millisecond, 10*time.Minute
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	var all []net.Conn
	for range 5 {
		c, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
		fmt.Fprintf(c, "POST /hooks/mailgun/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n%s", strings.Repeat("[", 100_000))
	}
	for _, c := range all { // a request may take longer than this
		if err := c.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(c); !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
			t.Errorf("who sends nothing more: %.100q %v", answer, err)
		}
	}
	if left := s.hooks.budget.Left(); left != maxHeldHookBytes {
		t.Errorf("%d bytes stay taken", maxHeldHookBytes-left)
	}
	if !s.hooks.parts["a"].Take(maxHeldHookBytes/2) || s.hooks.parts["a"].Take(1) {
		t.Error("a source has another part than half of all")
	}
	for name, want := range map[string]int{"a": http.StatusServiceUnavailable, "b": http.StatusUnauthorized} {
		body := `{"signature":{"token":"t","timestamp":"1","signature":"00"},"event-data":{}}`
		res, err := http.Post("http://"+s.Address()+"/hooks/mailgun/"+name, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != want {
			t.Errorf("where strangers have all of a: %s answers %d, want %d", name, res.StatusCode, want)
		}
	}
}

// Bodies of strangers from one network that stall take a part of the memory for such bodies,
// at hooks and at calls of Braze's with their key in the body. What others send is taken.
func TestANetworkOfStrangersLeavesMemoryToOthers(t *testing.T) {
	sendgrid, err := hook.Find("sendgrid")
	if err != nil {
		t.Fatal(err)
	}
	db := openKeys(t)
	receiver := hook.NewReceiver([]hook.Source{{Name: "a", Provider: sendgrid, Secrets: []string{"a secret of a test"}}}, hook.Options{})
	s := New("127.0.0.1:0", &program{intake: intakeOf(t), keys: db, users: db}, slog.New(slog.DiscardHandler), Options{Hooks: receiver, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	s.strangerWithin, s.http.ReadTimeout = 10*time.Minute, 10*time.Minute
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	_, key := addKey(t, db, "users.export.ids")
	const hooks, calls, signature = "/hooks/sendgrid/a", "/users/export/ids", "X-Twilio-Email-Event-Webhook-Signature"
	post := func(from, path string, want int) {
		t.Helper()
		got := callBraze(t, "http://"+s.Address()+path, http.MethodPost, "", `{"external_ids":["u"],"api_key":"`+key+`"}`, "X-Forwarded-For", from, signature, "x")
		if got.status != want {
			t.Errorf("%s from %s: %d %s, want %d", path, from, got.status, got.body, want)
		}
	}
	left := func(inHooks, inCalls int64) {
		t.Helper()
		for began := time.Now(); s.hooks.budget.Left() != inHooks || s.dialect.strangers.Left() != inCalls; clocktest.Rest(began) {
			if time.Since(began) > 3*time.Minute {
				t.Fatalf("%d and %d bytes are left, want %d and %d", s.hooks.budget.Left(), s.dialect.strangers.Left(), inHooks, inCalls)
			}
		}
	}
	half := strings.Repeat(" ", maxEventsBytes/2+1) // for which a body has all of its memory
	var all []net.Conn
	for i, path := range []string{hooks, calls} {
		c, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 2001:db8:0:%d::1\r\n%s: x\r\nContent-Length: %d\r\n\r\n%s", path, i, signature, maxEventsBytes, half)
	}
	left(maxHeldHookBytes-maxEventsBytes, maxStrangersBytes-maxEventsBytes)
	for path, want := range map[string]int{hooks: http.StatusUnauthorized, calls: http.StatusCreated} {
		post("2001:db8:0:2::1", path, http.StatusServiceUnavailable)
		post("192.0.2.1", path, want)
	}
	for _, c := range all {
		_ = c.Close()
	}
	left(maxHeldHookBytes, maxStrangersBytes)
	if held := maxHeldOfHook - s.hooks.parts["a"].Left(); held != 0 {
		t.Errorf("%d bytes of a source stay taken", held)
	}
	post("2001:db8:0:2::1", calls, http.StatusCreated)
}

// Strangers who post long bodies to the calls that begin a session, and stall, take none of
// the memory for the bodies of keys, and no place at the unpacker.
func TestStrangersAtTheSignIn(t *testing.T) {
	const root = "0123456789abcdef0123456789abcdef"
	s := New("127.0.0.1:0", &program{intake: intakeOf(t), keys: openKeys(t)}, slog.New(slog.DiscardHandler), Options{RootKey: root})
	s.strangerWithin, s.http.ReadTimeout = time.Second, 10*time.Second
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	url := "http://" + s.Address()
	begins := [][2]string{{http.MethodPost, sessionPath}, {http.MethodPut, sessionPath}, {http.MethodPost, setupPath}}
	for _, b := range begins {
		got := callBraze(t, url+b[1], b[0], "", string(packGzip(t, []byte(`{"name":"a","password":"b"}`))), "Content-Type", "application/json", "Content-Encoding", "gzip")
		if got.status != http.StatusUnsupportedMediaType {
			t.Errorf("%s %s, packed: %d %s, want 415", b[0], b[1], got.status, got.body)
		}
	}
	const said = 9 << 20
	half := strings.Repeat(" ", said/2) // for which a body of a key has 8 MiB
	var all []net.Conn
	for i := range maxHeldBytes/(8<<20) + 4 {
		c, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
		fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", begins[i%3][0], begins[i%3][1], said, half)
	}
	if got := callBraze(t, url+eventsPath, http.MethodPost, "Bearer "+root, fmt.Sprintf(`{"event":"n","user_id":"u","time":%d}`, time.Now().Unix())); got.status != http.StatusAccepted {
		t.Errorf("an event meanwhile: %d %s, want 202", got.status, got.body)
	}
	if left := s.intake.budget.Left(); left != maxHeldBytes {
		t.Errorf("strangers have %d bytes of the memory for the bodies of keys", maxHeldBytes-left)
	}
	for _, c := range all {
		if err := c.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if reset := errors.Is(err, syscall.ECONNRESET); err != nil && !reset || !strings.HasPrefix(string(answer), "HTTP/1.1 413 ") {
			t.Errorf("who sends more than a sign-in has: %.100q %v, want 413", answer, err)
		}
	}
}

// A key whose bodies stall has half of the memory for bodies: it is told that it has no
// more, and what others send is taken.
func TestAKeyLeavesMemoryToOthers(t *testing.T) {
	db := openKeys(t)
	s := New("127.0.0.1:0", &program{intake: intakeOf(t), keys: db}, slog.New(slog.DiscardHandler), Options{})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	_, stalls := addKey(t, db, "events:write")
	_, other := addKey(t, db, "events:write")
	post := func(key string, want int) {
		t.Helper()
		got := callBraze(t, "http://"+s.Address()+eventsPath, http.MethodPost, "Bearer "+key, fmt.Sprintf(`{"event":"n","user_id":"u","time":%d}`, time.Now().Unix()))
		if got.status != want {
			t.Errorf("%d %s, want %d", got.status, got.body, want)
		}
	}
	left := func(want int64) {
		t.Helper()
		for began := time.Now(); s.intake.budget.Left() != want; clocktest.Rest(began) {
			if time.Since(began) > 3*time.Minute {
				t.Fatalf("%d bytes are left, want %d", s.intake.budget.Left(), want)
			}
		}
	}
	half := strings.Repeat(" ", maxEventsBytes/2+1) // for which a body has all of its memory
	var all []net.Conn
	for range maxHeldOfSender / maxEventsBytes {
		c, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", eventsPath, stalls, maxEventsBytes, half)
	}
	left(maxHeldBytes - maxHeldOfSender)
	post(other, http.StatusAccepted)
	post(stalls, http.StatusServiceUnavailable)
	for _, c := range all {
		_ = c.Close()
	}
	left(maxHeldBytes)
	post(stalls, http.StatusAccepted)
}
