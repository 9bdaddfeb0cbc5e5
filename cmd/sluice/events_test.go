package main

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/config"
	"sluice/engine"
	"sluice/lib/key"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
)

const testRoot = "root-key-of-a-test-0123456789abcdef"

// answered is an answer of POST /v1/events.
type answered struct {
	status int
	header http.Header
	text   string
	body   struct {
		Accepted     int `json:"accepted"`
		RefusedCount int `json:"refused_count"`
		Refused      []struct {
			Code, Message string
			Index         int
		}
		Error struct {
			Code, Message string
			Index         *int
			RequestID     string `json:"request_id"`
		}
	}
}

var transport = &http.Transport{MaxIdleConnsPerHost: 2000, ExpectContinueTimeout: patience}

// try posts events; headers are pairs, and may replace the root key.
func (s *served) try(body io.Reader, headers ...string) (a answered, err error) {
	r, err := http.NewRequest("POST", s.url+"/v1/events", body)
	if err != nil {
		return a, err
	}
	r.Header.Set("Authorization", "Bearer "+testRoot)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.client.Do(r)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return a, err
	}
	a.status, a.header, a.text = res.StatusCode, res.Header, string(text)
	return a, json.Unmarshal(text, &a.body)
}

// post posts events.
func (s *served) post(t *testing.T, body string, headers ...string) answered {
	t.Helper()
	a, err := s.try(strings.NewReader(body), headers...)
	if err != nil {
		t.Fatalf("%.100s: %v", body, err)
	}
	return a
}

// accepted posts events that must all be accepted.
func (s *served) accepted(t *testing.T, count int, body string, headers ...string) {
	t.Helper()
	if !slices.Contains(headers, "Idempotency-Key") {
		headers = append(slices.Clip(headers), "Idempotency-Key", rand.Text())
	}
	a := s.post(t, body, headers...)
	for range 5 { // a busy machine may let a call of Redis end late: the answer says that a repeat does no harm
		if a.status != http.StatusServiceUnavailable {
			break
		}
		a = s.post(t, body, headers...)
	}
	if a.status != http.StatusAccepted || a.body.Accepted != count || a.body.RefusedCount != 0 {
		t.Fatalf("%.100s: %d %s, want %d accepted", body, a.status, a.text, count)
	}
}

func (s *served) database() string { return filepath.Join(s.dir, "data", "sluice.db") }

// texts returns the first column of a query on the program's database.
func (s *served) texts(t *testing.T, query string) (all []string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+s.database()+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// awaitRows waits until the store has rows + duplicates.
func (s *served) awaitRows(t *testing.T, rows, duplicates int) {
	t.Helper()
	await(t, fmt.Sprintf("%d rows are stored and %d left out", rows, duplicates), func() bool {
		return s.metric(t, "sluice_stored_rows_total") >= rows && s.metric(t, "sluice_duplicates_total") >= duplicates
	})
	if n := rowsIn(t, s.database()); n != rows {
		t.Fatalf("%d rows, want %d", n, rows)
	}
}

// Every form of a body goes in, and what is repeated is stored once.
func TestEventsOverHTTP(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	s.accepted(t, 1, `{"event":"open","email":"Ann@Example.COM","time":"2026-01-02T03:04:05Z","plan":"pro"}`)
	s.accepted(t, 2, ` [{"event":"click","user_id":"u1"}, {"event":"bought","user_id":"u1"}]`, "Content-Type", "application/json")
	s.accepted(t, 2, "{\"event\":\"click\"}\n\n{\"event\":\"open\"}\r\n", "Content-Type", "application/x-ndjson")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, `{"event":"packed"}`)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s.accepted(t, 1, packed.String(), "Content-Encoding", "gzip")
	s.accepted(t, 0, `[]`)
	s.awaitRows(t, 6, 0)
	if got := s.texts(t, "SELECT kind || ' ' || name || ' ' || email || ' ' || time || ' ' || properties FROM events WHERE email IS NOT NULL"); len(got) != 1 ||
		got[0] != `mail opened Ann@example.com 1767323045000 {"plan":"pro"}` {
		t.Errorf("stored as %q", got)
	}

	// A repeat by event_id: within a request, and in another.
	event := `{"event":"open","event_id":"e1","time":1700000000000,"user_id":"u%d"}`
	twice := fmt.Sprintf("["+event+","+event+"]", 1, 1)
	s.accepted(t, 2, twice)
	s.accepted(t, 2, twice, "Content-Type", "application/json")
	s.awaitRows(t, 7, 3)

	// A repeat by Idempotency-Key: events with and without ids and times.
	mixed := `[{"event":"a"},{"event":"a"},{"event":"b","time":1700000000000},{"event":"c","event_id":"e2"},{"event":"d","event_id":"e3","time":1700000000000}]`
	for range 3 {
		s.accepted(t, 5, mixed, "Idempotency-Key", "k1")
	}
	s.awaitRows(t, 12, 13)
	s.accepted(t, 5, mixed, "Idempotency-Key", "k2") // another request: only e3 is the same event
	s.awaitRows(t, 16, 14)
	if a := s.post(t, `{"event":"z"}`, "Idempotency-Key", "k1"); a.status != 400 || !strings.Contains(a.body.Error.Message, "another body") {
		t.Errorf("another body under the same key: %d %s", a.status, a.text)
	}
	if got := s.metric(t, "sluice_http_accepted_items_total"); got != 6+4+20 {
		t.Errorf("%d items counted as accepted", got)
	}
	if _, body := s.get(t, "/metrics"); !strings.Contains(body, `sluice_http_events_requests_total{status="202"} 11`) || !strings.Contains(body, "sluice_http_accept_seconds_count 11") {
		t.Error("requests are not counted by status")
	}
}

