package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/http"
	"net/http/httptest"
	netmail "net/mail"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/config"
	"sluice/mail"
	"sluice/test/sink"
	"sluice/track/link"
)

const waitsForClick = `
id: welcome
entry: {when: {event: signup}}
steps:
  - {id: hello, message: {template: hello, tags: hello}, next: read}
  - id: read
    wait_for: {within: 3d, paths: [{name: clicked, when: {mail: clicked, step: hello}, next: thanks}], otherwise: exit}
  - {id: thanks, update: {attributes: {has_clicked: true}}}
`

// receiver is another's program that takes events by webhook.
type receiver struct {
	mu    sync.Mutex
	types []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var message struct {
		Data struct {
			Events []struct {
				Type  string `json:"type"`
				Email string `json:"email"`
			} `json:"events"`
		} `json:"data"`
	}
	if body, err := io.ReadAll(io.LimitReader(q.Body, 1<<20)); err != nil || json.Unmarshal(body, &message) != nil {
		http.Error(w, "what is this", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range message.Data.Events {
		r.types = append(r.types, e.Type)
	}
}

func (r *receiver) has(word string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.types {
		if t == word {
			return true
		}
	}
	return false
}

// openWhole is an engine whose mail goes to a mail server, with links and webhooks.
func openWhole(t *testing.T, relay *sink.Sink, settings ...func(*config.Config)) *tracked {
	t.Helper()
	keys, err := link.NewKeys("https://t.example.com", []byte(linkSecret))
	if err != nil {
		t.Fatal(err)
	}
	x := &tracked{keys: keys, path: filepath.Join(t.TempDir(), "sluice.db")}
	x.Engine = open(t, "embedded", "sqlite:"+x.path, 4, append([]func(*config.Config){func(c *config.Config) {
		c.Track.URL, c.Track.Listen, c.Secret, c.PublicURL = "https://t.example.com", "127.0.0.1:0", linkSecret, "https://mail.example.com"
		c.Sending, c.Domains.Check, c.Webhooks.AllowHosts = "on", false, []string{"127.0.0.1"}
		c.Routes = []config.Route{{Name: "relay", Weight: 1, SMTP: config.SMTPRoute{URL: config.URL("smtp://" + relay.Addr()), Plain: true}}}
	}}, settings...)...)
	return x
}

// TestMailFromEndToEnd: a mail goes by SMTP to a server that takes it. A link of it is
// followed, and the one click of its header posted. The profile, the suppressions, the
// series, the journey that waits for the click, and a webhook show it, each soon.
func TestMailFromEndToEnd(t *testing.T) {
	relay, err := sink.Start(sink.Options{Keep: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Close() })
	x := openWhole(t, relay)
	other := &receiver{}
	hook := httptest.NewServer(other)
	t.Cleanup(hook.Close)
	call(t, x.Engine, "/v1/webhooks", fmt.Sprintf(`{"url":%q,"types":["mail.clicked","mail.unsubscribed"]}`, hook.URL))
	db := databaseOf(t, "sqlite:"+x.path)
	err = db.AddTemplate(t.Context(), mail.Template{ID: "hello", Name: "hello", Current: 1, Latest: 1}, mail.TemplateVersion{
		Template: "hello", Version: 1, Class: mail.ClassMarketing, Subject: "Hello", From: "us@example.org", HTML: `<p><a href="https://shop.example/?a=1&amp;b=2">look</a></p>`,
	})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, db, waitsForClick)
	track(t, x.Engine, `{"attributes":[{"external_id":"p0","email":"p0@example.com","email_subscribe":"opted_in"}],"events":[{"external_id":"p0","name":"signup","time":"`+time.Now().UTC().Format(time.RFC3339)+`"}]}`)
	await(t, "the mail is with the server", func() bool { return relay.Received() == 1 })
	content := relay.Mails()[0].Content
	message, err := netmail.ReadMessage(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if post := message.Header.Get("List-Unsubscribe-Post"); post != "List-Unsubscribe=One-Click" {
		t.Fatalf("List-Unsubscribe-Post is %q in\n%s", post, content)
	}
	oneClick := strings.Trim(message.Header.Get("List-Unsubscribe"), "<>")
	body, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	if err != nil {
		t.Fatal(err)
	}
	href := regexp.MustCompile(`href="(https://t\.example\.com/[^"]+)"`).FindSubmatch(body)
	if href == nil {
		t.Fatalf("no link leads by way of us:\n%s", body)
	}
	var sent []mail.SendRow
	await(t, "the ledger has it, and a person can have read it", func() bool {
		sent = sendsOf(t, db, "p0")
		return len(sent) == 1 && sent[0].State == mail.SendSent && time.Now().UnixMilli() > sent[0].UpdatedMillis+2000
	})

	began := time.Now()
	soon := func(what string, holds func() bool) {
		t.Helper()
		await(t, what, holds)
		t.Logf("%5d ms: %s", time.Since(began).Milliseconds(), what)
	}
	if status, location := x.visit(t, "GET", string(href[1]), personsUA, ""); status != 302 || location != "https://shop.example/?a=1&b=2" {
		t.Fatalf("the link is answered %d %s", status, location)
	}
	unsubscribe(t, x, oneClick)
	one := func(query string) bool { return strings.Join(x.texts(t, query), ",") == "1" }
	soon("the profile shows it", func() bool {
		return one("SELECT COUNT(*) FROM users WHERE json_extract(profile, '$.fields.email_subscribe') = 'unsubscribed' AND json_extract(profile, '$.email_since') > 0")
	})
	soon("the address is suppressed", func() bool {
		return one("SELECT COUNT(*) FROM suppressions WHERE entry = 'p0@example.com' AND reason = 'unsubscribe' AND scope = 'marketing' AND removed = 0")
	})
	for _, name := range []string{"clicked", "unsubscribed"} {
		soon("the series counts "+name, func() bool { return one("SELECT SUM(count) FROM series_hours WHERE name = '" + name + "'") })
		soon("the webhook is told of mail."+name, func() bool { return other.has("mail." + name) })
	}
	soon("the row of the mail shows it", func() bool { return one("SELECT COUNT(*) FROM sends WHERE first_click IS NOT NULL") })
	// What might be a scanner of links is told from a person 10 s later (mail.ClicksWindowMillis).
	soon("the journey that waits for the click goes on", func() bool {
		return one("SELECT COUNT(*) FROM users WHERE json_extract(profile, '$.custom.has_clicked') = 1")
	})
	if relay.Received() != 1 {
		t.Errorf("%d mails were sent", relay.Received())
	}
}

// unsubscribe posts what a mailbox does (RFC 8058, 3.2).
func unsubscribe(t *testing.T, x *tracked, url string) {
	t.Helper()
	if !strings.HasPrefix(url, "https://mail.example.com/") && !strings.HasPrefix(url, x.keys.Base()) {
		t.Fatalf("the link to unsubscribe is %q", url)
	}
	if status, _ := x.visit(t, "POST", strings.Replace(url, "https://mail.example.com/", "http://"+x.Address()+"/", 1), "Mailbox", "List-Unsubscribe=One-Click"); status != 200 {
		t.Fatalf("one click is answered %d", status)
	}
}

const goesWrong = `
id: wrong
entry: {when: {event: signup}}
steps:
  - {id: hello, message: {template: hello}, next: pause}
  - {id: pause, delay: {for: 1d}}
`

// TestAJourneyIsPausedByItself: a journey whose mail comes back is paused with the reason,
// which an event and the alerts tell, and goes on when somebody resumes it.
func TestAJourneyIsPausedByItself(t *testing.T) {
	relay, err := sink.Start(sink.Options{Fault: func(at sink.At) sink.Act {
		if at.Step == sink.OnRcpt {
			return sink.Act{Reply: "550 5.1.1 there is nobody here"}
		}
		return sink.Act{}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Close() })
	var told atomic.Bool
	operators := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(q.Body, 1<<20))
		told.CompareAndSwap(false, bytes.Contains(body, []byte("the journey wrong was paused: 100.0 % of 20 mails")))
	}))
	t.Cleanup(operators.Close)
	x := openWhole(t, relay, func(c *config.Config) {
		c.Pause.Mails, c.Alerts.Webhook, c.Alerts.HoldSeconds = 20, config.Secret(operators.URL), 0
	})
	db := databaseOf(t, "sqlite:"+x.path, "hello")
	publish(t, db, goesWrong)
	all(t, x.Engine, 20, "signup")
	status := func() (status, hold string) {
		j, err := db.Journey(t.Context(), "wrong")
		if err != nil {
			t.Fatal(err)
		}
		return j.Status, j.Hold
	}
	await(t, "the journey is paused, with the reason", func() bool {
		is, hold := status()
		return is == "paused" && strings.Contains(hold, "Z stopped by itself: 100.0 % of 20 mails")
	})
	await(t, "the system has an event of it", func() bool {
		return strings.Join(x.texts(t, "SELECT COUNT(*) FROM events WHERE kind = 'system' AND name = 'mail_paused' AND json_extract(properties, '$.mail') = 'journey:wrong'"), "") == "1"
	})
	await(t, "people are told", told.Load)
	call(t, x.Engine, "/v1/journeys/wrong/resume?overdue=send", "")
	if is, hold := status(); is != "live" || hold != "" {
		t.Errorf("resumed, the journey is %s and stands because of %q", is, hold)
	}
}
