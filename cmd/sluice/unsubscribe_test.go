package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	netmail "net/mail"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/config"
	"sluice/lib/doctor"
	"sluice/user/consent"
)

const unsubscribeFile = `
partitions: 4
public_url: https://mail.example.com/sluice
unsubscribe_mailto: leave@example.com
sending: "on"
routes:
  provider: {http: {url: '%s', body: '{"to": "{{to}}", "raw": "{{raw_base64}}"}'}}
`

// startMailing starts a program whose mail goes to a provider. It returns what
// takes the next mail to somebody.
func startMailing(t *testing.T) (s *served, next func(to string) *netmail.Message) {
	t.Helper()
	got := make(chan string, 100)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(provider.Close)
	dir := t.TempDir()
	configure(t, dir, fmt.Sprintf(unsubscribeFile, provider.URL))
	s = serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	return s, func(to string) *netmail.Message {
		t.Helper()
		var sent struct{ To, Raw string }
		select {
		case text := <-got:
			if err := json.Unmarshal([]byte(text), &sent); err != nil {
				t.Fatal(err)
			}
		case <-t.Context().Done():
			t.Fatal("no mail")
		}
		raw, err := base64.StdEncoding.DecodeString(sent.Raw)
		if err != nil || sent.To != to {
			t.Fatalf("mail to %s, want %s: %v", sent.To, to, err)
		}
		m, err := netmail.ReadMessage(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// mails hands in a message and returns its id.
func (s *served) mails(t *testing.T, class, to, more string) string {
	t.Helper()
	status, text := s.ask(t, http.MethodPost, "/v1/messages", `{"from":"news@example.com","to":"`+to+`","class":"`+class+`"`+more+`}`)
	var answer struct{ Messages []struct{ ID string } }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusAccepted {
		t.Fatalf("%d %s", status, text)
	}
	return answer.Messages[0].ID
}

// became waits until a message is in a state.
func (s *served) became(t *testing.T, id, state string) {
	t.Helper()
	await(t, "a message is "+state, func() bool {
		_, text := s.ask(t, http.MethodGet, "/v1/messages/"+id, "")
		return strings.Contains(text, `"state":"`+state+`"`)
	})
}

var linkIn = regexp.MustCompile(`^<https://mail\.example\.com/sluice(/unsubscribe\?t=[A-Za-z0-9_-]+)>, <mailto:leave@example\.com\?subject=unsubscribe>$`)

// linkOf is the path of the link in the headers of a marketing mail.
func linkOf(t *testing.T, m *netmail.Message) string {
	t.Helper()
	found := linkIn.FindStringSubmatch(m.Header.Get("List-Unsubscribe"))
	if found == nil || m.Header.Get("List-Unsubscribe-Post") != "List-Unsubscribe=One-Click" {
		t.Fatalf("%q", m.Header)
	}
	return found[1]
}

// shownWithin is how long pages and calls wait for the store, to show what a request has
// done. Only a later answer may say that it will be done.
const shownWithin = 3 * time.Second

// leave posts to a link, as a mailbox does. It reports whether the page says that the
// person is unsubscribed. If the store is behind, it says that they will be.
func (s *served) leave(t *testing.T, link, body, kind string) (inForce bool) {
	t.Helper()
	began := time.Now()
	res, text := s.form(t, "POST", link, body, "Content-Type", kind)
	inForce = strings.Contains(text, "You are unsubscribed")
	later := strings.Contains(text, "You will be unsubscribed") && time.Since(began) >= shownWithin
	if res.StatusCode != 200 || !inForce && !later {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	return inForce
}

// states waits until email_subscribe of all users is that.
func (s *served) states(t *testing.T, want string) {
	t.Helper()
	await(t, "the states are "+want, func() bool {
		return strings.Join(s.texts(t, "SELECT COALESCE(JSON_EXTRACT(profile, '$.fields.email_subscribe'), '') FROM users ORDER BY part, number"), " ") == want
	})
}

const plainMail = `,"subject":"s","text":"t"`

// From the header of a marketing mail to the suppression list. To fetch the link
// changes nothing; a mailbox's POST to it does, however often it is repeated.
// Transactional mail still leaves. A user who has subscribed again can unsubscribe
// by the same mail.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	s, next := startMailing(t)
	s.sent(t, 201, "/users/track", `{"attributes":[{"external_id":"u-1","email":"Ann@Example.com","email_subscribe":"opted_in"},{"external_id":"u-2","email":"ann@example.com"}]}`)
	await(t, "both have the address", func() bool { return len(s.texts(t, "SELECT part FROM user_addresses")) == 2 })
	s.mails(t, "transactional", "Ann@example.com", plainMail)
	if m := next("Ann@example.com"); m.Header.Get("List-Unsubscribe") != "" {
		t.Errorf("a transactional mail has %q", m.Header)
	}
	s.mails(t, "marketing", "Ann@example.com", plainMail+`,"headers":[{"name":"List-Unsubscribe","value":"<https://shop.example/leave>"}]`)
	if m := next("Ann@example.com"); len(m.Header["List-Unsubscribe"]) != 1 || m.Header.Get("List-Unsubscribe") != "<https://shop.example/leave>" || m.Header.Get("List-Unsubscribe-Post") != "" {
		t.Errorf("one with its own has %q", m.Header)
	}
	first := s.mails(t, "marketing", "Ann@example.com", plainMail)
	link := linkOf(t, next("Ann@example.com"))
	for _, method := range []string{"GET", "HEAD", "GET"} {
		res, text := s.form(t, method, link, "")
		if res.StatusCode != 200 || method == "GET" && (!strings.Contains(text, "ann@example.com") || !strings.Contains(text, `<form method="post" action="?t=`)) {
			t.Fatalf("%d %s", res.StatusCode, text)
		}
		if res.Header.Get("Referrer-Policy") != "no-referrer" || res.Header.Get("Cache-Control") != "no-store" || len(res.Cookies()) != 0 {
			t.Errorf("%v", res.Header)
		}
	}
	s.mails(t, "marketing", "Ann@example.com", plainMail)
	linkOf(t, next("Ann@example.com")) // nothing was changed

	s.leave(t, link, "--x\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--x--\r\n", "multipart/form-data; boundary=x")
	s.states(t, "unsubscribed unsubscribed")
	held := "SELECT reason || ' ' || scope || ' ' || app_id FROM suppressions WHERE removed = 0 AND entry = 'ann@example.com'"
	awaitFound(t, "suppressed for marketing", func() (any, bool) {
		got := strings.Join(s.texts(t, held), "; ")
		return got, got == "unsubscribe marketing "
	})
	s.suppressed(t, "ann@example.com", "marketing", `"reason":"unsubscribe"`)
	s.leave(t, link, "List-Unsubscribe=One-Click", "application/x-www-form-urlencoded") // once more
	s.leave(t, link, "", "application/x-www-form-urlencoded")
	s.became(t, s.mails(t, "marketing", "ann@example.com", plainMail), "suppressed")
	s.mails(t, "transactional", "ann@example.com", plainMail)
	next("ann@example.com")
	events := s.texts(t, "SELECT email || ' ' || message_ref || ' ' || app_id FROM events WHERE kind = 'mail' AND name = 'unsubscribed'")
	if len(events) != 1 || events[0] != "ann@example.com "+first+" " {
		t.Errorf("events %q", events)
	}

	s.sent(t, 201, "/email/status", `{"email":"ann@example.com","subscription_state":"subscribed"}`)
	s.states(t, "subscribed subscribed")
	s.suppressed(t, "ann@example.com", "marketing", `"suppressed":false`)
	s.mails(t, "marketing", "ann@example.com", plainMail)
	linkOf(t, next("ann@example.com"))
	await(t, "the same mail is as good", func() bool { // once what was written for it is forgotten, 10 s later
		s.leave(t, link, "List-Unsubscribe=One-Click", "application/x-www-form-urlencoded")
		return len(s.texts(t, held)) == 1
	})
	s.states(t, "unsubscribed unsubscribed")
}

// A token that was changed, or that is for something else, unsubscribes nobody.
func TestUnsubscribeRefuses(t *testing.T) {
	t.Parallel()
	s, next := startMailing(t)
	s.mails(t, "marketing", "bob@example.com", plainMail)
	link := linkOf(t, next("bob@example.com"))
	for path, status := range map[string]int{
		link[:len(link)-1]:                                    400,
		strings.Replace(link, "?t=A", "?t=B", 1):              400,
		link + "&t=x":                                         400,
		consent.UnsubscribePath:                               400,
		consent.UnsubscribePath + "?t=preview":                400,
		consent.UnsubscribePath + "?t=%00":                    400,
		strings.Replace(link, "?t=", "/x?t=", 1):              404,
		strings.Replace(link, "unsub", "optin/", 1):           404,
		consent.ConfirmPath + link[strings.Index(link, "?"):]: 400,
	} {
		method := "POST"
		if strings.HasPrefix(path, consent.ConfirmPath) {
			method = "GET"
		}
		if res, text := s.form(t, method, path, "List-Unsubscribe=One-Click"); res.StatusCode != status || strings.Contains(text, "bob@") {
			t.Errorf("%s: %d %s", path, res.StatusCode, text)
		}
	}
	s.mails(t, "marketing", "bob@example.com", plainMail)
	next("bob@example.com")
	if got := s.texts(t, "SELECT entry FROM suppressions"); len(got) != 0 {
		t.Errorf("suppressed: %s", got)
	}
}

// Templates have the link, in marketing mail the same as the header; a preview
// shows one that is good for nothing.
func TestUnsubscribeInTemplates(t *testing.T) {
	t.Parallel()
	s, next := startMailing(t)
	body := `{"id":"news","subject":"s","class":"marketing","from":"news@example.com","text":"ours {{unsubscribe_url}} braze {{${set_user_to_unsubscribed_url}}} end"}`
	if status, text := s.ask(t, http.MethodPost, "/v1/templates", body); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := s.ask(t, http.MethodPost, "/v1/templates/news/preview", `{}`); status != 200 || !strings.Contains(text, "ours https://mail.example.com/sluice/unsubscribe?t=preview braze") {
		t.Errorf("%d %s", status, text)
	}
	s.mails(t, "marketing", "cy@example.com", `,"template":{"id":"news"}`)
	m := next("cy@example.com")
	link := "https://mail.example.com/sluice" + linkOf(t, m)
	text, err := io.ReadAll(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("=\r\n", "", "=3D", "=").Replace(string(text))
	if !strings.Contains(plain, "ours "+link+" braze "+link+" end") {
		t.Errorf("the header has %s, the mail\n%s", link, plain)
	}
}

// Doctor tells of marketing mail that can leave and gets no link.
func TestDoctorOfLinks(t *testing.T) {
	both, transactional := config.Route{Name: "a"}, config.Route{Name: "b", Classes: []string{"transactional"}}
	for _, x := range []struct {
		sending, url string
		routes       []config.Route
		want         doctor.Severity
	}{
		{"sink", "", []config.Route{both}, doctor.SeverityOK},
		{"on", "", []config.Route{transactional}, doctor.SeverityOK},
		{"on", "", []config.Route{transactional, both}, doctor.SeverityWarning},
		{"allow-list", "http://m.example.com", []config.Route{both}, doctor.SeverityWarning},
		{"on", "https://m.example.com", []config.Route{both}, doctor.SeverityOK},
	} {
		cfg := config.Default()
		cfg.Sending, cfg.PublicURL, cfg.Routes = x.sending, x.url, x.routes
		var e doctor.Examination
		examineUnsubscribe(&e, cfg)
		if len(e.Findings) != 1 || e.Findings[0].Severity != x.want {
			t.Errorf("%+v: %+v", x, e.Findings)
		}
	}
}
