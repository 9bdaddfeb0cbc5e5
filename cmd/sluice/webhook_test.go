package main

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// hookTaken is what a receiver of webhooks has got.
type hookTaken struct {
	mu       sync.Mutex
	ids      []string // of events
	unsigned int
	down     bool
}

// serve takes a request whose signature is right, unless it is down.
func (h *hookTaken) serve(secret *string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got struct {
			Data struct {
				Events []struct {
					ID string `json:"event_id"`
				}
			}
		}
		if err != nil || json.Unmarshal(body, &got) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(*secret, "whsec_"))
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
		switch {
		case r.Header.Get("webhook-signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)):
			h.unsigned++
			w.WriteHeader(http.StatusUnauthorized)
		case h.down:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			for _, e := range got.Data.Events {
				h.ids = append(h.ids, e.ID)
			}
		}
	}
}

// has reports whether these events have come, each at least once.
func (h *hookTaken) has(want ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(want, func(id string) bool { return !slices.Contains(h.ids, id) })
}

// An endpoint that the command makes gets events from a list, through a restart and
// through its own absence; the API shows it, changes it, tests it and replays.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken, secret := &hookTaken{}, ""
	receiver := httptest.NewServer(taken.serve(&secret))
	t.Cleanup(receiver.Close)
	configure(t, dir, serveFile+"webhooks: {allow_hosts: [127.0.0.1]}\n")
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	made := map[string]any{}
	status, body := s.ask(t, "POST", "/v1/webhooks", `{"url":"`+receiver.URL+`","types":["mail.clicked"]}`)
	if err := json.Unmarshal([]byte(body), &made); err != nil || status != http.StatusCreated {
		t.Fatal(status, body)
	}
	taken.mu.Lock()
	secret = fmt.Sprint(made["secret"])
	taken.mu.Unlock()
	path := "/v1/webhooks/" + fmt.Sprint(made["id"])
	pushAll(t, dir, element("e1", "opened"), element("e2", "clicked"))
	await(t, "an event comes", func() bool { return taken.has("e2") })
	if status, body := s.ask(t, "GET", path, ""); status != 200 || strings.Contains(body, "whsec_") || !strings.Contains(body, `"status":"on"`) {
		t.Errorf("%d %s", status, body)
	}
	for _, bad := range []string{`{"url":"http://example.com"}`, `{"url":"https://10.0.0.1/"}`, `{"types":["x"]}`, `{"batch":0}`, `{"no":1}`} {
		if status, body := s.ask(t, "PATCH", path, bad); status != 400 {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	if line := mustRun(t, dir, "webhook", "list").stdout; !strings.Contains(line, "  on  http://127.0.0.1:") || !strings.Contains(line, "mail.clicked") {
		t.Errorf("listed: %s", line)
	}
	if status, body := s.ask(t, "POST", path+"/test", `{}`); status != 200 || !strings.Contains(body, `"delivered":true`) {
		t.Errorf("test: %d %s", status, body)
	}

	taken.mu.Lock()
	taken.down = true
	taken.mu.Unlock()
	pushAll(t, dir, element("e3", "clicked"))
	await(t, "an attempt fails", func() bool {
		_, body := s.ask(t, "GET", path+"/deliveries?limit=1", "")
		return strings.Contains(body, `"outcome":"failed"`) && strings.Contains(body, `"status":503`)
	})
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	taken.mu.Lock()
	taken.down = false
	taken.mu.Unlock()
	s = serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	pushAll(t, dir, element("e4", "clicked"), element("e5", "opened"))
	await(t, "what failed comes, and what is behind it", func() bool { return taken.has("e3", "e4") })
	if taken.has("e1") || taken.has("e5") || taken.unsigned > 0 {
		t.Errorf("got %v, %d unsigned", taken.ids, taken.unsigned)
	}
	mustRun(t, dir, "webhook", "set", fmt.Sprint(made["id"]), "--types", "all", "--batch", "1000")
	if status, body := s.ask(t, "POST", path+"/replay", `{"from":"2020-01-01T00:00:00Z"}`); status != 204 {
		t.Errorf("replay: %d %s", status, body)
	}
	await(t, "all come again", func() bool { return taken.has("e1", "e2", "e3", "e4", "e5") })
	if status, _ := s.ask(t, "DELETE", path, ""); status != 204 {
		t.Errorf("deleted: %d", status)
	}
	if status, _ := s.ask(t, "GET", path, ""); status != 404 {
		t.Errorf("after it was deleted: %d", status)
	}
}

// stream opens a stream of events behind an id.
func (s *served) stream(ctx context.Context, t *testing.T, key, query, last string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+"/v1/events/stream"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Last-Event-ID", last)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// listen reads a stream of events until a part of it is enough: its data, and the id that
// stands behind it. Where the database is slow the stream may be refused, or end. Then it
// goes on behind the last id, as a browser does, and what had no id comes again.
func (s *served) listen(t *testing.T, key, query, last string, enough func(data []string, id string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ends := 0
	awaitFound(t, "enough of a stream", func() (any, bool) {
		answer := s.stream(ctx, t, key, query, last)
		defer answer.Body.Close()
		if answer.StatusCode == http.StatusServiceUnavailable {
			return answer.Status, false
		}
		if answer.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%s, %s", answer.Status, answer.Header)
		}
		var data []string
		lines := bufio.NewScanner(answer.Body)
		for lines.Scan() {
			switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
			case "data":
				data = append(data, value)
			case "id":
				if last = value; enough(data, last) {
					return nil, true
				}
				data = nil
			}
		}
		if ends++; ends > 10 {
			t.Fatalf("the stream ended %d times, now behind %s: %v", ends, last, lines.Err())
		}
		return fmt.Sprintf("the stream ended behind %s: %v", last, lines.Err()), false
	})
}

// follow reads a stream of events until an event has an id.
func (s *served) follow(t *testing.T, query, last, until string) (ids []string, id string) {
	t.Helper()
	s.listen(t, testRoot, query, last, func(data []string, at string) bool {
		for _, text := range data {
			var e struct {
				ID string `json:"event_id"`
			}
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				t.Fatal(text, err)
			}
			ids = append(ids, e.ID)
		}
		id = at
		return until == "" || slices.Contains(ids, until)
	})
	return ids, id
}

