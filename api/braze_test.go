package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/api/braze"
	"sluice/flow"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/user"
)

// called is an answer to a call of Braze's API.
type called struct {
	status int
	header http.Header
	body   string
}

// callBraze sends a call; key is a header of authorization, or empty.
func callBraze(t *testing.T, url, method, authorization, body string, headers ...string) called {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client, _ := checked(t)
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return called{res.StatusCode, res.Header, string(text)}
}

// callJSON is callBraze for an answer of a status that is wanted, which is read
// into to unless that is nil.
func callJSON(t *testing.T, url, method, authorization, body string, want int, to any) called {
	t.Helper()
	got := callBraze(t, url, method, authorization, body)
	if got.status != want {
		t.Fatalf("%s %s %.300s: %d %s, want %d", method, url, body, got.status, got.body, want)
	}
	if to != nil {
		if err := json.Unmarshal([]byte(got.body), to); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// startBraze starts a server with an empty database, whose log is kept.
func startBraze(t *testing.T, options Options) (s *Server, url string, p *program, log *bytes.Buffer) {
	t.Helper()
	store := openKeys(t)
	p = &program{keys: store, users: store, series: store, segments: store, templates: store, schedules: store, sends: store, journeys: deskOn(store)}
	log = &bytes.Buffer{}
	s = New("127.0.0.1:0", p, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), options)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, "http://" + s.Address(), p, log
}

// Every call needs its own permission, by the name that Braze gives it; every
// answer has the headers of rates.
func TestBrazePermissions(t *testing.T) {
	s, url, p, log := startBraze(t, Options{})
	store := p.keys.(*sqlstore.Store)
	_, none := addKey(t, store, "events:write", "users.delet")
	for _, e := range braze.Endpoints() {
		_, text := addKey(t, store, string(e.Permission))
		answers := map[string]called{
			"none":  callBraze(t, url+e.Path, e.Method, "", ""),
			"wrong": callBraze(t, url+e.Path, e.Method, "Bearer wr\"ong-key", `{"attributes":[]}`),
			"lacks": callBraze(t, url+e.Path, e.Method, "Bearer "+none, `{}`),
			"has":   callBraze(t, url+e.Path, e.Method, "bearer "+text, `{}`),
		}
		for name, want := range map[string]called{
			"none":  {401, nil, `{"message":"Invalid API key: "}`},
			"wrong": {401, nil, `{"message":"Invalid API key: wr\"ong-key"}`},
			"lacks": {403, nil, `{"message":"Access Denied","errors":["the key has no permission ` + string(e.Permission) + "; `sluice key create --permission` gives it, or braze for all of these calls\"]}"},
			"has":   {0, nil, ""},
		} {
			got := answers[name]
			if want.status != 0 && (got.status != want.status || got.body != want.body) {
				t.Errorf("%s, %s: %d %s, want %d %s", e.Path, name, got.status, got.body, want.status, want.body)
			}
			if e.Method == http.MethodGet {
				if head := callBraze(t, url+e.Path, http.MethodHead, "Bearer "+text, ""); head.status != answers["has"].status || head.body != "" {
					t.Errorf("HEAD %s: %d %s", e.Path, head.status, head.body)
				}
			}
			if want.status == 0 && got.status != 200 && got.status != 400 {
				t.Errorf("%s with its permission: %d %s", e.Path, got.status, got.body)
			}
			for _, header := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
				values := got.header.Values(header)
				if len(values) != 1 || (values[0] == "") != (got.status == 401) {
					t.Errorf("%s, %s: %s %q", e.Path, name, header, values)
				}
			}
			for _, header := range []string{"X-Request-Id", "X-Runtime", "ETag"} {
				if got.header.Get(header) == "" {
					t.Errorf("%s, %s: no %s", e.Path, name, header)
				}
			}
		}
	}
	stop(t, s)
	if strings.Contains(log.String(), "ong-key") || strings.Contains(log.String(), none) {
		t.Error("the log has a key that was sent")
	}
}

