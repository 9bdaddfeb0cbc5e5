package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/mail"
	"sluice/mail/template"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/servers"
)

// submitted keeps in memory what is handed in, or refuses it: what the spool
// does with it is tested with the program, in cmd/sluice.
type submitted struct {
	mu     sync.Mutex
	drafts []mail.Draft
	err    error
	never  string // a route by which nothing can be sent
	later  string // another one, which is looked at when nothing else is refused
}

func (s *submitted) Submit(_ context.Context, _ string, drafts []mail.Draft) (ids []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	var refused sluice.Refusals
	for i := range drafts {
		if s.never != "" && drafts[i].Route == s.never {
			refused = append(refused, &sluice.Error{Code: sluice.CodeInvalid, Index: i, Message: "no route takes it"})
		}
	}
	for i := range drafts {
		if refused == nil && s.later != "" && drafts[i].Route == s.later {
			return nil, sluice.Refusals{{Code: sluice.CodeInvalid, Index: i, Message: "nor this one"}}
		}
	}
	if refused != nil {
		return nil, refused
	}
	s.drafts = append(s.drafts, drafts...)
	for i := range drafts {
		ids = append(ids, drafts[i].ID)
	}
	return ids, nil
}

// mails is a server that takes mail.
type mails struct {
	url, key string
	p        *program
	to       *submitted
	store    *sqlstore.Store
}

func startMails(t *testing.T) *mails {
	t.Helper()
	s, url, p, _ := startBraze(t, Options{})
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	x := &mails{url: url + messagesPath, p: p, to: &submitted{}, store: p.keys.(*sqlstore.Store)}
	p.submitter, p.sends = x.to, x.store
	_, text := addKey(t, x.store, "messages:send")
	x.key = "Bearer " + text
	return x
}

// post hands in a body and returns what was said, and the drafts that came of it.
func (x *mails) post(t *testing.T, body string) (called, messagesOutcome, []mail.Draft) {
	t.Helper()
	x.to.drafts = nil
	got := callBraze(t, x.url, http.MethodPost, x.key, body)
	var outcome messagesOutcome
	if err := json.Unmarshal([]byte(got.body), &outcome); err != nil {
		t.Fatalf("%v: %s", err, got.body)
	}
	return got, outcome, x.to.drafts
}

const goodMail = `"from":"Ann <ann@example.com>","to":"bob@example.com"`

