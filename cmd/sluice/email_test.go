package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// emails returns what a list of addresses says.
func (s *served) emails(t *testing.T, path string) string {
	t.Helper()
	status, text := s.ask(t, http.MethodGet, path, "")
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, text)
	}
	return text
}

const anyDay = "?start_date=2020-01-01&end_date=2100-01-01"

// What one call sets another lists, and senders ask; an address that no user has
// is remembered for the user who gets it.
func TestBrazeEmailLists(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	const done = `{"message":"success"}`
	suppressed := func(address, class, reason string) {
		t.Helper()
		await(t, fmt.Sprintf("%s mail to %s: %q", class, address, reason), func() bool {
			_, text := s.ask(t, "POST", "/v1/suppressions/check", `{"addresses":["`+address+`"],"class":"`+class+`"}`)
			return strings.Contains(text, `"suppressed":false`) == (reason == "") && (reason == "" || strings.Contains(text, `"reason":"`+reason+`"`))
		})
	}
	state := func(want string) {
		t.Helper()
		await(t, "the state of u-1 is "+want, func() bool {
			text := s.sent(t, 201, "/users/export/ids", `{"external_ids":["u-1"]}`)
			return strings.Contains(text, `"email_subscribe":"`+want+`"`)
		})
	}
	if got := s.sent(t, 201, "/email/status", `{"email":["Ann@Example.com","nobody"],"subscription_state":"unsubscribed"}`); got != `{"message":"success","errors":["email[1]: The value provided for the 'email' field is not a valid email."]}` {
		t.Errorf("one of two: %s", got)
	}
	suppressed("ann@example.com", "marketing", "unsubscribe")
	suppressed("ann@example.com", "transactional", "")
	s.sent(t, 201, "/users/track", `{"attributes":[{"external_id":"u-1","email":"ann@example.com"}]}`)
	state("unsubscribed") // as was remembered

	if got := s.sent(t, 201, "/email/status", `{"email":"ann@example.com","subscription_state":"opted_in"}`); got != done {
		t.Errorf("opted in: %s", got)
	}
	state("opted_in")
	suppressed("ann@example.com", "marketing", "")

	for _, path := range []string{"/email/blacklist", "/email/blocklist"} {
		if got := s.sent(t, 201, path, `{"email":"ann@example.com"}`); got != done {
			t.Errorf("%s: %s", path, got)
		}
	}
	state("unsubscribed")
	suppressed("ann@example.com", "transactional", "hard_bounce")
	bounced := s.emails(t, "/email/hard_bounces"+anyDay)
	if !strings.HasPrefix(bounced, `{"emails":[{"email":"ann@example.com","hard_bounced_at":"20`) || !strings.HasSuffix(bounced, `Z"}],"message":"success"}`) {
		t.Errorf("bounced: %s", bounced)
	}
	s.sent(t, 201, "/email/status", `{"email":"ann@example.com","subscription_state":"subscribed"}`)
	suppressed("ann@example.com", "marketing", "hard_bounce") // that stays
	s.sent(t, 201, "/email/bounce/remove", `{"email":"ann@example.com"}`)
	suppressed("ann@example.com", "transactional", "")
	if got := s.emails(t, "/email/hard_bounces"+anyDay); got != `{"emails":[],"message":"success"}` {
		t.Errorf("bounced: %s", got)
	}

	s.accepted(t, 1, `{"event":"spam","email":"bob@example.com"}`)
	suppressed("bob@example.com", "transactional", "complaint")
	s.sent(t, 201, "/email/bounce/remove", `{"email":["bob@example.com"]}`)
	s.sent(t, 201, "/email/status", `{"email":["bob@example.com"],"subscription_state":"opted_in"}`)
	suppressed("bob@example.com", "transactional", "complaint")
	s.sent(t, 201, "/email/spam/remove", `{"email":["bob@example.com"]}`)
	suppressed("bob@example.com", "transactional", "")

	const odd = `\"Ann Smith\"@LocalHost` // which mail can be sent to, and no user can have
	s.sent(t, 201, "/email/blocklist", `{"email":"`+odd+`"}`)
	suppressed(odd, "transactional", "hard_bounce")
	if got := s.emails(t, "/email/hard_bounces?end_date=2100-01-01&email="+url.QueryEscape(`"ANN Smith"@localhost`)); !strings.HasPrefix(got, `{"emails":[{"email":"\"ann smith\"@localhost","hard_bounced_at":"20`) {
		t.Errorf("bounced: %s", got)
	}
	s.sent(t, 201, "/email/bounce/remove", `{"email":"`+odd+`"}`)
	suppressed(odd, "transactional", "")
	if n := s.metric(t, "sluice_dead_letters_total"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// Lists come in pages, by time; named addresses alone, whatever the days.
func TestBrazeEmailPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	for i, day := range []string{"10", "11", "12"} {
		s.accepted(t, 1, fmt.Sprintf(`{"event":"unsubscribe","email":"u%d@example.com","time":"2026-11-%sT00:00:00Z"}`, i, day))
	}
	mustRun(t, dir, "suppression", "add", ".bad.example", "--reason", "unsubscribe")
	mustRun(t, dir, "suppression", "add", "b@example.com", "--reason", "hard_bounce")
	await(t, "all are stored", func() bool { return len(s.texts(t, "SELECT entry FROM suppressions")) == 5 })
	list := func(query string, want ...string) {
		t.Helper()
		text := s.emails(t, "/email/unsubscribes"+query)
		entries := make([]string, len(want))
		for i, n := range want {
			entries[i] = fmt.Sprintf(`{"email":"u%s@example.com","unsubscribed_at":"2026-11-1%s 00:00:00 +0000"}`, n, n)
		}
		if text != `{"emails":[`+strings.Join(entries, ",")+`],"message":"success"}` {
			t.Errorf("%s: %s, want %s", query, text, want)
		}
	}
	list("?start_date=2026-11-10&end_date=2026-11-13", "2", "1", "0")
	list("?start_date=2026-11-10&end_date=2026-11-13&sort_direction=asc", "0", "1", "2")
	list("?start_date=2026-11-10&end_date=2026-11-12", "1", "0")
	list("?start_date=2026-11-11&end_date=2026-11-12", "1")
	list("?start_date=2026-11-10&end_date=2026-11-13&limit=1&offset=1", "1")
	list("?start_date=2026-11-10&end_date=2026-11-13&offset=3")
	list("?email=U1@example.com&start_date=2026-11-01&end_date=2026-11-02", "1")
	list("?email[]=u2@example.com&email[]=none@example.com&email[]=x&end_date=2026-11-02", "2")
	list("?email=b@example.com&end_date=2026-11-02")
	for _, query := range []string{
		"", "?start_date=2026-11-10", "?end_date=2026-11-10", "?start_date=2026-11-10&end_date=2026-11-10", "?start_date=2026-11-11&end_date=2026-11-10",
		"?start_date=2026-11-10&end_date=tomorrow", "?start_date=2026-11-10&end_date=2026-11-13&limit=501", "?start_date=2026-11-10&end_date=2026-11-13&limit=0",
		"?start_date=2026-11-10&end_date=2026-11-13&offset=-1", "?start_date=2026-11-10&end_date=2026-11-13&sort_direction=up", "?end_date=2026-11-10" + strings.Repeat("&email[]=a", 51),
	} {
		if status, text := s.ask(t, http.MethodGet, "/email/unsubscribes"+query, ""); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	fifty := `"` + strings.Repeat(`x@example.com","`, 50) + `x@example.com"`
	for body, message := range map[string]string{
		`{}`:                        "'email' is required: an address, or an array of at most 50",
		`{"email":[]}`:              "'email' is required: an address, or an array of at most 50",
		`{"email":[7]}`:             "email[0]: The value provided for the 'email' field is not a valid email.",
		`{"email":"a@example.com"}`: "'subscription_state' must be 'subscribed', 'unsubscribed' or 'opted_in'",
		`{"email":[` + fifty + `]}`: "The max number of ids per request was exceeded",
		`{"email":"a@example.com"`:  "Bad Request",
		`{"email":"a@example.com","subscription_state":"Subscribed"}`: "'subscription_state' must be 'subscribed', 'unsubscribed' or 'opted_in'",
	} {
		if status, text := s.ask(t, http.MethodPost, "/email/status", body); status != http.StatusBadRequest || !strings.HasPrefix(text, `{"message":"`+message+`"`) {
			t.Errorf("%.100s: %d %s", body, status, text)
		}
	}
	if got := len(s.texts(t, "SELECT entry FROM suppressions")); got != 5 {
		t.Errorf("%d suppressions, want 5: something that was refused was done", got)
	}
}

// What is removed here comes off the lists of the accounts at Amazon, too; what
// cannot is said to the caller and in the log. None of the servers that stand in
// for SES has such a list (aws-ses-v2-local, moto), so a handler is it.
func TestBrazeEmailProviders(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	amazon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.URL.EscapedPath())
		switch {
		case strings.Contains(r.URL.Path, "refused"):
			w.Header().Set("X-Amzn-Errortype", "AccessDeniedException")
			w.WriteHeader(http.StatusForbidden)
		case strings.Contains(r.URL.Path, "unknown"):
			w.Header().Set("X-Amzn-Errortype", "NotFoundException")
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(amazon.Close)
	start := func(sending string) *served {
		t.Helper()
		dir := t.TempDir()
		configure(t, dir, fmt.Sprintf("partitions: 2\nsending: '%s'\nroles: [intake, store]\nroutes:\n  amazon: {ses: {region: eu-west-1, access_key: k, secret_key: s, endpoint: '%s'}}\n  relay: {smtp: {url: 'smtp://127.0.0.1:1'}}\n", sending, amazon.URL))
		return serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	}
	s := start("sink")
	s.sent(t, 201, "/email/bounce/remove", `{"email":"ann@example.com"}`)
	s.stop(t)
	if len(asked) != 0 {
		t.Errorf("asked although nothing goes there: %s", asked)
	}
	s = start("on")
	s.sent(t, 201, "/email/blocklist", `{"email":["refused@example.com","unknown@example.com"]}`)
	got := s.sent(t, 201, "/email/bounce/remove", `{"email":["a+b/c@example.com","x","refused@example.com","unknown@example.com"]}`)
	if !strings.HasPrefix(got, `{"message":"success","errors":["email[1]: `) || strings.Count(got, "email[") != 2 || !strings.Contains(got, `"email[2]: it is removed here, and may be on a provider's list still; send it again: route amazon: `) || !strings.Contains(got, "AccessDeniedException") {
		t.Errorf("%s", got)
	}
	want := "DELETE /v2/email/suppression/addresses/a%2Bb%2Fc%40example.com DELETE /v2/email/suppression/addresses/refused%40example.com DELETE /v2/email/suppression/addresses/unknown%40example.com"
	if got := strings.Join(asked, " "); got != want {
		t.Errorf("asked %s\nwant  %s", got, want)
	}
	if log := s.log.String(); strings.Count(log, "provider's list") != 1 || !strings.Contains(log, "address=***@example.com") || strings.Contains(log, "refused") {
		t.Errorf("the log:\n%s", log)
	}
	if got := s.emails(t, "/email/hard_bounces"+anyDay); got != `{"emails":[],"message":"success"}` {
		t.Errorf("here are left: %s", got)
	}
}