// A call that there is not, and one by another method, are refused in words that
// clients of Braze's API read.
func TestBrazeRefusals(t *testing.T) {
	s, url, _, _ := startBraze(t, Options{BrazeLimits: braze.Limits{braze.LimitTrack: 7}})
	defer stop(t, s)
	for _, x := range []struct{ method, path, message, limit string }{
		{"GET", "/users/track", "GET is not possible here, only POST", "7"}, {"DELETE", "/events/list", "DELETE is not possible here, only GET and HEAD", "1000000000"},
		{"PUT", "/transactional/v1/campaigns/c/send", "PUT is not possible here, only POST", "1000000000"},
		{"POST", "/campaigns/trigger/send", "Not Found", "1000000000"}, {"GET", "/users/track/", "Not Found", "1000000000"}, {"POST", "//users/track", "Not Found", "1000000000"},
		{"GET", "/v1/nothing", "", ""}, {"GET", "/v1/events", "", ""}, {"POST", "/healthz", "", ""}, {"GET", "/v1/segments/none", "", ""},
	} {
		got := callBraze(t, url+x.path, x.method, "", "{}")
		var body struct {
			Message string
			Error   struct{ Message string }
		}
		if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.status/100 != 4 || body.Message != x.message || body.Error.Message == "" {
			t.Errorf("%s %s: %d %s %v", x.method, x.path, got.status, got.body, err)
		}
		if limit := got.header.Get("X-RateLimit-Limit"); limit != x.limit || (limit == "") != (got.header.Get("X-RateLimit-Reset") == "") {
			t.Errorf("%s %s: %v", x.method, x.path, got.header)
		}
	}
}

// Old clients have their key in the query or in the body. It is not logged.
func TestBrazeOldKeys(t *testing.T) {
	s, url, p, log := startBraze(t, Options{})
	_, text := addKey(t, p.keys.(*sqlstore.Store), "users.export.ids", "events.list")
	for _, x := range []struct{ method, path, authorization, body string }{
		{"POST", "/users/export/ids", "", `{"external_ids":["u"],"api_key":"` + text + `"}`},
		{"POST", "/users/export/ids?api_key=" + text, "", `{"external_ids":["u"]}`},
		{"GET", "/events/list?api_key=" + text, "", ""},
	} {
		if got := callBraze(t, url+x.path, x.method, x.authorization, x.body); got.status/100 != 2 || !strings.Contains(got.body, `"message":"success"`) {
			t.Errorf("%s: %d %s", x.path, got.status, got.body)
		}
		if got := callBraze(t, url+x.path, x.method, "Bearer no", x.body); got.status != 401 {
			t.Errorf("%s with a bad header: %d %s", x.path, got.status, got.body)
		}
	}
	// Bodies of those who are not known yet have memory of their own.
	s.dialect.strangers.Take(maxStrangersBytes)
	for authorization, want := range map[string]int{"": 503, "Bearer " + text: 201} {
		if got := callBraze(t, url+"/users/export/ids", "POST", authorization, `{"external_ids":["u"],"api_key":"`+text+`"}`); got.status != want {
			t.Errorf("strangers' memory is taken: %d %s, want %d", got.status, got.body, want)
		}
	}
	s.dialect.strangers.Give(maxStrangersBytes)
	stop(t, s)
	if strings.Contains(log.String(), text) {
		t.Error("the log has the key")
	}
	if left := s.dialect.strangers.Left(); left != maxStrangersBytes {
		t.Errorf("%d bytes of strangers' bodies are left of %d", left, maxStrangersBytes)
	}
}