func TestMessages(t *testing.T) {
	x := startMails(t)
	if _, _, drafts := x.post(t, `{`+goodMail+`,"text":"x"}`); len(drafts) != 1 || len(drafts[0].Key) != 16 {
		t.Errorf("the draft has no key: %+v", drafts)
	}
	got, outcome, drafts := x.post(t, `{"from":{"email":"ann@bücher.example","name":"Zoë"},"to":["Bob <bob@example.com>",{"email":"cy@example.com","user_id":"u-7"}],
		"cc":"dan@example.com","bcc":["eve@example.com","BOB@example.com"],"reply_to":"r@example.com","subject":"Grüße 🎉","html":"<p>Hello <b>you</b>","preheader":"soon",
		"headers":[{"name":"X-Campaign","value":"autumn"}],"attachments":[{"name":"a.txt","content":"aGVsbG8="}],"priority":"high","class":"marketing",
		"send_at":"2027-01-31T10:20:00Z","expires_at":"2027-02-01T00:00:00Z","tags":["a","b c"],"metadata":{"order": 7},"app_id":"shop","route":"ses"}`)
	if got.status != 202 || outcome.Accepted != 1 || len(outcome.Messages) != 1 || len(drafts) != 1 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	d := drafts[0]
	if m := outcome.Messages[0]; m.ID != d.ID || !sluice.ValidMessageID(m.ID) || m.Recipients != 4 {
		t.Errorf("%+v", m)
	}
	if d.From != "ann@xn--bcher-kva.example" || !slices.Equal(d.To, []string{"bob@example.com", "cy@example.com", "dan@example.com", "eve@example.com"}) || !slices.Equal(d.Users, []string{"", "u-7", "", ""}) {
		t.Errorf("from %q to %q, users %q", d.From, d.To, d.Users)
	}
	if d.Priority != mail.PriorityHigh || d.Class != mail.ClassMarketing || d.Form != mail.ContentMIME || d.App != "shop" || d.Route != "ses" ||
		d.DueMillis != 1801390800000 || d.ExpiresMillis != 1801440000000 || !slices.Equal(d.Tags, []string{"a", "b c"}) || d.Metadata != `{"order": 7}` {
		t.Errorf("%+v", d)
	}
	m, err := netmail.ReadMessage(bytes.NewReader(d.Content))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"From": "=?utf-8?q?Zo=C3=AB?= <ann@xn--bcher-kva.example>", "To": "Bob <bob@example.com>, cy@example.com", "Cc": "dan@example.com",
		"Bcc": "", "Reply-To": "r@example.com", "X-Campaign": "autumn", "Message-Id": "<" + d.ID + "@xn--bcher-kva.example>"} {
		if got := m.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, part := range []string{"Hello you", "soon&zwnj;", "aGVsbG8=", "multipart/mixed", "multipart/alternative"} {
		if !bytes.Contains(d.Content, []byte(part)) {
			t.Errorf("no %q in %s", part, d.Content)
		}
	}
	_, _, drafts = x.post(t, `{`+goodMail+`,"text":"hello"}`)
	if d := drafts[0]; d.Priority != mail.PriorityNormal || d.Class != mail.ClassTransactional || d.DueMillis != 0 || d.ExpiresMillis != 0 || d.Metadata != "" {
		t.Errorf("presets: %+v", d)
	}
}

func TestRawMessages(t *testing.T) {
	x := startMails(t)
	raw := base64.StdEncoding.EncodeToString([]byte("From: Ann <ann@example.com>\nBcc: secret@example.com\nSubject: x\n\nhello\n"))
	got, _, drafts := x.post(t, `{"from":"bounces@example.com","to":["bob@example.com"],"raw":"`+raw+`"}`)
	if got.status != 202 || drafts[0].From != "bounces@example.com" {
		t.Fatalf("%d %s %+v", got.status, got.body, drafts)
	}
	content := string(drafts[0].Content)
	if !strings.HasPrefix(content, "From: Ann <ann@example.com>\r\nSubject: x\r\nDate: ") || !strings.HasSuffix(content, "\r\nMessage-ID: <"+drafts[0].ID+"@example.com>\r\n\r\nhello\r\n") {
		t.Errorf("%q", content)
	}
}

