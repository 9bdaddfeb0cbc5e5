package main

import (
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/test/sink"
)

// fullAddress is an address whose local part is not masked.
var fullAddress = regexp.MustCompile(`[^\s"'<>(){}\[\],;:/=?&|\\@*]+(@|%40)[\w-]+\.[\w.-]+`)

const logNamesFile = `
partitions: 2
sending: 'on'
log: {level: debug}
in_doubt_seconds: 1
domains: {check: false}
public_url: https://mail.example.com
optin: {newsletter: {fields: [first_name]}}
lists:
  q: {dedupe: event_id}
  q_table: {table: target, columns: {address: email}}
routes:
  relay: {smtp: {url: 'smtp://RELAY', plain: true}}
  provider: {http: {url: 'PROVIDER', body: '{"to":"{{to}}"}', id: /id}}
`

// echoing is a provider whose answers name the recipient: it refuses, puts off, or
// does not say whether it has taken a mail.
func echoing(t *testing.T) string {
	t.Helper()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for word, status := range map[string]int{"refused": http.StatusBadRequest, "later": http.StatusTooManyRequests, "doubt": http.StatusBadGateway} {
			if strings.Contains(string(body), word) {
				w.WriteHeader(status)
			}
		}
		_, _ = io.WriteString(w, `{"error":"cannot send to `+strings.ReplaceAll(string(body), `"`, "'")+`"}`)
	}))
	t.Cleanup(provider.Close)
	return provider.URL
}

// No address or name of a person is in what the program writes, on either stream and
// at the level debug. There are refused events and requests, elements that a table
// refuses, and mail that bounces, fails, waits and is in doubt, with replies that name
// the recipient. There are consent, and users that are merged and deleted.
func TestLogNamesNobody(t *testing.T) {
	t.Parallel()
	const secret = "zq7"
	receiver, err := sink.Start(sink.Options{Fault: func(at sink.At) sink.Act {
		if at.Step != sink.OnRcpt {
			return sink.Act{}
		}
		return sink.Act{Reply: []string{"550 5.1.1 <zq7bounced@example.com> unknown", "451 4.2.0 zq7later@example.com is busy", "421 4.3.2 not now, zq7later@example.com"}[(at.Connection+at.Message)%3]}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = receiver.Close() })
	dir := t.TempDir()
	configure(t, dir, strings.NewReplacer("RELAY", receiver.Addr(), "PROVIDER", echoing(t)).Replace(logNamesFile))
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "data", "sluice.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE target (address TEXT CHECK (length(address) < 5)) STRICT"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)

	pushAll(t, dir, `{"event_id":"zq7e1","event":"opened","email":"zq7list@example.com","user_id":"zq7user"}`, `{"email":"zq7broken@example.com","user_id":"zq7user"`,
		`{"event":"bounced","email":"zq7 no address@example.com","user_id":"zq7user"}`, `{"event":"subscribed","email":"zq7list@example.com","timestamp":"zq7@example.com"}`)
	pushTo(t, dir, "q_table", `{"email":"zq7table@example.com"}`)
	s.sent(t, 201, "/users/track", `{"attributes":[{"external_id":"zq7user","email":"zq7mail@example.com","first_name":"Zq7Ann"},{"external_id":"zq7other","email":"zq7mail@example.com"}],
		"events":[{"external_id":"zq7user","name":"seen","time":"zq7@example.com"}]}`)
	s.sent(t, 202, "/users/merge", `{"merge_updates":[{"identifier_to_merge":{"external_id":"zq7other"},"identifier_to_keep":{"external_id":"zq7user"}}]}`)
	for _, path := range []string{"/v1/events?email=zq7@example.com", "/v1/messages/zq7@example.com", "/v1/suppressions?email=" + url.QueryEscape("zq7@example.com"), "/v1/optin/newsletter", "/v1/nothing/zq7user"} {
		for _, body := range []string{`{"email":"zq7asks@example.com","first_name":"Zq7Ann"}`, `[{"event":"bounced","email":"zq7b@example.com","user_id":"zq7user","id":"zq7"},{"email":7}]`, `{"email":"zq7 ann@example.com`} {
			_, _ = s.ask(t, http.MethodPost, path, body)
		}
	}
	for route, words := range map[string][]string{"relay": {"bounced", "later", "busy", "more"}, "provider": {"refused", "later", "doubt"}} {
		for _, word := range words {
			s.mailed(t, `{"from":"zq7shop@example.com","to":{"email":"zq7`+word+`@example.com","user_id":"zq7user"},"subject":"zq7","text":"t","class":"marketing","route":"`+route+`","metadata":{"who":"zq7"}}`)
		}
	}
	await(t, "mail of both routes has failed, and mail is in doubt", func() bool {
		return len(s.texts(t, "SELECT DISTINCT route FROM sends WHERE state = 'failed'")) == 2 && len(s.texts(t, "SELECT state FROM sends WHERE state = 'in_doubt'")) > 0
	})
	await(t, "elements of both lists are dead letters", func() bool {
		return len(s.texts(t, "SELECT DISTINCT source FROM dead_letters WHERE source IN ('list:q', 'list:q_table')")) == 2
	})
	s.sent(t, 201, "/users/delete", `{"external_ids":["zq7user"]}`)
	await(t, "the user is in no send that has ended", func() bool {
		return len(s.texts(t, "SELECT to_address FROM sends WHERE to_address <> '' AND state NOT IN ('waiting', 'in_doubt')")) == 0
	})
	if code := s.stop(t); code != exitOK {
		t.Fatalf("it ended with %d", code)
	}
	lines := 0
	for line := range strings.Lines(s.log.String()) {
		lines++
		if found := fullAddress.FindString(line); found != "" || strings.Contains(strings.ToLower(line), secret) {
			t.Errorf("somebody is named (%q): %s", found, line)
		}
	}
	if lines < 10 || !strings.Contains(s.log.String(), "***@example.com") {
		t.Errorf("there is little to look at:\n%s", s.log)
	}
}
