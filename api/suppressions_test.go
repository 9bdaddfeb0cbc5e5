package api

import (
	"log/slog"
	"strings"
	"testing"

	"sluice"
	"sluice/mail/suppress"
	"sluice/store/sqlstore"
)

// suppressions is a server with its list.
type suppressions struct {
	url, write, read string
	follower         *suppress.Follower
	store            *sqlstore.Store
}

func startSuppressions(t *testing.T) *suppressions {
	t.Helper()
	_, url, p, _ := startBraze(t, Options{})
	s := &suppressions{url: url + suppressionsPath, store: p.keys.(*sqlstore.Store)}
	s.follower = &suppress.Follower{List: suppress.NewList(sluice.SystemClock{}), Store: s.store, Clock: sluice.SystemClock{}, Log: slog.New(slog.DiscardHandler)}
	if err := s.follower.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.suppressions = &suppress.Service{Store: s.store, List: s.follower.List, Clock: sluice.SystemClock{}}
	_, text := addKey(t, s.store, "suppressions:write")
	s.write = "Bearer " + text
	_, text = addKey(t, s.store, "suppressions:read")
	s.read = "Bearer " + text
	return s
}

func (s *suppressions) ask(t *testing.T, method, path, key, body string, want int) string {
	t.Helper()
	got := callBraze(t, s.url+path, method, key, body)
	if got.status != want {
		t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got.status, got.body, want)
	}
	return strings.TrimSpace(got.body)
}

// Suppressions are added, shown, asked for and removed.
func TestSuppressions(t *testing.T) {
	s := startSuppressions(t)
	check := func(body, want string) {
		t.Helper()
		if err := s.follower.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.ask(t, "POST", "/check", s.read, body, 200); got != `{"results":[`+want+`]}` {
			t.Errorf("check %s: %s, want %s", body, got, want)
		}
	}
	got := s.ask(t, "POST", "", s.write, `{"suppressions":[{"entry":"Ann@Example.com","reason":"complaint"},{"entry":"*.Bad.example","reason":"bad_domain","ends":"2999-01-31T12:00:00Z"},
		{"entry":"bob@example.com","reason":"unsubscribe","scope":"marketing","app_id":"shop"},{"entry":"ann@example.com"}]}`, 200)
	if got != `{"changed":4}` {
		t.Errorf("added: %s", got)
	}
	check(`{"addresses":["ANN@example.com","x@a.bad.example","bob@example.com"]}`, `{"address":"ANN@example.com","suppressed":true,"reason":"complaint","scope":"all","match":"address"},`+
		`{"address":"x@a.bad.example","suppressed":true,"reason":"bad_domain","scope":"all","match":"subdomains"},{"address":"bob@example.com","suppressed":false}`)
	check(`{"addresses":["bob@example.com"],"app_id":"shop"}`, `{"address":"bob@example.com","suppressed":true,"reason":"unsubscribe","scope":"marketing","match":"address"}`)
	check(`{"addresses":["bob@example.com"],"app_id":"shop","class":"transactional"}`, `{"address":"bob@example.com","suppressed":false}`)

	// A page ends where the next begins.
	page := s.ask(t, "GET", "?limit=3", s.read, "", 200)
	_, next, ok := strings.Cut(page, `"next":"`)
	if !ok || strings.Count(page, `"entry"`) != 3 || !strings.Contains(page, `{"entry":".bad.example","reason":"bad_domain","scope":"all","app_id":"","source":"api:`) || !strings.Contains(page, `"ends":"2999-01-31T12:00:00`) {
		t.Fatalf("first page: %s", page)
	}
	if page = s.ask(t, "GET", "?after="+strings.TrimSuffix(next, `"}`), s.read, "", 200); strings.Count(page, `"entry"`) != 1 || !strings.Contains(page, `"entry":"bob@example.com"`) {
		t.Errorf("second page: %s", page)
	}

	// What is removed is shown as such, and is no more.
	if got := s.ask(t, "POST", "/remove", s.write, `{"entries":["ann@example.com","nobody@example.com"],"reason":"complaint"}`, 200); got != `{"changed":1}` {
		t.Errorf("removed: %s", got)
	}
	check(`{"addresses":["ann@example.com"]}`, `{"address":"ann@example.com","suppressed":true,"reason":"manual","scope":"all","match":"address"}`)
	s.ask(t, "POST", "/remove", s.write, `{"entries":["bob@example.com"],"scope":"all"}`, 200)
	check(`{"addresses":["bob@example.com"],"app_id":"shop"}`, `{"address":"bob@example.com","suppressed":true,"reason":"unsubscribe","scope":"marketing","match":"address"}`)
	s.ask(t, "POST", "/remove", s.write, `{"entries":["ann@example.com","bob@example.com",".bad.example"]}`, 200)
	check(`{"addresses":["ann@example.com","x@bad.example"]}`, `{"address":"ann@example.com","suppressed":false},{"address":"x@bad.example","suppressed":false}`)
	if got := s.ask(t, "GET", "?entry=ANN@example.com", s.read, "", 200); strings.Count(got, `"removed":true`) != 2 {
		t.Errorf("removed ones: %s", got)
	}
	if got := s.ask(t, "GET", "", s.read, "", 200); got != `{"suppressions":[]}` {
		t.Errorf("all: %s", got)
	}
}

