package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/mail"
	"sluice/test/sink"
)

const modesFile = `
partitions: 2
start_seconds: 30
in_doubt_seconds: 1
domains: {check: false}
allow_list: [Me@allowed.example, list.example, '*.open.example']
mailboxes: {within_seconds: 1}
routes: {relay: {smtp: {url: 'smtp://%s', plain: true}}}
sending: '%s'
`

// startMode starts a program in a mode, whose only route leads to a receiver.
func startMode(t *testing.T, dir, mode string, receiver *sink.Sink) *served {
	t.Helper()
	configure(t, dir, fmt.Sprintf(modesFile, receiver.Addr(), mode))
	return serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
}

func startReceiver(t *testing.T) *sink.Sink {
	t.Helper()
	receiver, err := sink.Start(sink.Options{Keep: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = receiver.Close() })
	return receiver
}

// got are the recipients of all that a receiver has taken.
func got(receiver *sink.Sink) (all []string) {
	for _, m := range receiver.Mails() {
		all = append(all, m.To...)
	}
	slices.Sort(all)
	return all
}

// mailed hands messages in that must be accepted.
func (s *served) mailed(t *testing.T, body string) {
	t.Helper()
	if status, text := s.ask(t, http.MethodPost, "/v1/messages", body); status != http.StatusAccepted || !strings.Contains(text, `"refused_count":0`) {
		t.Fatalf("%d %s", status, text)
	}
}

// counted are the sends of the ledger in a state, by route: "route n", ...
func (s *served) counted(t *testing.T, state mail.SendState) string {
	t.Helper()
	return strings.Join(s.texts(t, fmt.Sprintf("SELECT route || ' ' || COUNT(*) FROM sends WHERE state = '%s' GROUP BY route ORDER BY route", state)), ", ")
}

