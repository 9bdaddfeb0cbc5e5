package api

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/ingest"
	"sluice/store/sqlstore"
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
	s.strangerWithin = 50 * time.Millisecond
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
	for _, c := range all { // the server has 30 s for a request
		if err := c.SetReadDeadline(time.Now().Add(requestReadTimeout / 2)); err != nil {
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