func TestTemplateMessages(t *testing.T) {
	x := startMails(t)
	for id, from := range map[string]string{"welcome": "Shop <shop@example.com>", "other": "{{ sender }}"} {
		err := x.store.AddTemplate(t.Context(), mail.Template{ID: id, Name: id}, mail.TemplateVersion{Template: id, Version: 1, Subject: "Hi {{ name }}", Text: "x", From: from, Class: mail.ClassMarketing})
		if err != nil {
			t.Fatal(err)
		}
	}
	got, _, drafts := x.post(t, `[{"to":["bob@example.com","cy@example.com"],"template":{"id":"welcome","variables":{"name":"Bob"}}},
		{"from":"a@example.com","to":"bob@example.com","class":"transactional","template":{"id":"other","version":1}}]`)
	if got.status != 202 || len(drafts) != 2 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	content, err := template.ParseContent(string(drafts[0].Content))
	if err != nil || content != (template.Content{Template: "welcome", Version: 1, Variables: `{"name":"Bob"}`}) {
		t.Errorf("%+v, %v", content, err)
	}
	if d := drafts[0]; d.Form != mail.ContentTemplate || d.From != "shop@example.com" || d.Class != mail.ClassMarketing || len(d.To) != 2 {
		t.Errorf("%+v", d)
	}
	if d := drafts[1]; d.From != "a@example.com" || d.Class != mail.ClassTransactional {
		t.Errorf("%+v", d)
	}
	for body, want := range map[string]string{
		`{"to":"b@example.com","template":{"id":"none"}}`:                                                                                "template: ",
		`{"to":"b@example.com","template":{"id":"welcome","version":2}}`:                                                                 "template: ",
		`{"to":"b@example.com","template":{"id":"other"}}`:                                                                               "from: is needed",
		`{"to":"b@example.com","template":{"id":"welcome"},"subject":"x"}`:                                                               "subject: a message with template",
		`{"to":"b@example.com","template":{"id":"welcome"},"raw":"eA=="}`:                                                                "raw and template",
		`{"to":"b@example.com","template":{"id":"welcome","variables":[]}}`:                                                              "template.variables: ",
		`{"to":"b@example.com","template":{"id":"welcome","x":1}}`:                                                                       "template: ",
		`{"to":"b@example.com","template":"welcome"}`:                                                                                    "template: ",
		`{"from":"Ann <a@example.com>","to":"b@example.com","template":{"id":"welcome"}}`:                                                "from: with a template",
		`{"to":"b@example.com","template":{"id":"welcome","variables":{"a":"` + strings.Repeat("x", template.MaxVariablesBytes) + `"}}}`: "template.variables: ",
	} {
		if got, outcome, _ := x.post(t, body); got.status != 400 || !strings.HasPrefix(outcome.Refused[0].Message, want) {
			t.Errorf("%.200s: %d %.300s, want %s", body, got.status, got.body, want)
		}
	}
}