// With allow-list nobody gets mail but who is on the list, whatever the mail asks
// for and whatever the receiver says first; all other goes into the mailboxes.
func TestNothingButTheAllowedLeaves(t *testing.T) {
	t.Parallel()
	receiver := startReceiver(t)
	s := startMode(t, t.TempDir(), "allow-list", receiver)
	s.mailed(t, `{"from":"shop@example.com","subject":"s","text":"t","to":["ME@allowed.example","you@allowed.example","a@list.example"],"cc":["a@sub.list.example","a@LIST.example","b@x.open.example"],
		"bcc":["a@open.example","a@list.example.evil.example","me@allowed.example.evil.example","list.example@evil.example"]}`)
	s.mailed(t, `[{"from":"shop@example.com","subject":"s","text":"t","to":"you@other.example","route":"relay","priority":"high"},
		{"from":"shop@example.com","subject":"s","text":"t","to":"\"me@allowed.example\"@other.example","class":"marketing"},
		{"from":"me@allowed.example","to":"you@other.example","raw":"RnJvbTogbWVAYWxsb3dlZC5leGFtcGxlDQpUbzogbWVAYWxsb3dlZC5leGFtcGxlDQpTdWJqZWN0OiBzDQoNCnQNCg=="},
		{"from":"me@allowed.example","to":"me@allowed.example","subject":"large","html":"<p>`+strings.Repeat("many words ", 1000)+`"}]`)
	await(t, "all are sent", func() bool { return s.counted(t, mail.SendSent) == "relay 4, sink 9" })
	if all, want := got(receiver), []string{"ME@allowed.example", "a@list.example", "b@x.open.example", "me@allowed.example"}; !slices.Equal(all, want) {
		t.Errorf("%v got mail, want %v", all, want)
	}

	// So it is with mails that are sent to be looked at.
	if status, text := s.ask(t, http.MethodPost, "/v1/templates", `{"id":"welcome","subject":"Hi {{ name }}","html":"<p>{{ name }} {{${first_name}}}</p>","class":"marketing","from":"Shop <shop@example.com>"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	s.sent(t, http.StatusCreated, "/users/track/sync", `{"attributes":[{"external_id":"u-7","first_name":"Ann"}]}`)
	for _, to := range []string{"me@allowed.example", "you@other.example"} {
		status, text := s.ask(t, http.MethodPost, "/v1/templates/welcome/test", `{"to":"`+to+`","variables":{"name":"Bob"},"external_id":"u-7"}`)
		var answer struct {
			ID, Subject string
			Version     int
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusAccepted || answer.Subject != "[Test] Hi Bob" || answer.Version != 1 || len(answer.ID) != 32 {
			t.Fatalf("%d %s: %v", status, text, err)
		}
	}
	values := filepath.Join(s.dir, "values.json")
	if err := os.WriteFile(values, []byte(`{"name":"Cy"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"x@list.example", "you@other.example"} {
		if out := mustRun(t, s.dir, "template", "test", "welcome", "--to", to, "--vars", values).stdout; !strings.Contains(out, "on its way to "+to+" as message ") || !strings.Contains(out, "if allow_list has the address") {
			t.Error(out)
		}
	}
	await(t, "all are sent", func() bool { return s.counted(t, mail.SendSent) == "relay 6, sink 11" })
	mails := receiver.Mails()[4:]
	if len(mails) != 2 || !bytes.Contains(mails[0].Content, []byte("Subject: [Test] Hi Bob\r\n")) || !bytes.Contains(mails[0].Content, []byte("Bob Ann")) || !bytes.Contains(mails[1].Content, []byte("Subject: [Test] Hi Cy\r\n")) {
		t.Errorf("%d mails to be looked at: %v", len(mails), got(receiver))
	}
	if tags := s.texts(t, "SELECT DISTINCT priority || ' ' || class || ' ' || tags FROM sends WHERE tags <> ''"); !slices.Equal(tags, []string{"high transactional template-test"}) {
		t.Errorf("they are %q", tags)
	}
	if problems := receiver.Problems(); len(problems) > 0 {
		t.Error(problems)
	}
}

// With off nothing is even connected to, and mail waits; with sink it goes into
// the mailboxes; what has waited leaves with on, once.
func TestModes(t *testing.T) {
	t.Parallel()
	dir, receiver := t.TempDir(), startReceiver(t)
	message := func(to string) string {
		return `{"from":"shop@example.com","subject":"s","text":"t","to":"` + to + `"}`
	}
	s := startMode(t, dir, "off", receiver)
	s.mailed(t, message("a@list.example"))
	s.mailed(t, message("b@other.example"))
	await(t, "both are in the ledger", func() bool { return s.counted(t, mail.SendWaiting) == " 2" })
	if code := s.stop(t); code != exitOK || s.counted(t, mail.SendWaiting) != " 2" || receiver.Accepted() != 0 {
		t.Fatalf("off: exit code %d, waiting %q, %d connections", code, s.counted(t, mail.SendWaiting), receiver.Accepted())
	}
	s = startMode(t, dir, "on", receiver)
	await(t, "what has waited leaves", func() bool { return s.counted(t, mail.SendSent) == "relay 2" })
	if code := s.stop(t); code != exitOK || !slices.Equal(got(receiver), []string{"a@list.example", "b@other.example"}) || receiver.Duplicates() != 0 {
		t.Fatalf("on: exit code %d, %v got mail", code, got(receiver))
	}
	s = startMode(t, dir, "sink", receiver)
	s.mailed(t, message("c@list.example"))
	s.mailed(t, strings.Replace(message("d@other.example"), "{", `{"route":"relay",`, 1))
	await(t, "they are in the mailboxes", func() bool { return s.counted(t, mail.SendSent) == "relay 2, sink 2" })
	if code := s.stop(t); code != exitOK || receiver.Received() != 2 {
		t.Fatalf("sink: exit code %d, %v got mail", code, got(receiver))
	}
}