// Beyond a limit calls are refused until the window ends, as the headers say.
func TestBrazeLimits(t *testing.T) {
	clock := clocktest.At(time.UnixMilli(1_700_000_001_500))
	limits := braze.Limits{braze.LimitIdentity: 2}
	s, url, p, _ := startBraze(t, Options{Clock: clock, BrazeLimits: limits, KeyItemsPerSecond: 1})
	defer stop(t, s)
	_, text := addKey(t, p.keys.(*sqlstore.Store), "users.delete", "users.merge", "events.list")
	auth := "Bearer " + text
	for i, path := range []string{"/users/delete", "/users/merge", "/users/delete"} {
		got := callBraze(t, url+path, "POST", auth, `{}`)
		want := map[int]called{0: {status: 400}, 1: {status: 400}, 2: {429, nil, `{"message":"Rate Limited"}`}}[i]
		if got.status != want.status || want.body != "" && got.body != want.body || got.header.Get("X-RateLimit-Limit") != "2" || got.header.Get("X-RateLimit-Remaining") != []string{"1", "0", "0"}[i] {
			t.Errorf("call %d: %d %s %v", i, got.status, got.body, got.header)
		}
		if i == 2 && (got.header.Get("Retry-After") != "39" || got.header.Get("X-RateLimit-Reset") != "1700000040") {
			t.Errorf("wait until: %v", got.header)
		}
	}
	// The bound of the key is another one: 5 are saved up, 2 calls have cost one each.
	for i := range 5 {
		got := callBraze(t, url+"/events/list", "GET", auth, "")
		if want := map[bool]int{true: 200, false: 429}[i < 3]; got.status != want {
			t.Errorf("call %d of a key: %d %s", i, got.status, got.body)
		}
		if got.status == 429 && (got.header.Get("X-RateLimit-Remaining") != "0" || got.header.Get("X-RateLimit-Reset") != "1700000003") {
			t.Errorf("its headers: %v", got.header)
		}
	}
	clock.Move(39 * time.Second)
	if got := callBraze(t, url+"/users/delete", "POST", auth, `{}`); got.status != 400 || got.header.Get("X-RateLimit-Remaining") != "1" {
		t.Errorf("the next window: %d %v", got.status, got.header)
	}
}

// Transactional mail is never slowed down: neither by the bound of its key, nor
// by a limit of calls.
func TestTransactionalIsNotSlowedDown(t *testing.T) {
	limits := braze.Limits{braze.LimitOther: 1}
	s, url, p, _ := startBraze(t, Options{Clock: clocktest.At(time.UnixMilli(1_700_000_001_500)), BrazeLimits: limits, KeyItemsPerSecond: 1})
	defer stop(t, s)
	_, text := addKey(t, p.keys.(*sqlstore.Store), "transactional.send", "messages.send")
	for i := range 20 {
		got := callBraze(t, url+"/transactional/v1/campaigns/none/send", "POST", "Bearer "+text, `{"recipient":{"external_user_id":"u"}}`)
		if got.status != 400 || got.body != `{"message":"Campaign does not exist"}` || got.header.Get("X-RateLimit-Remaining") != "1000000000" {
			t.Fatalf("call %d: %d %s %v", i, got.status, got.body, got.header)
		}
		other := callBraze(t, url+"/messages/send", "POST", "Bearer "+text, `{}`)
		if want := map[bool]int{true: 400, false: 429}[i == 0]; other.status != want {
			t.Fatalf("call %d of another sort: %d %s", i, other.status, other.body)
		}
	}
}

// While the program starts, and without a database, calls are refused in the
// same shape, to be sent again.
func TestBrazeUnavailable(t *testing.T) {
	const root = "0123456789abcdef0123456789abcdef"
	s, url, p, log := startBraze(t, Options{RootKey: root})
	got := callBraze(t, url+"/users/track", "POST", "Bearer "+root, `{"attributes":[{"external_id":"u"}]}`)
	if got.status != 503 || !strings.Contains(got.body, `{"message":"the program is starting or stopping`) || got.header.Get("Retry-After") == "" {
		t.Errorf("no intake: %d %s", got.status, got.body)
	}
	got = callBraze(t, url+"/users/track", "POST", "Bearer "+root, strings.Repeat(" ", maxEventsBytes+1))
	if got.status != 413 || !strings.HasPrefix(got.body, `{"message":"`) {
		t.Errorf("a large body: %d %s", got.status, got.body)
	}
	if err := p.keys.(*sqlstore.Store).Close(); err != nil {
		t.Fatal(err)
	}
	for method, path := range map[string]string{"POST": "/users/export/ids", "GET": "/kpi/dau/data_series?length=1"} {
		got = callBraze(t, url+path, method, "Bearer "+root, `{"external_ids":["u"]}`)
		if got.status != 503 || !strings.Contains(got.body, "the database does not answer") {
			t.Errorf("%s without a database: %d %s", path, got.status, got.body)
		}
	}
	stop(t, s)
	if !strings.Contains(log.String(), "database is closed") {
		t.Errorf("the log does not say why:\n%s", log)
	}
}