// Each message is refused for itself, with the place and the field.
func TestMessagesThatAreRefused(t *testing.T) {
	x := startMails(t)
	many := func(n int, one string) string { return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]" }
	cases := map[string]string{
		`7`:                                "the body is no JSON object",
		`{}`:                               "from: want one address",
		`{"from":"a@b.com","text":"x"}`:    "to: want at least one",
		`{` + goodMail + `}`:               "the message is empty",
		`{` + goodMail + `,"subject":"x"}`: "the message is empty",
		`{` + goodMail + `,"text":"x","colour":"red"}`:                                                                           `"colour" is not known`,
		`{` + goodMail + `,"text":"x","text":"y"}`:                                                                               `"text" is not known, or there twice`,
		`{` + goodMail + `,"text":7}`:                                                                                            "text: want a text",
		`{"from":["a@b.com","c@d.com"],"to":"a@b.com","text":"x"}`:                                                               "from: want one address",
		`{"from":"a@b.com","to":["c@d.com","nobody"],"text":"x"}`:                                                                `to[1]: "nobody" is no address`,
		`{"from":"a@b.com","to":{"email":"c@d.com","nick":"x"},"text":"x"}`:                                                      "to: ",
		`{"from":"a@b.com","to":[{"email":"c@d"},{"name":"x"}],"text":"x"}`:                                                      "to[1].email: ",
		`{"from":"a@b.com","to":{"email":"c@d.com","user_id":"` + strings.Repeat("u", 129) + `"},"text":"x"}`:                    "to.user_id: want a text of at most 128 bytes",
		`{"from":"a@b.com","to":[7],"text":"x"}`:                                                                                 "to[0]: want an address",
		`{"from":"a@b.com","to":null,"text":"x"}`:                                                                                "to: want an address",
		`{"from":"a@b.com","to":"a@b.com\r\nBcc: x@y.com","text":"x"}`:                                                           "to: ",
		`{"from":{"email":"a@b.com","name":"A\r\nBcc: x@y.com"},"to":"a@b.com","text":"x"}`:                                      "from: the name has a line break",
		`{` + goodMail + `,"subject":"a\nBcc: x@y.com","text":"x"}`:                                                              "subject: has a line break",
		`{` + goodMail + `,"text":"x","headers":[{"name":"Bcc","value":"x@y.com"}]}`:                                             "headers.Bcc: this header is made from other fields",
		`{` + goodMail + `,"text":"x","headers":[{"name":"X-A","value":"a\r\nb"}]}`:                                              "headers.X-A: has a line break",
		`{` + goodMail + `,"text":"x","headers":{"X-A":"b"}}`:                                                                    "headers: want a list",
		`{` + goodMail + `,"text":"x","attachments":[{"name":"a"}]}`:                                                             "attachments[0].content: want",
		`{` + goodMail + `,"text":"x","attachments":[{"name":"a","content":"%%"}]}`:                                              "attachments[0].content: want base64",
		`{` + goodMail + `,"text":"x","attachments":[{"content":""},{"name":"a\n","content":""}]}`:                               "attachments[1].name: has a line break",
		`{` + goodMail + `,"text":"x","attachments":[{"content":"","type":"message/rfc822"}]}`:                                   "attachments[0].type: ",
		`{` + goodMail + `,"text":"x","attachments":` + many(101, `{"content":""}`) + `}`:                                        "attachments: there are more than 100",
		`{` + goodMail + `,"text":"x","priority":"urgent"}`:                                                                      "priority is",
		`{` + goodMail + `,"text":"x","class":"spam"}`:                                                                           "class is",
		`{` + goodMail + `,"text":"x","send_at":"soon"}`:                                                                         "send_at is",
		`{` + goodMail + `,"text":"x","send_at":1801390800}`:                                                                     "send_at: want a text",
		`{` + goodMail + `,"text":"x","send_at":"2199-01-01"}`:                                                                   "send_at is",
		`{` + goodMail + `,"text":"x","expires_at":"2020-01-01"}`:                                                                "expires_at is over",
		`{` + goodMail + `,"text":"x","tags":"a"}`:                                                                               "tags: want a list",
		`{` + goodMail + `,"text":"x","tags":["a,b"]}`:                                                                           "tags: ",
		`{` + goodMail + `,"text":"x","tags":` + many(11, `"a"`) + `}`:                                                           "tags: there are more than 10",
		`{` + goodMail + `,"text":"x","metadata":[]}`:                                                                            "metadata: want an object",
		`{` + goodMail + `,"text":"x","metadata":{"a":"` + strings.Repeat("x", 2048) + `"}}`:                                     "metadata: want an object",
		`{` + goodMail + `,"text":"x","app_id":"` + strings.Repeat("x", 65) + `"}`:                                               "app_id: ",
		`{` + goodMail + `,"text":"x","route":"a b"}`:                                                                            "route: ",
		`{` + goodMail + `,"raw":"eA==","text":"x"}`:                                                                             "text: a message with raw",
		`{` + goodMail + `,"raw":"eA"}`:                                                                                          "raw: want base64",
		`{` + goodMail + `,"raw":"eA=="}`:                                                                                        "raw: ",
		`{` + goodMail + `,"raw":"` + base64.StdEncoding.EncodeToString([]byte("From: a@b.c\r\nX-Sluice-Tag: x\r\n\r\n")) + `"}`: "raw: the header X-Sluice-Tag",
	}
	recipients := make([]string, sluice.MaxRecipients+1)
	for i := range recipients {
		recipients[i] = fmt.Sprintf(`"a%d@example.com"`, i)
	}
	cases[`{"from":"a@b.com","to":[`+strings.Join(recipients, ",")+`],"text":"x"}`] = "to: there are more than 1000"
	cases[`{"from":"a@b.com","to":[`+strings.Join(recipients[1:], ",")+`],"bcc":"b@b.com","text":"x"}`] = "bcc: the message has more than 1000"
	for body, want := range cases {
		got, outcome, drafts := x.post(t, "["+body+`,{`+goodMail+`,"text":"good"}]`)
		if got.status != 202 || len(drafts) != 1 || outcome.RefusedCount != 1 || *outcome.Refused[0].Index != 0 || outcome.Messages[0].Index != 1 {
			t.Errorf("%.200s: %d %.300s", body, got.status, got.body)
			continue
		}
		if !strings.HasPrefix(outcome.Refused[0].Message, want) || strings.ContainsAny(outcome.Refused[0].Message, "\r\n") {
			t.Errorf("%.200s: %q, want %q", body, outcome.Refused[0].Message, want)
		}
	}
}

