package api

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"sluice/mail"
)

// taker keeps the drafts that are handed in.
type taker struct {
	mu     sync.Mutex
	drafts []mail.Draft
	err    error
}

func (s *taker) Submit(_ context.Context, _ string, drafts []mail.Draft) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	s.drafts = append(s.drafts, drafts...)
	return []string{drafts[0].ID}, nil
}

// A test of a template is a mail of high priority that says so. What cannot be
// rendered or addressed is refused, and nothing is sent.
func TestTemplateTest(t *testing.T) {
	x := startTemplates(t)
	taken := &taker{}
	x.p.submitter = taken
	_, text := addKey(t, x.store, "messages:send", "templates:read")
	x.ask(t, "POST", "", welcome, 201, nil)
	send := func(key, body string) called { return callBraze(t, x.url+"/welcome/test", "POST", key, body) }
	got := send("Bearer "+text, `{"to":"Ann@Bücher.example","variables":{"n":"<5>"},"external_id":"u-7"}`)
	if got.status != 202 || len(taken.drafts) != 1 || !strings.Contains(got.body, `"version":1,"subject":"[Test] Hi Ann \u003c3"`) {
		t.Fatalf("%d %s, %d drafts", got.status, got.body, len(taken.drafts))
	}
	d := taken.drafts[0]
	if d.Priority != mail.PriorityHigh || d.Class != mail.ClassTransactional || d.Form != mail.ContentMIME || strings.Join(d.Tags, " ") != "template-test" ||
		d.From != "s@example.com" || len(d.To) != 1 || d.To[0] != "Ann@xn--bcher-kva.example" || !strings.Contains(got.body, d.ID) {
		t.Errorf("%+v", d)
	}
	for _, part := range []string{"From: S <s@example.com>\r\n", "Subject: [Test] Hi Ann <3\r\n", "X-Ref: <5>\r\n", "<p>Ann &lt;3 &lt;5", "Message-ID: <" + d.ID + "@example.com>"} {
		if !strings.Contains(string(d.Content), part) {
			t.Errorf("no %q in\n%s", part, d.Content)
		}
	}
	for body, want := range map[string]string{
		`{"variables":{"n":1},"external_id":"u-7"}`:                                       "address",
		`{"to":"nobody","variables":{"n":1},"external_id":"u-7"}`:                         "address",
		`{"to":"a@example.com\r\nBcc: b@example.com","variables":{},"external_id":"u-7"}`: "",
		`{"to":["a@example.com"]}`:                                                        "to: want a text",
		`{"to":"a@example.com","from":"x","variables":{"n":1},"external_id":"u-7"}`:       "",
		`{"to":"a@example.com","external_id":"u-7"}`:                                      "html, line 1: n is not given",
		`{"to":"a@example.com","class":"marketing"}`:                                      `\"class\" is not known`,
	} {
		if got := send("Bearer "+text, body); got.status != 400 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s, want %q", body, got.status, got.body, want)
		}
	}
	x.ask(t, "PUT", "/welcome", `{"subject":"s","text":"t"}`, 200, nil)
	if got := send("Bearer "+text, `{"to":"a@example.com"}`); got.status != 400 || !strings.Contains(got.body, "from: is needed") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := send("Bearer "+text, `{"to":"a@example.com","from":"me@example.com"}`); got.status != 202 {
		t.Errorf("%d %s", got.status, got.body)
	}
	for key, want := range map[string]int{"": 401, x.read: 403, x.write: 403} {
		if got := send(key, `{"to":"a@example.com","from":"me@example.com"}`); got.status != want {
			t.Errorf("%d %s, want %d", got.status, got.body, want)
		}
	}
	x.ownProfileOnly(t, send)
	taken.err = errors.New("redis is away")
	if got := send("Bearer "+text, `{"to":"a@example.com","from":"me@example.com"}`); got.status != 503 || len(taken.drafts) != 3 {
		t.Errorf("%d %s, %d drafts", got.status, got.body, len(taken.drafts))
	}
}

// ownProfileOnly: with messages:send alone a test is made for a user only if it
// goes to the user's own address. Nobody learns which users exist.
func (x *templates) ownProfileOnly(t *testing.T, send func(key, body string) called) {
	t.Helper()
	_, text := addKey(t, x.store, "messages:send")
	x.ask(t, "PUT", "/welcome", `{"subject":"Hi {{${first_name}}}","text":"t","from":"s@example.com"}`, 200, nil)
	var refusals []string
	for _, user := range []string{`"external_id":"u-7"`, `"external_id":"nobody"`, `"braze_id":"000000010000000000000001"`, `"braze_id":"000000010000000000000009"`} {
		got := send("Bearer "+text, `{"to":"thief@example.com",`+user+`}`)
		if got.status != 403 || strings.Contains(got.body, "Ann") {
			t.Errorf("%s: %d %s", user, got.status, got.body)
		}
		refused, _, _ := strings.Cut(got.body, `"request_id"`)
		refusals = append(refusals, refused)
	}
	for _, r := range refusals {
		if r != refusals[0] {
			t.Errorf("the refusals tell which users exist: %s", refusals)
		}
	}
	if got := send("Bearer "+text, `{"to":"ANN@example.com","external_id":"u-7"}`); got.status != 202 || strings.Contains(got.body, "Ann") || strings.Contains(got.body, "subject") {
		t.Errorf("to their own address: %d %s", got.status, got.body)
	}
	if got := send("Bearer "+text, `{"to":"thief@example.com","template":"nothing"}`); got.status != 400 {
		t.Errorf("%d %s", got.status, got.body)
	}
}