// A call that is in, and cannot be answered, is not to be sent again: no header asks for it.
func TestBrazeTakenIn(t *testing.T) {
	const root = "0123456789abcdef0123456789abcdef"
	s, url, p, log := startBraze(t, Options{RootKey: root})
	p.intake = intakeOf(t)
	p.late = errors.New("the store is behind")
	got := callBraze(t, url+"/users/track/sync", "POST", "Bearer "+root, `{"events":[{"external_id":"u","name":"e","time":1700000000}]}`)
	if got.status != 503 || !strings.Contains(got.body, "do not send it again") || got.header.Get("Retry-After") != "" {
		t.Errorf("not applied in time: %d %s, Retry-After %q", got.status, got.body, got.header.Get("Retry-After"))
	}
	stop(t, s)
	if !strings.Contains(log.String(), "the store is behind") {
		t.Errorf("the log does not say why:\n%s", log)
	}
}

// Calls that wait for what they have written keep the slots of no others.
func TestBrazeCallsThatWait(t *testing.T) {
	const root = "0123456789abcdef0123456789abcdef"
	s, url, p, _ := startBraze(t, Options{RootKey: root})
	defer stop(t, s)
	p.intake, p.waits, p.applied = intakeOf(t), make(chan struct{}), make(chan struct{})
	sync := func() int {
		return callBraze(t, url+"/users/track/sync", "POST", "Bearer "+root, `{"events":[{"external_id":"u","name":"e","time":1700000000}]}`).status
	}
	statuses := make(chan int)
	for range parallelBraze {
		go func() { statuses <- sync() }()
	}
	for range parallelBraze {
		<-p.waits
	}
	if status := sync(); status != http.StatusServiceUnavailable {
		t.Errorf("one more that waits: %d", status)
	}
	for path, want := range map[string]int{"/users/export/ids": 201, "/transactional/v1/campaigns/none/send": 400, "/messages/schedule/delete": 400, "/email/bounce/remove": 400, "/email/spam/remove": 400} {
		if got := callBraze(t, url+path, "POST", "Bearer "+root, `{"external_ids":["u"]}`); got.status != want {
			t.Errorf("%s: %d %s, want %d", path, got.status, got.body, want)
		}
	}
	close(p.applied)
	for range parallelBraze {
		if status := <-statuses; status != http.StatusCreated {
			t.Errorf("applied: %d", status)
		}
	}
	if s.dialect.waiting["/messages/schedule/delete"] == nil { // it waits until the mail that it stops is stored
		t.Error("deletes of schedules keep the slots of others")
	}
	if n := len(s.dialect.waiting); n != len(braze.Waiting) {
		t.Errorf("%d calls wait, of %d", n, len(braze.Waiting))
	}
	for _, path := range braze.Waiting {
		if _, known := s.dialect.calls[path]; !known {
			t.Errorf("%s is no call", path)
		}
	}
}

// stop stops a server; its log is not written any more.
func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// Requests that nobody has named are named by UUIDs, no two of them alike.
func TestMadeRequestIDs(t *testing.T) {
	var a, b requestIDs
	a.init()
	b.init()
	r := &http.Request{Header: http.Header{}}
	seen := map[string]bool{}
	for range 300 {
		for _, ids := range []*requestIDs{&a, &b} {
			id := ids.idOf(r)
			if seen[id] || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
				t.Fatalf("%s", id)
			}
			seen[id] = true
		}
	}
}

// A change under a name is written once, whatever the next call has in it. A call before that
// wrote nothing, as when the logs are full, keeps the next one from nothing.
func TestBrazeUpdateOnce(t *testing.T) {
	in := intakeOf(t)
	in.Names = &flow.OnceNames{Redis: in.Redis, Clock: sluice.SystemClock{}}
	c := &brazeCall{w: httptest.NewRecorder(), services: &Services{Intake: in}}
	if _, _, same, err := c.Once(t.Context(), "attributes s", "of a call that wrote nothing"); err != nil || !same {
		t.Fatalf("same %t, %v", same, err)
	}
	for _, body := range []string{`{"n":{"inc":1}}`, `{"n":{"inc":1}}`, `{"n":{"inc":2}}`} {
		u := user.Update{Op: user.OpAttributes, Key: user.Key{Kind: user.KeyExternal, Name: "ann"}, Body: body}
		if err := c.UpdateOnce(t.Context(), "attributes s", body, u); err != nil {
			t.Fatal(err)
		}
	}
	if got := in.Stats.Accepted.Load(); got != 1 {
		t.Errorf("%d changes were written, want 1", got)
	}
}