// What can never be sent is refused by its place among all, the others are taken.
func TestMessagesWithoutARoute(t *testing.T) {
	x := startMails(t)
	x.to.never = "gone"
	good, gone := `{`+goodMail+`,"text":"x"}`, `{`+goodMail+`,"text":"x","route":"gone"}`
	got, outcome, drafts := x.post(t, "["+strings.Join([]string{good, gone, `{}`, good, gone, good}, ",")+"]")
	if got.status != 202 || outcome.Accepted != 3 || outcome.RefusedCount != 3 || len(drafts) != 3 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	var refused, accepted []int
	for _, r := range outcome.Refused {
		refused = append(refused, *r.Index)
	}
	for i, m := range outcome.Messages {
		accepted = append(accepted, m.Index)
		if m.ID != drafts[i].ID || m.ID == "" {
			t.Errorf("message %d has the id %q, its draft %q", m.Index, m.ID, drafts[i].ID)
		}
	}
	if !slices.Equal(refused, []int{1, 2, 4}) || !slices.Equal(accepted, []int{0, 3, 5}) || outcome.Refused[0].Message != "no route takes it" {
		t.Errorf("%s", got.body)
	}
	// For one reason, and for another that is found when those are left out.
	x.to.later = "far"
	far := `{` + goodMail + `,"text":"x","route":"far"}`
	if got, outcome, drafts := x.post(t, "["+strings.Join([]string{far, good, gone, far}, ",")+"]"); got.status != 202 || outcome.Accepted != 1 || outcome.RefusedCount != 3 || len(drafts) != 1 ||
		outcome.Messages[0].Index != 1 || outcome.Messages[0].ID != drafts[0].ID || *outcome.Refused[2].Index != 3 || outcome.Refused[2].Message != "nor this one" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got, outcome, drafts := x.post(t, "["+gone+","+gone+"]"); got.status != 400 || outcome.RefusedCount != 2 || len(drafts) != 0 {
		t.Errorf("none can be sent: %d %s", got.status, got.body)
	}
}

