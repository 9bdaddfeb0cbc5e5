package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// suppressed waits until /v1/suppressions/check says that of an address.
func (s *served) suppressed(t *testing.T, address, class, want string) {
	t.Helper()
	await(t, address+" is "+want+" for "+class, func() bool {
		_, text := s.ask(t, http.MethodPost, "/v1/suppressions/check", `{"addresses":["`+address+`"],"class":"`+class+`"}`)
		return strings.Contains(text, want)
	})
}

// With an opt-in that claims to be of in an hour, the page of one click says that a
// user is unsubscribed only once that is so.
func TestUnsubscribeAfterOptInAhead(t *testing.T) {
	t.Parallel()
	s, next := startMailing(t)
	s.mails(t, "marketing", "ann@example.com", plainMail)
	link := linkOf(t, next("ann@example.com"))
	ahead := time.Now().Add(58 * time.Minute).UTC().Format(time.RFC3339)
	s.accepted(t, 1, `{"event":"subscribed","email":"ann@example.com","time":"`+ahead+`"}`)
	for range 2 { // once more by the same link
		inForce := s.leave(t, link, "List-Unsubscribe=One-Click", "application/x-www-form-urlencoded")
		_, text := s.ask(t, http.MethodPost, "/v1/suppressions/check", `{"addresses":["ann@example.com"]}`)
		if inForce && !strings.Contains(text, `"reason":"unsubscribe"`) {
			t.Fatalf("the page has said that she is unsubscribed: %s", text)
		}
		s.suppressed(t, "ann@example.com", "marketing", `"reason":"unsubscribe"`)
	}
	s.became(t, s.mails(t, "marketing", "ann@example.com", plainMail), "suppressed")
	// So do the calls that say so at once.
	for _, x := range [][3]string{
		{"/email/status", `{"email":"bob@example.com","subscription_state":"unsubscribed"}`, `"suppressed":true`},
		{"/v1/suppressions", `{"suppressions":[{"entry":"bob@example.com"}]}`, `"suppressed":true`},
		{"/v1/suppressions/remove", `{"entries":["bob@example.com"]}`, `"suppressed":false`},
	} {
		if status, text := s.ask(t, http.MethodPost, x[0], x[1]); status/100 != 2 {
			t.Fatalf("%s: %d %s", x[0], status, text)
		}
		s.suppressed(t, "bob@example.com", "marketing", x[2])
	}
}

// A key with events:write alone cannot lift a person's opt-out, and its complaints do
// not stop transactional mail; with consent:write it can do both. Opt-outs and bounces
// count from both keys.
func TestKeysAndConsent(t *testing.T) {
	t.Parallel()
	s, _ := startMailing(t)
	write := func(key, event, email string, minutes int) {
		t.Helper()
		at := time.Now().Add(time.Duration(minutes) * time.Minute).UTC().Format(time.RFC3339)
		s.accepted(t, 1, fmt.Sprintf(`{"event":%q,"email":%q,"time":%q}`, event, email, at), "Authorization", "Bearer "+key)
	}
	plain := strings.TrimSpace(mustRun(t, s.dir, "key", "create", "--name", "plain").stdout)
	trusted := strings.TrimSpace(mustRun(t, s.dir, "key", "create", "--permission", "events:write,consent:write").stdout)
	write(plain, "unsubscribed", "ann@example.com", -60)
	s.suppressed(t, "ann@example.com", "marketing", `"reason":"unsubscribe"`)
	write(plain, "subscribed", "ann@example.com", 0)
	write(plain, "spamreport", "bob@example.com", 0)
	s.suppressed(t, "bob@example.com", "marketing", `"reason":"complaint"`)
	s.suppressed(t, "bob@example.com", "transactional", `"suppressed":false`)
	await(t, "the opt-in is stored", func() bool { return len(s.texts(t, "SELECT name FROM events WHERE name = 'subscribed'")) == 1 })
	if held := s.texts(t, "SELECT entry FROM suppressions WHERE removed = 0 AND entry = 'ann@example.com'"); len(held) != 1 {
		t.Error("a key without consent:write has undone what she said")
	}
	write(plain, "hard_bounce", "gone@example.com", 0)
	s.suppressed(t, "gone@example.com", "transactional", `"reason":"hard_bounce"`)
	write(trusted, "subscribed", "ann@example.com", 0)
	s.suppressed(t, "ann@example.com", "marketing", `"suppressed":false`)
	write(trusted, "complained", "bob@example.com", 0)
	s.suppressed(t, "bob@example.com", "transactional", `"reason":"complaint"`)
}
