package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/test/sink"
)

// startSending starts a program whose mail goes to a real server, and makes the
// users of the tests: ann has opted in, bob has unsubscribed, and cid is known by
// an alias alone.
func startSending(t *testing.T, environ ...string) (*served, *sink.Sink) {
	t.Helper()
	dir, relay := t.TempDir(), startReceiver(t)
	configure(t, dir, serveFile+"sending: on\nroutes: {relay: {smtp: {url: 'smtp://"+relay.Addr()+"', plain: true}}}\n")
	s := serveConfigured(t, dir, append(environ, "SLUICE_ROOT_KEY="+testRoot)...)
	for _, user := range []string{
		`"external_id":"ann","email":"ann@example.com","first_name":"Ann","email_subscribe":"opted_in","plan":"<gold>"`,
		`"external_id":"bob","email":"bob@example.com","first_name":"Bob","email_subscribe":"unsubscribed"`,
		`"user_alias":{"alias_name":"c","alias_label":"cookie"},"_update_existing_only":false,"email":"cid@example.com","first_name":"Cid"`,
	} {
		s.sent(t, http.StatusCreated, "/users/track/sync", `{"attributes":[{`+user+`}]}`)
	}
	return s, relay
}

// awaitMail waits until so many mails have come, and returns them by recipient.
func awaitMail(t *testing.T, relay *sink.Sink, count int) map[string][]byte {
	t.Helper()
	if err := relay.Await(t.Context(), count); err != nil {
		t.Fatal(err)
	}
	got := make(map[string][]byte)
	for _, m := range relay.Mails() {
		got[m.To[0]] = m.Content
	}
	return got
}

// What a call says is mailed to those who want it, with what is known of each at
// that moment; of the others the ledger says why not.
func TestBrazeSends(t *testing.T) {
	t.Parallel()
	s, relay := startSending(t)
	var sent struct {
		DispatchID string `json:"dispatch_id"`
		Errors     []string
	}
	text := s.sent(t, http.StatusCreated, "/messages/send", `{"external_user_ids":["ann","none","bob"],"user_aliases":[{"alias_name":"c","alias_label":"cookie"}],
		"messages":{"email":{"app_id":"shop","from":"Shop <shop@example.com>","reply_to":"help@example.com","subject":"Hello {{${first_name}}}","body":"<p>{{custom_attribute.${plan} | default: 'none'}}</p>","headers":{"X-Ref":"7"}}}}`)
	if err := json.Unmarshal([]byte(text), &sent); err != nil || len(sent.Errors) != 1 || sent.Errors[0] != "external_user_ids[1]: there is no such user" {
		t.Fatalf("%s: %v", text, err)
	}
	got := awaitMail(t, relay, 2)
	for to, parts := range map[string][]string{
		"ann@example.com": {"Subject: Hello Ann\r\n", "&lt;gold&gt;", "Reply-To: help@example.com\r\n", "X-Ref: 7\r\n", "From: Shop <shop@example.com>\r\n"},
		"cid@example.com": {"Subject: Hello Cid\r\n", "none"},
	} {
		for _, part := range parts {
			if !bytes.Contains(got[to], []byte(part)) {
				t.Errorf("mail to %s has no %q:\n%s", to, part, got[to])
			}
		}
	}
	await(t, "the ledger has all", func() bool {
		_, life := s.ask(t, http.MethodGet, "/v1/messages/"+sent.DispatchID, "")
		return strings.Count(life, `"state":"sent","attempts":1`) == 2 && strings.Contains(life, `"user_id":"bob","state":"suppressed"`) && strings.Contains(life, `"reason":"unsubscribe"`)
	})
	if all := strings.Join(s.texts(t, "SELECT COUNT(*) FROM bodies"), ""); all != "0" {
		t.Errorf("%s contents are kept", all)
	}
}

// scheduling is a request for a mail to ann and bob later.
func scheduling(subject, schedule string) string {
	return `{"external_user_ids":["ann","bob"],"schedule":{` + schedule + `},
		"messages":{"email":{"app_id":"shop","from":"shop@example.com","subject":"` + subject + `","body":"b"}}}`
}

// scheduled has a mail to ann and bob scheduled, and returns the id.
func (s *served) scheduled(t *testing.T, subject, schedule string) string {
	t.Helper()
	var a struct {
		ScheduleID string `json:"schedule_id"`
	}
	text := s.sent(t, http.StatusCreated, "/messages/schedule/create", scheduling(subject, schedule))
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	return a.ScheduleID
}