func TestMessagesAsAWhole(t *testing.T) {
	x := startMails(t)
	_, other := addKey(t, x.store, "events:write")
	good := `{` + goodMail + `,"text":"x"}`
	if got := callBraze(t, x.url, http.MethodPost, "Bearer "+other, good); got.status != 403 {
		t.Errorf("without its permission: %d %s", got.status, got.body)
	}
	if got := callBraze(t, x.url, http.MethodPost, x.key, "["+strings.Repeat(good+",", MaxRequestMessages)+good+"]"); got.status != 413 {
		t.Errorf("too many: %d %s", got.status, got.body)
	}
	var to []string
	for i := range sluice.MaxRecipients {
		to = append(to, fmt.Sprintf(`"u%d@example.com"`, i))
	}
	wide := `{"from":"me@example.com","subject":"s","text":"x","to":[` + strings.Join(to, ",") + `]}`
	for name, request := range map[string]string{
		`,"index":50}`: strings.Repeat(wide+",", 60),
		`,"index":15}`: strings.Repeat(strings.Replace(wide, "{", `{"metadata":{"m":"`+strings.Repeat("x", 2000)+`"},`, 1)+",", 20),
	} {
		got := callBraze(t, x.url, http.MethodPost, x.key, "["+strings.TrimSuffix(request, ",")+"]")
		if got.status != 413 || !strings.Contains(got.body, "in several requests") || !strings.Contains(got.body, strings.Trim(name, ",}")) {
			t.Errorf("too many recipients or bytes: %d %.300s, want %s", got.status, got.body, name)
		}
	}
	if got, outcome, drafts := x.post(t, "["+strings.Repeat(good+",", MaxRequestMessages-1)+good+"]"); got.status != 202 || outcome.Accepted != MaxRequestMessages || len(drafts) != MaxRequestMessages {
		t.Errorf("as many as may be: %d %.300s", got.status, got.body)
	}
	if got, outcome, drafts := x.post(t, "["+strings.Repeat("{},", 150)+"{}]"); got.status != 400 || outcome.RefusedCount != 151 || len(outcome.Refused) != 100 || len(drafts) != 0 {
		t.Errorf("none is good: %d %.300s", got.status, got.body)
	}
	if got, outcome, _ := x.post(t, "[]"); got.status != 202 || outcome.Accepted != 0 || len(outcome.Messages) != 0 {
		t.Errorf("none: %d %s", got.status, got.body)
	}
	for _, err := range []error{sluice.ErrFull, errors.New("gone")} {
		x.to.err = err
		if got := callBraze(t, x.url, http.MethodPost, x.key, good); got.status != 503 || !strings.Contains(got.body, "Idempotency-Key") || got.header.Get("Retry-After") == "" {
			t.Errorf("%v: %d %s", err, got.status, got.body)
		}
	}
	for _, full := range []*mail.WaitingFull{{Most: mail.Load{Bytes: 1}}, {Key: true, Most: mail.Load{Sends: 1}}} {
		x.to.err = full
		got := callBraze(t, x.url, http.MethodPost, x.key, good)
		want := map[bool]int{false: 503, true: 429}[full.Key]
		if got.status != want || got.header.Get("Retry-After") != waitingRetrySeconds || !strings.Contains(got.body, "wait to be sent") {
			t.Errorf("%v: %d %s", full, got.status, got.body)
		}
	}
	got := callBraze(t, strings.TrimSuffix(x.url, messagesPath)+"/metrics", http.MethodGet, "", "")
	for _, line := range []string{"sluice_http_accepted_items_total 1000", "sluice_http_refused_items_total 151", `sluice_http_events_requests_total{status="202"} 2`, `sluice_http_events_requests_total{status="503"} 3`} {
		if !strings.Contains(got.body, "\n"+line+"\n") {
			t.Errorf("no line %s in the metrics", line)
		}
	}
	x.p.submitter = nil
	if got := callBraze(t, x.url, http.MethodPost, x.key, good); got.status != 503 {
		t.Errorf("not running: %d %s", got.status, got.body)
	}
}

// A request that was answered 503 is judged anew when it comes again, also if more
// of its messages can be taken by then.
func TestMessagesAfter503(t *testing.T) {
	x := startMails(t)
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), AppendFsync: "no"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	redis, err := flow.Dial(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	x.p.intake = &ingest.Intake{Names: &flow.OnceNames{Redis: redis, Clock: sluice.SystemClock{}}, Clock: sluice.SystemClock{}}
	body := `[{` + goodMail + `,"text":"x"},{"to":"bob@example.com","template":{"id":"late"}}]`
	post := func() called { return callBraze(t, x.url, http.MethodPost, x.key, body, "Idempotency-Key", "one") }
	x.to.err = sluice.ErrFull
	if got := post(); got.status != 503 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if err := x.store.AddTemplate(t.Context(), mail.Template{ID: "late", Name: "late"}, mail.TemplateVersion{Template: "late", Version: 1, Subject: "s", Text: "x", From: "shop@example.com", Class: mail.ClassTransactional}); err != nil {
		t.Fatal(err)
	}
	x.to.err = nil
	var ids []string
	for range 2 {
		x.to.drafts = nil
		if got := post(); got.status != 202 || len(x.to.drafts) != 2 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		for _, d := range x.to.drafts {
			ids = append(ids, d.ID)
		}
	}
	if !slices.Equal(ids[:2], ids[2:]) {
		t.Errorf("the ids of a repeat are others: %v", ids)
	}
}