// What is no event is refused item by item; what is no request, as a whole.
func TestEventsRefused(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot, "SLUICE_LOG_LEVEL=debug")
	a := s.post(t, `[{"event":"a"},{"no":"name"},7,{"event":"b","time":"no time"},{"event":"c"},{bad},{"event":"d","event_id":"x"}]`, "X-Request-Id", "my-id")
	if a.status != 202 || a.body.Accepted != 2 || a.body.RefusedCount != 5 || len(a.body.Refused) != 5 || a.header.Get("X-Request-Id") != "my-id" {
		t.Fatalf("%d %s", a.status, a.text)
	}
	for i, want := range []struct {
		index int
		text  string
	}{{1, "name is missing"}, {2, "not an object"}, {3, "time not understood"}, {5, "not JSON"}, {6, "time is missing"}} {
		if r := a.body.Refused[i]; r.Index != want.index || r.Code != "invalid" || !strings.Contains(r.Message, want.text) {
			t.Errorf("refused %+v, want %+v", r, want)
		}
	}
	if !strings.Contains(s.log.String(), "id=my-id method=POST path=/v1/events status=202") {
		t.Error("the access log does not have the request")
	}
	a = s.post(t, "["+strings.Repeat(`{},`, 500)+`{}]`)
	if a.status != 400 || a.body.Error.Code != "invalid" || a.body.Error.Index == nil || *a.body.Error.Index != 0 || a.body.Error.RequestID == "" ||
		a.body.RefusedCount != 501 || len(a.body.Refused) != 100 || a.body.Accepted != 0 {
		t.Errorf("all invalid: %d %.300s", a.status, a.text)
	}
	large := `{"event":"` + strings.Repeat("a", sluice.MaxElementBytes) + `"}`
	if a := s.post(t, large); a.status != 413 && a.status != 400 || a.body.Error.Code != "too_large" {
		t.Errorf("a large item: %d %.200s", a.status, a.text)
	}
	for _, tt := range []struct {
		body    string
		headers []string
		status  int
		code    string
	}{
		{"", nil, 400, "invalid"}, {"nonsense", nil, 400, "invalid"}, {"\x00\xff\xfe", nil, 400, "invalid"}, {`{"event":"\ud800"}`, nil, 400, "invalid"},
		{`[{"event":"a"}`, nil, 400, "invalid"}, {`[{"event":"a"}]]`, nil, 400, "invalid"}, {`{"event":"a"}{"event":"b"}`, nil, 400, "invalid"},
		{"\n\n", []string{"Content-Type", "application/x-ndjson"}, 400, "invalid"},
		{strings.Repeat("[", 100_000), nil, 400, "invalid"}, {"[" + strings.Repeat(`{"a":`, 100_000) + "]", nil, 400, "invalid"},
		{"[" + strings.Repeat("{},", 10_000) + "{}]", nil, 413, "too_large"},
		{`{"event":"a"}`, []string{"Content-Type", "text/xml"}, 415, "invalid"},
		{`{"event":"a"}`, []string{"Content-Encoding", "br"}, 415, "invalid"},
		{`{"event":"a"}`, []string{"Content-Encoding", "gzip"}, 400, "invalid"},
		{`{"event":"a"}`, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, "invalid"},
		{`{"event":"a"}`, []string{"Idempotency-Key", "a b"}, 400, "invalid"},
		{`{"event":"a"}`, []string{"Idempotency-Key", ""}, 400, "invalid"},
		{`{"event":"a"}`, []string{"Authorization", "Bearer no"}, 401, "unauthorized"},
	} {
		if a := s.post(t, tt.body, tt.headers...); a.status != tt.status || a.body.Error.Code != tt.code {
			t.Errorf("%.40q %.60q: %d %.200s, want %d %s", tt.body, tt.headers, a.status, a.text, tt.status, tt.code)
		}
	}
	s.awaitRows(t, 2, 0)
	if n := s.metric(t, "sluice_dead_letters_total"); n != 0 {
		t.Errorf("%d dead letters: what is refused is not kept", n)
	}
}