// What is scheduled goes when it is time, as it was changed last, once; what is
// deleted does not.
func TestBrazeSchedules(t *testing.T) {
	t.Parallel()
	s, relay := startSending(t)
	// A time that is past when the request is looked at is refused, and another is taken.
	soon := func(path string, body func(schedule string) string) {
		t.Helper()
		awaitFound(t, path, func() (any, bool) {
			at := time.Now().Add(time.Second)
			status, text := s.ask(t, http.MethodPost, path, body(`"time":"`+at.UTC().Format("2006-01-02T15:04:05.000Z")+`"`))
			if late := status == http.StatusBadRequest && time.Now().After(at); status != http.StatusCreated && !late {
				t.Fatalf("%s: %d %s", path, status, text)
			}
			return text, status == http.StatusCreated
		})
	}
	create := func(subject, schedule string) string { return s.scheduled(t, subject, schedule) }
	later := time.Now().AddDate(0, 0, 2).UTC().Format(time.RFC3339)
	moved, gone := create("moved", `"time":"`+later+`"`), create("gone", `"time":"`+later+`"`)
	local := create("local", `"time":"`+time.Now().Add(2*time.Hour).UTC().Format("2006-01-02T15:04:05")+`","in_local_time":true`) // released at once
	s.sent(t, http.StatusCreated, "/messages/schedule/delete", `{"schedule_id":"`+gone+`"}`)
	soon("/messages/schedule/update", func(schedule string) string { return `{"schedule_id":"` + moved + `","schedule":{` + schedule + `}}` })
	soon("/messages/schedule/create", func(schedule string) string { return scheduling("soon", schedule) })
	awaitMail(t, relay, 2)
	await(t, "mail for a zone waits", func() bool {
		_, life := s.ask(t, http.MethodGet, "/v1/messages/"+strings.ReplaceAll(local, "-", ""), "")
		return strings.Contains(life, `"user_id":"ann","state":"waiting"`)
	})
	s.sent(t, http.StatusCreated, "/messages/schedule/delete", `{"schedule_id":"`+local+`"}`)
	await(t, "all are over", func() bool {
		return strings.Join(s.texts(t, "SELECT state || ' ' || COUNT(*) FROM schedules GROUP BY state ORDER BY state"), ", ") == "cancelled 1, released 3"
	})
	var subjects []string
	for _, m := range relay.Mails() {
		_, subject, _ := strings.Cut(string(m.Content), "Subject: ")
		subject, _, _ = strings.Cut(subject, "\r\n")
		subjects = append(subjects, subject)
	}
	slices.Sort(subjects)
	if fmt.Sprint(subjects) != "[moved soon]" {
		t.Errorf("sent: %v", subjects)
	}
	await(t, "the ledger has all", func() bool {
		return strings.Join(s.texts(t, "SELECT state || ' ' || COUNT(*) FROM sends GROUP BY state ORDER BY state"), ", ") == "cancelled 2, sent 2, suppressed 2"
	})
}

// A transactional mail is sent once, whatever is repeated, and the repeat says
// what has become of it. What is written with it is in it.
func TestBrazeTransactional(t *testing.T) {
	t.Parallel()
	s, relay := startSending(t)
	if status, text := s.ask(t, http.MethodPost, "/v1/templates", `{"id":"receipt","subject":"Order {{ order }} of {{${first_name}}}","text":"{{api_trigger_properties.${order}}}","from":"Shop <shop@example.com>"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	const path = "/transactional/v1/campaigns/receipt/send"
	call := func(body string) (a struct {
		DispatchID string `json:"dispatch_id"`
		Status     string
	}) {
		t.Helper()
		if err := json.Unmarshal([]byte(s.sent(t, http.StatusCreated, path, body)), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	// A user that the call makes: the address comes with it.
	const body = `{"external_send_id":"o-7","trigger_properties":{"order":7},"recipient":{"external_user_id":"new","attributes":{"email":"new@example.com","first_name":"Nina","orders":{"inc":1}}}}`
	first := call(body)
	if first.Status != "sent" {
		t.Errorf("%+v", first)
	}
	got := awaitMail(t, relay, 1)
	if !bytes.Contains(got["new@example.com"], []byte("Subject: Order 7 of Nina\r\n")) {
		t.Errorf("%s", got["new@example.com"])
	}
	await(t, "a repeat says that it was taken", func() bool {
		again := call(body)
		if again.DispatchID != first.DispatchID {
			t.Fatalf("%+v, the first was %+v", again, first)
		}
		return again.Status == "processed"
	})
	if other := call(strings.Replace(body, `"new"`, `"ann"`, 1)); other.DispatchID != first.DispatchID {
		t.Errorf("another user under the same name: %+v", other)
	}
	call(strings.Replace(body, "o-7", "o-8", 1))
	awaitMail(t, relay, 2)
	if got := relay.Received(); got != 2 {
		t.Errorf("%d mails, want 2", got)
	}
	if got := s.export(t, `{"external_ids":["new"]}`); len(got) != 1 || got[0].Custom["orders"] != 2.0 {
		t.Errorf("two orders of many calls: %+v", got)
	}
}