// The life of a message is what the ledger has.
func TestMessageLife(t *testing.T) {
	x := startMails(t)
	id := sluice.NewMessageID(1)
	var sends []mail.StoredSend
	for i, to := range []string{"bob@example.com", "cy@example.com"} {
		sends = append(sends, mail.StoredSend{Send: mail.Send{Message: id, Number: i, Recipients: 2, Priority: mail.PriorityHigh, Class: mail.ClassMarketing, Form: mail.ContentMIME,
			AcceptedMillis: 1000, DueMillis: 2000, ExpiresMillis: 3000, From: "ann@example.com", To: to, User: "u-7", App: "shop", Tags: "a,b", Metadata: `{"order":7}`, Content: "x"}})
	}
	e, err := x.store.Prepare(&store.Effect{Sends: sends})
	if err == nil {
		_, err = x.store.Apply(t.Context(), e)
	}
	if err != nil {
		t.Fatal(err)
	}
	var shown messageShown
	got := callJSON(t, x.url+"/"+id, http.MethodGet, x.key, "", 200, &shown)
	if shown.ID != id || shown.From != "ann@example.com" || shown.Priority != "high" || shown.Class != "marketing" || shown.AppID != "shop" || !slices.Equal(shown.Tags, []string{"a", "b"}) ||
		string(shown.Metadata) != `{"order":7}` || len(shown.Sends) != 2 {
		t.Fatalf("%s", got.body)
	}
	if s := shown.Sends[1]; s.Send != id+".1" || s.To != "cy@example.com" || s.State != "waiting" || s.UserID != "u-7" || s.Due == "" || !slices.Equal(s.WaitsFor, []string{"relay refused"}) ||
		len(s.Life) != 1 || s.Life[0] != (lifeShown{At: "1970-01-01T00:00:01.000Z", Event: "queued", State: "waiting", Due: "1970-01-01T00:00:02.000Z"}) {
		t.Errorf("%+v", s)
	}
	for _, none := range []string{sluice.NewMessageID(1), "x", strings.ToUpper(id)} {
		if got := callBraze(t, x.url+"/"+none, http.MethodGet, x.key, ""); got.status != 404 {
			t.Errorf("%s: %d %s", none, got.status, got.body)
		}
	}
	x.p.canceller = canceller{id}
	if got := callBraze(t, x.url+"/"+id, http.MethodDelete, x.key, ""); got.status != 200 || strings.TrimSpace(got.body) != `{"cancelled":1,"left":2,"open":1}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := callBraze(t, x.url+"/"+sluice.NewMessageID(1), http.MethodDelete, x.key, ""); got.status != 404 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// canceller knows one message.
type canceller struct{ id string }

func (c canceller) Cancel(_ context.Context, id string) (mail.Cancelled, error) {
	if id != c.id {
		return mail.Cancelled{}, noMessage(id)
	}
	return mail.Cancelled{Cancelled: 1, Left: 2, Open: 1}, nil
}

func (canceller) Stored(context.Context, int64) (bool, error) { return true, nil }

func TestMessageIDs(t *testing.T) {
	x := startMails(t)
	_, a, _ := x.post(t, `{`+goodMail+`,"text":"x"}`)
	_, b, _ := x.post(t, `{`+goodMail+`,"text":"x"}`)
	if a.Messages[0].ID == b.Messages[0].ID {
		t.Error("two messages have one id")
	}
	now := sluice.SystemClock{}.Now()
	if one, again, next := messageID(now, "n", 0), messageID(now, "n", 0), messageID(now, "n", 1); one != again || one == next || !sluice.ValidMessageID(one) {
		t.Errorf("%s %s %s", one, again, next)
	}
}