// 100 MB are refused without being held, whether their size is said or not.
func TestEventsTooLarge(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	const size = 100 << 20
	for _, chunked := range []bool{false, true} {
		r, err := http.NewRequest("POST", s.url+"/v1/events", io.LimitReader(spaces{}, size))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+testRoot)
		r.Header.Set("Expect", "100-continue")
		if r.ContentLength = size; chunked {
			r.ContentLength = -1
		}
		// The server answers and closes while the body is still being sent, so
		// a client may see the answer or the broken connection.
		res, err := s.client.Do(r)
		if err != nil {
			if !chunked {
				t.Error(err)
			}
			continue
		}
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("chunked %v: %d", chunked, res.StatusCode)
		}
		res.Body.Close()
	}
	if _, body := s.get(t, "/metrics"); !strings.Contains(body, `sluice_http_events_requests_total{status="413"} 2`) {
		t.Error("they were not refused for their size")
	}
	s.accepted(t, 1, `{"event":"a"}`)
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// A user's events keep their order, within a request and from one to the next.
func TestEventsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	const users, requests, each = 7, 20, 140
	var wait sync.WaitGroup
	for group := range 3 { // several senders, each with users of its own
		wait.Go(func() {
			for r := range requests {
				var body bytes.Buffer
				for i := range each {
					n := r*each + i
					fmt.Fprintf(&body, `{"event":"n%06d","user_id":"g%d-u%d"}`+"\n", n, group, n%users)
				}
				if a, err := s.try(&body, "Content-Type", "application/x-ndjson"); err != nil || a.status != 202 || a.body.Accepted != each {
					t.Errorf("%v %d %s", err, a.status, a.text)
					return
				}
			}
		})
	}
	wait.Wait()
	const many = 9000 // of one user in one request: several batches
	var large bytes.Buffer
	for i := range many {
		fmt.Fprintf(&large, `{"event":"n%06d","user_id":"many","note":"%0100d"}`+"\n", i, i)
	}
	s.accepted(t, many, large.String(), "Content-Type", "application/x-ndjson")
	s.awaitRows(t, 3*requests*each+many, 0)
	last := map[string]string{}
	for _, row := range s.texts(t, "SELECT user_ref || ' ' || part || ' ' || name FROM events ORDER BY part, pos_major, pos_minor, item") {
		words := strings.Fields(row)
		user, name := words[0]+" in partition "+words[1], words[2]
		if last[user] >= name {
			t.Fatalf("%s: %s is behind %s", user, name, last[user])
		}
		last[user] = name
	}
	if len(last) != 3*users+1 {
		t.Errorf("%d users in partitions, want %d: a user is in several", len(last), 3*users+1)
	}
}

// closed reports whether a server has closed a connection without an answer: net/http says
// it in several ways, and repeats no POST by itself.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || err != nil && strings.Contains(err.Error(), "server closed idle connection")
}

