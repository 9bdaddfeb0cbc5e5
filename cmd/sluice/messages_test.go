package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Mail that is handed in is in the ledger once, whatever is repeated; large
// contents are stored beside it. What waits is cancelled, what is due goes out.
func TestMessages(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	body := `[{"from":"Shop <shop@example.com>","to":["ann@example.com","bob@example.com"],"subject":"small","text":"hello","send_at":"2027-06-01T00:00:00Z"},
		{"from":"nobody","to":"ann@example.com","text":"refused"},
		{"from":"shop@example.com","to":{"email":"cy@example.com","user_id":"u-7"},"subject":"large","send_at":"2027-06-01T00:00:00Z","html":"<p>` + strings.Repeat("many words ", 1000) + `"}]`
	var first, again struct {
		Accepted int
		Refused  []struct{ Index int }
		Messages []struct {
			Index, Recipients int
			ID                string
		}
	}
	for _, answer := range []any{&first, &again} {
		status, text := s.ask(t, http.MethodPost, "/v1/messages", body, "Idempotency-Key", "mail-1")
		if err := json.Unmarshal([]byte(text), answer); err != nil || status != http.StatusAccepted {
			t.Fatalf("%d %s: %v", status, text, err)
		}
	}
	if first.Accepted != 2 || len(first.Messages) != 2 || first.Refused[0].Index != 1 || first.Messages[1].Index != 2 || first.Messages[0].Recipients != 2 {
		t.Fatalf("%+v", first)
	}
	for i := range first.Messages {
		if first.Messages[i] != again.Messages[i] {
			t.Errorf("a repeat was answered %+v, the first %+v", again.Messages[i], first.Messages[i])
		}
	}
	if status, text := s.ask(t, http.MethodPost, "/v1/messages", strings.Replace(body, "hello", "bye", 1), "Idempotency-Key", "mail-1"); status != http.StatusBadRequest || !strings.Contains(text, "Idempotency-Key") {
		t.Errorf("another body under the same key: %d %s", status, text)
	}
	path := "/v1/messages/" + first.Messages[0].ID
	await(t, "the message is in the ledger", func() bool {
		status, _ := s.ask(t, http.MethodGet, path, "")
		return status == http.StatusOK
	})
	await(t, "the other one, too", func() bool {
		status, text := s.ask(t, http.MethodGet, "/v1/messages/"+first.Messages[1].ID, "")
		return status == http.StatusOK && strings.Contains(text, `"user_id":"u-7"`)
	})
	if _, text := s.ask(t, http.MethodGet, path, ""); !strings.Contains(text, `"to":"ann@example.com","state":"waiting"`) || !strings.Contains(text, `"to":"bob@example.com"`) {
		t.Errorf("%s", text)
	}
	if got := strings.Join(s.texts(t, "SELECT COUNT(*) FROM sends"), ""); got != "3" {
		t.Errorf("%s sends are in the ledger, 3 were accepted", got)
	}
	if got := strings.Join(s.texts(t, "SELECT COUNT(*) FROM bodies"), ""); got != "1" {
		t.Errorf("%s contents are stored, of one large message", got)
	}
	// What the ledger does not know in time is open in the answer, and a repeat says more.
	awaitFound(t, "both recipients are cancelled", func() (any, bool) {
		var left struct{ Cancelled, Open int }
		began := time.Now()
		status, text := s.ask(t, http.MethodDelete, path, "")
		err := json.Unmarshal([]byte(text), &left)
		done := err == nil && status == http.StatusOK && left.Cancelled == 2 && left.Open == 0
		if !done && status == http.StatusOK && time.Since(began) < shownWithin {
			t.Fatalf("%d %s: %v", status, text, err)
		}
		return text, done
	})
	_, text := s.ask(t, http.MethodPost, "/v1/messages", `{"from":"shop@example.com","to":"dan@example.com","subject":"now","text":"hello"}`)
	if err := json.Unmarshal([]byte(text), &first); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	await(t, "a message is sent", func() bool {
		_, text := s.ask(t, http.MethodGet, "/v1/messages/"+first.Messages[0].ID, "")
		return strings.Contains(text, `"state":"sent"`)
	})
}