// A stream that goes on from an id has what came meanwhile, through a restart; a filter
// holds; beyond the bound there are no more.
func TestStreamOfEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir)
	_, id := s.follow(t, "", "", "")
	pushAll(t, dir, element("e1", "opened"), element("e2", "clicked"))
	ids, id := s.follow(t, "", id, "e2")
	if !slices.Equal(ids, []string{"e1", "e2"}) {
		t.Errorf("got %v", ids)
	}
	pushAll(t, dir, element("e3", "opened"))
	await(t, "it is stored", func() bool { return rowsIn(t, filepath.Join(dir, "data", "sluice.db")) == 3 })
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	s = startServe(t, dir)
	pushAll(t, dir, element("e4", "clicked"))
	if ids, _ := s.follow(t, "", id, "e4"); !slices.Equal(ids, []string{"e3", "e4"}) {
		t.Errorf("after a restart: %v", ids)
	}
	pushAll(t, dir, element("e5", "opened"), element("e6", "clicked"))
	if ids, _ := s.follow(t, "?types=mail.clicked&user_id=u1", id, "e6"); !slices.Equal(ids, []string{"e4", "e6"}) {
		t.Errorf("filtered: %v", ids)
	}
	for _, query := range []string{"?types=male", "?no=1"} {
		if status, body := s.ask(t, "GET", "/v1/events/stream"+query, ""); status != 400 {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	s.streamsAreBounded(t)
}

// streamsAreBounded: one key has half of the 32. All are opened anew where one of before
// has its place yet, or one ends or is refused, as it may while the database is slow.
func (s *served) streamsAreBounded(t *testing.T) {
	t.Helper()
	awaitFound(t, "17 of 33 streams are refused", func() (any, bool) {
		if open := s.metric(t, "sluice_event_streams"); open != 0 {
			return fmt.Sprint(open, " of before are open"), false
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		refused := 0
		for range 33 {
			answer := s.stream(ctx, t, testRoot, "", "")
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusServiceUnavailable {
				continue
			}
			if text, err := io.ReadAll(answer.Body); err == nil && strings.Contains(string(text), "streams of events are open") {
				refused++
			}
		}
		return fmt.Sprint(refused, " were refused"), refused == 17
	})
}