// A client whose connection was closed without an answer, since the machine is
// too busy for it to speak in time, sends its event again.
func TestThousandClients(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	const clients, each = 1000, 3
	began := time.Now()
	var closings atomic.Int64
	var wait sync.WaitGroup
	for c := range clients {
		wait.Go(func() {
			for i := range each {
				body := fmt.Sprintf(`{"event":"a","event_id":"%d-%d","time":1700000000000,"user_id":"u%d"}`, c, i, c)
				for {
					a, err := s.try(strings.NewReader(body))
					busy := err == nil && a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != ""
					if (busy || closed(err) && closings.Add(1) < 20*clients) && time.Since(began) < patience {
						clocktest.Rest(began)
						continue
					}
					if err != nil || a.status != http.StatusAccepted {
						t.Errorf("%v %d %s", err, a.status, a.text)
					}
					break
				}
			}
		})
	}
	wait.Wait()
	transport.CloseIdleConnections()
	stored := func() int { return len(s.texts(t, "SELECT event_id FROM events")) }
	await(t, "all events are stored", func() bool { return stored() >= clients*each })
	if n := stored(); n != clients*each {
		t.Errorf("%d events, want %d", n, clients*each)
	}
}

// Keys by the command: made, listed, used, lacking a permission, revoked.
func TestKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir, "SLUICE_ROOT_KEY=")
	made := mustRun(t, dir, "key", "create", "--name", "shop")
	if other := mustRun(t, dir, "key", "create", "--name", "other", "--data", t.TempDir()); !strings.Contains(other.stderr, "is it the right database?") || strings.Contains(made.stderr, "database") {
		t.Errorf("in a directory without a database: %s; with one: %s", other.stderr, made.stderr)
	}
	text := strings.TrimSpace(made.stdout)
	id := text[4:20]
	event := `{"event":"a"}`
	if a := s.post(t, event); a.status != 401 || a.header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("without a root key: %d %s", a.status, a.text)
	}
	s.accepted(t, 1, event, "Authorization", "Bearer "+text)
	wrong := s.post(t, event, "Authorization", "Bearer "+text[:len(text)-5]+"aaaaa", "X-Request-Id", "r")
	unknown := s.post(t, event, "Authorization", "Bearer slk_"+strings.Repeat("a", 16)+"_"+strings.Repeat("a", 52), "X-Request-Id", "r")
	nothing := s.post(t, event, "Authorization", "", "X-Request-Id", "r")
	if wrong.status != 401 || wrong.text != unknown.text || wrong.text != nothing.text {
		t.Errorf("it is told what was wrong: %s%s%s", wrong.text, unknown.text, nothing.text)
	}
	list := mustRun(t, dir, "key", "list").stdout
	if !strings.Contains(list, id) || !strings.Contains(list, "events:write  in force  shop") || strings.Contains(list, text[21:]) {
		t.Errorf("list: %s", list)
	}

	store, err := sqlstore.Open(t.Context(), "sqlite:"+s.database(), calm)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	mayNothing := addKeyWithout(t, store)
	if a := s.post(t, event, "Authorization", "Bearer "+mayNothing); a.status != 403 || a.body.Error.Code != "forbidden" || !strings.Contains(a.body.Error.Message, "events:write") {
		t.Errorf("a key without the permission: %d %s", a.status, a.text)
	}

	mustRun(t, dir, "key", "revoke", id)
	await(t, "the revoked key is refused", func() bool {
		a := s.post(t, event, "Authorization", "Bearer "+text)
		return a.status == 401 && a.text != "" && a.body.Error.Message == wrong.body.Error.Message
	})
	if list := mustRun(t, dir, "key", "list", "--json").stdout; !strings.Contains(list, `"revoked":"`) {
		t.Errorf("list: %s", list)
	}
	if strings.Contains(s.log.String(), text[21:]) {
		t.Error("the log shows a key")
	}
}

// redis is a connection to the embedded Redis.
func (s *served) redis(t *testing.T) rueidis.Client { return redisOf(t, filepath.Join(s.dir, "data")) }