// A message that was refused when its request came first, for its template was
// missing, is taken and sent when the request is repeated and it is there.
func TestRepeatWithMoreMessages(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	var body strings.Builder
	for range 8 { // in the partition of the other one too
		body.WriteString(`{"from":"shop@example.com","to":"ann@example.com","text":"hello","send_at":"2027-06-01T00:00:00Z"},`)
	}
	request := "[" + body.String() + `{"from":"shop@example.com","to":"ann@example.com","template":{"id":"late"},"send_at":"2027-06-01T00:00:00Z"}]`
	post := func(key string) (int, string) {
		return s.ask(t, http.MethodPost, "/v1/messages", request, "Idempotency-Key", key)
	}
	for range 2 {
		if status, text := post("one"); status != http.StatusAccepted || !strings.Contains(text, `"accepted":8,"refused_count":1`) {
			t.Fatalf("%d %s", status, text)
		}
	}
	if status, text := s.ask(t, http.MethodPost, "/v1/templates", `{"id":"late","name":"late","class":"transactional","subject":"s","html":"<p>x</p>","from":"shop@example.com"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := post("one"); status != http.StatusAccepted || !strings.Contains(text, `"accepted":9,"refused_count":0`) {
		t.Errorf("a repeat of which more can be taken: %d %s", status, text)
	}
	if status, text := post("two"); status != http.StatusAccepted || !strings.Contains(text, `"accepted":9,"refused_count":0`) {
		t.Errorf("%d %s", status, text)
	}
	await(t, "all that was answered as accepted is in the ledger", func() bool {
		return strings.Join(s.texts(t, "SELECT COUNT(*) FROM sends"), "") == "18"
	})
}

// What no route takes was not accepted: repeated when the routes have changed, it
// is taken then, and what was accepted before is not sent again.
func TestRepeatAfterRoutesChange(t *testing.T) {
	t.Parallel()
	dir, receiver := t.TempDir(), startReceiver(t)
	start := func(domains string) *served {
		t.Helper()
		configure(t, dir, serveFile+"sending: on\nroutes: {relay: {smtp: {url: 'smtp://"+receiver.Addr()+"', plain: true}"+domains+"}}\n")
		return serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	}
	s := start(", domains: [example.com]")
	var messages []string
	for i := range 12 { // some in each partition, and one in some
		messages = append(messages, fmt.Sprintf(`{"from":"shop@example.com","to":["u%d@example.com","v%d@example.com"],"text":"t"}`, i, i))
	}
	messages = slices.Insert(messages, 5, `{"from":"shop@example.com","to":["bob@other.example","cy@other.example","dan@other.example"],"text":"t"}`)
	post := func(want string) {
		t.Helper()
		status, text := s.ask(t, http.MethodPost, "/v1/messages", "["+strings.Join(messages, ",")+"]", "Idempotency-Key", "one")
		if status != http.StatusAccepted || !strings.Contains(text, want) {
			t.Fatalf("%d %s, want %s", status, text, want)
		}
	}
	for range 2 {
		post(`"accepted":12,"refused_count":1`)
	}
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	s = start("")
	for range 2 {
		post(`"accepted":13,"refused_count":0`)
	}
	await(t, "all that was accepted is sent", func() bool {
		return strings.Join(s.texts(t, "SELECT state || ' ' || COUNT(*) FROM sends GROUP BY state"), ", ") == "sent 27"
	})
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	// What was accepted stays so, also where it would be refused by now.
	s = start(", domains: [example.net]")
	post(`"accepted":13,"refused_count":0`)
	if n := receiver.Received(); n != 27 {
		t.Errorf("%d mails arrived, want 27: each once", n)
	}
}