// What is no request is refused, and nothing of it is done.
func TestSuppressionsRefused(t *testing.T) {
	s := startSuppressions(t)
	many := strings.Repeat(`"a@example.com",`, 1000) + `"a@example.com"`
	for _, c := range []struct{ path, body, want string }{
		{"", `{"suppressions":[{"entry":"a@example.com"},{"entry":"nonsense @"}]}`, `"index":1`},
		{"", `{"suppressions":[{"entry":"a@example.com","reason":"because"}]}`, "want one of"},
		{"", `{"suppressions":[{"entry":"a@example.com","scope":"some"}]}`, "all or marketing"},
		{"", `{"suppressions":[{"entry":"a@example.com","ends":"soon"}]}`, "want a time"},
		{"", `{"suppressions":[{"entry":"a@example.com","reason":"complaint","ends":"2999-01-31T12:00:00Z"}]}`, "holds for good"},
		{"", `{"suppressions":[{"entry":"a@example.com","app_id":7}]}`, "want a text"},
		{"", `{"suppressions":[{"entry":"a@example.com","entry":"b@example.com"}]}`, "once"},
		{"", `{"suppressions":[{"entry":"a@example.com"},{"entry":".co.uk"}]}`, `"index":1`}, {"", `{"suppressions":[{"entry":"a@example.com"}],"force":"yes"}`, "true or false"},
		{"", `{"suppressions":[{"entry":"a@example.com","email":"b"}]}`, "not known"},
		{"", `{"suppressions":[]}`, "1 to 1000"}, {"", `{}`, "1 to 1000"}, {"", `[]`, "no JSON object"}, {"", `{`, "no JSON object"},
		{"/remove", `{"entries":["a@example.com"],"reason":"x"}`, "want one of"}, {"/remove", `{"entries":"a@example.com"}`, "1 to 1000"}, {"/remove", `{"entries":[` + many + `]}`, "1 to 1000"},
		{"/check", `{"addresses":["a@example.com",""]}`, `"index":1`}, {"/check", `{"addresses":["a@example.com"],"class":"all"}`, "want marketing"}, {"/check", `{"addresses":[null]}`, "want a text"},
	} {
		key := s.write
		if c.path == "/check" {
			key = s.read
		}
		if got := s.ask(t, "POST", c.path, key, c.body, 400); !strings.Contains(got, c.want) {
			t.Errorf("%s %.80s: %s, want %s", c.path, c.body, got, c.want)
		}
	}
	for query, want := range map[string]string{"?limit=0": "1 to 1000", "?after=x": "as next", "?entry=%20": "want an address", "?entry=a.b&limit=1": "neither", "?x=1": "not known"} {
		if got := s.ask(t, "GET", query, s.read, "", 400); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	s.ask(t, "POST", "", s.read, `{"suppressions":[{"entry":"a@example.com"}]}`, 403)
	s.ask(t, "GET", "", s.write, "", 403)
	s.ask(t, "POST", "/check", "", `{"addresses":["a@example.com"]}`, 401)
	if n, err := s.store.CountSuppressions(t.Context()); err != nil || n != 0 {
		t.Errorf("%d suppressions were stored, %v", n, err)
	}
}