// redisOf connects to the embedded Redis of a data directory.
func redisOf(t *testing.T, data string) rueidis.Client {
	t.Helper()
	cfg := config.Default()
	cfg.Data = data
	url, err := os.ReadFile(engine.EmbeddedNote(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return redisAt(t, string(url))
}

// redisAt connects to a Redis.
func redisAt(t *testing.T, url string) rueidis.Client {
	t.Helper()
	option, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	option.DisableCache = true
	c, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A full Redis is told as such, and what is repeated afterwards is in once.
func TestEventsWhenRedisIsFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	c := s.redis(t)
	memory := func(bytes string) {
		t.Helper()
		if err := c.Do(t.Context(), c.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", bytes).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	body := `[{"event":"a"},{"event":"b"}]`
	memory("1")
	for _, headers := range [][]string{nil, {"Idempotency-Key", "k"}} {
		a := s.post(t, body, headers...)
		if a.status != 503 || a.header.Get("Retry-After") == "" || a.body.Error.Code != "unavailable" || !strings.Contains(a.body.Error.Message, "a part of this request may be in") {
			t.Errorf("%d %s", a.status, a.text)
		}
	}
	memory("0")
	s.accepted(t, 2, body, "Idempotency-Key", "k")
	s.awaitRows(t, 2, 0)
}

// While the program stops, everything that was answered 202 is stored, and
// everybody else is told to come again or finds nobody there.
func TestEventsWhileStopping(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	var mu sync.Mutex
	in := map[string]bool{}
	var wait sync.WaitGroup
	for c := range 20 {
		wait.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d", c, i)
				a, err := s.try(strings.NewReader(`{"event":"a","event_id":"` + id + `","time":1700000000000}`))
				if err != nil {
					return
				}
				if a.status == http.StatusAccepted {
					mu.Lock()
					in[id] = true
					mu.Unlock()
				} else if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(a.text, "nothing") {
					t.Errorf("%d %s", a.status, a.text)
				}
			}
		})
	}
	await(t, "some are in", func() bool { mu.Lock(); defer mu.Unlock(); return len(in) > 200 })
	s.signals <- syscall.SIGTERM
	if code := <-s.done; code != exitOK {
		t.Errorf("exit code %d:\n%s", code, s.log)
	}
	s.done <- exitOK
	wait.Wait()
	again := startServe(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	await(t, "all that was accepted is stored", func() bool {
		stored := map[string]bool{}
		for _, id := range again.texts(t, "SELECT event_id FROM events") {
			stored[id] = true
		}
		for id := range in {
			if !stored[id] {
				return false
			}
		}
		return true
	})
}

// addKeyWithout stores a key that has no permission.
func addKeyWithout(t *testing.T, db *sqlstore.Store) string {
	t.Helper()
	id, text := key.New()
	hash := key.HashOf(text)
	if err := db.AddKey(t.Context(), store.APIKey{ID: id, Hash: hash[:], CreatedMillis: 1}); err != nil {
		t.Fatal(err)
	}
	return text
}

// A key that sends more than it may is told when to come again, and nothing of
// that request is taken; others are not concerned.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir, "SLUICE_ROOT_KEY="+testRoot, "SLUICE_KEY_ITEMS_PER_SECOND=1")
	words := []string{"--permission", "events:write,counters:write,series:read"}
	key := "Bearer " + strings.TrimSpace(mustRun(t, dir, append([]string{"key", "create"}, words...)...).stdout)
	other := "Bearer " + strings.TrimSpace(mustRun(t, dir, append([]string{"key", "create"}, words...)...).stdout)
	thousand := "[" + strings.Repeat(`{"event":"a"},`, 999) + `{"event":"a"}]`
	s.accepted(t, 1000, thousand, "Authorization", key)
	for _, r := range [][3]string{{"POST", "/v1/events", `{"event":"refused"}`}, {"POST", "/v1/counters", `{"name":"refused"}`}, {"GET", "/v1/series", ""}} {
		status, text := s.ask(t, r[0], r[1], r[2], "Authorization", key)
		if status != http.StatusTooManyRequests || !strings.Contains(text, `"code":"too_fast"`) {
			t.Errorf("%s: %d %s", r[1], status, text)
		}
	}
	a := s.post(t, `{"event":"refused"}`, "Authorization", key)
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 900 || seconds > 996 {
		t.Errorf("Retry-After %q of a key that is 995 items in debt", a.header.Get("Retry-After"))
	}
	if status, text := s.ask(t, "GET", "/debug/pprof/cmdline", "", "Authorization", key); status != http.StatusForbidden {
		t.Errorf("what has no items is bounded too: %d %s", status, text)
	}
	s.accepted(t, 1, `{"event":"b"}`, "Authorization", other)
	s.accepted(t, 1000, thousand)
	s.accepted(t, 1, `{"event":"b"}`)
	s.awaitRows(t, 2002, 0)
	if got := s.texts(t, "SELECT name FROM events WHERE name = 'refused'"); len(got) != 0 {
		t.Errorf("%d events of refused requests are stored", len(got))
	}
}
