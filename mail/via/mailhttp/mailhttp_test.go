package mailhttp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/mail"
	"sluice/test/clocktest"
)

var testNow = time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)

const message = "From: =?utf-8?q?J=C3=BCrgen?= <j@news.example.com>\r\nTo: ann@example.org\r\nSubject: =?iso-8859-1?Q?Gr=FC=DFe_{{to}}?=\r\n" +
	"List-Unsubscribe: <https://m.example.com/u>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n" +
	"--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nGr=FC=DFe \"you\"=\r\n!\r\n" +
	"--b\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\nPHA+SMOkbGxv\r\nPC9wPg==\r\n--b--\r\n"

func envelope() mail.Envelope {
	return mail.Envelope{Send: "019a0000000000000000000000000abc.3", From: "bounce@example.com", To: `"a\"b"@example.org`, Content: []byte(message), Tags: []string{"x", `y"`}}
}

// server answers with a status, headers and a body, and keeps what it got.
type server struct {
	*httptest.Server
	status int
	header http.Header
	body   string

	got     atomic.Pointer[http.Request]
	gotBody atomic.Pointer[string]
	asked   atomic.Int64
}

func newServer(t *testing.T, status int, body string, header http.Header) *server {
	s := &server{status: status, body: body, header: header}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		text := string(b)
		s.got.Store(r)
		s.gotBody.Store(&text)
		s.asked.Add(1)
		if s.status == 0 {
			panic(http.ErrAbortHandler)
		}
		for k, v := range s.header {
			w.Header()[k] = v
		}
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.body)
	}))
	t.Cleanup(s.Close)
	return s
}

func deliver(t *testing.T, s Settings, e mail.Envelope) mail.Result {
	t.Helper()
	if s.Body == "" {
		s.Body = `{"to":"{{to}}"}`
	}
	tr, err := New(s, clocktest.At(testNow))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var results []mail.Result
	tr.Deliver(t.Context(), []mail.Envelope{e}, func(_ int, r mail.Result) { results = append(results, r) })
	if len(results) != 1 {
		t.Fatalf("%d results of one envelope", len(results))
	}
	return results[0]
}

func TestRequest(t *testing.T) {
	s := newServer(t, 202, `{"messages":[{"id":9007199254740993}]}`, nil)
	r := deliver(t, Settings{
		URL: s.URL + "/v1/send?region=eu", Method: "PUT", Headers: []Header{{"authorization", "Bearer s3cret"}, {"Content-Type", "application/vnd.x+json"}},
		IdempotencyHeader: "Idempotency-Key", ID: "/messages/0/id",
		Body: `{"f":"{{from}}","to":["{{to}}"],"raw":"{{raw_base64}}","s":"Re: {{subject}}!","t":"{{text}}","h":"{{html}}","id":"{{id}}","tag":"{{tag_id}}",
			"tags":"{{tags}}","all":"tags: {{ tags }}","from":"{{header:From}}","u":"{{header:List-Unsubscribe}}","none":"{{header:X-None}}"}`,
	}, envelope())
	if r.Kind != mail.ResultSent || r.ID != "9007199254740993" || r.Code != 202 || r.Remote == "" {
		t.Errorf("%+v", r)
	}
	got := s.got.Load()
	if got.Method != "PUT" || got.URL.String() != "/v1/send?region=eu" || got.Header.Get("Authorization") != "Bearer s3cret" ||
		got.Header.Get("Content-Type") != "application/vnd.x+json" || got.Header.Get("Idempotency-Key") != envelope().Send {
		t.Errorf("%s %s %v", got.Method, got.URL, got.Header)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(*s.gotBody.Load()), &body); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"f": "bounce@example.com", "to": []any{`"a\"b"@example.org`}, "raw": base64.StdEncoding.EncodeToString([]byte(message)), "s": "Re: Grüße {{to}}!",
		"t": "Grüße \"you\"!", "h": "<p>Hällo</p>", "id": envelope().Send, "tag": strings.ReplaceAll(envelope().Send, ".", "-"), "tags": []any{"x", `y"`}, "all": `tags: x,y"`,
		"from": "Jürgen <j@news.example.com>", "u": "<https://m.example.com/u>", "none": "",
	}
	if !reflect.DeepEqual(body, want) {
		t.Errorf("got\n%v, want\n%v", body, want)
	}
}

func TestJudge(t *testing.T) {
	const (
		sent, deferred, failed, doubt = mail.ResultSent, mail.ResultDeferred, mail.ResultFailed, mail.ResultInDoubt
		route, message                = mail.BlameRoute, mail.BlameMessage
	)
	for _, c := range []struct {
		status    int
		header    http.Header
		kind      mail.ResultKind
		blame     mail.Blame
		throttled bool
		after     time.Duration
	}{
		{200, nil, sent, 0, false, 0},
		{429, http.Header{"Retry-After": {"7"}}, deferred, route, true, 7 * time.Second},
		{503, http.Header{"Retry-After": {testNow.Add(time.Minute).Format(http.TimeFormat)}}, deferred, route, true, time.Minute},
		{429, http.Header{"Retry-After": {"99999999"}}, deferred, route, true, MaxRetryAfter},
		{429, http.Header{"Retry-After": {"-5"}}, deferred, route, true, 0},
		{429, http.Header{"Retry-After": {"soon"}}, deferred, route, true, 0},
		{400, nil, failed, message, false, 0},
		{422, nil, failed, message, false, 0},
		{401, nil, deferred, route, false, 0},
		{404, nil, deferred, route, false, 0},
		{307, http.Header{"Location": {"/elsewhere?token=s3cret"}}, deferred, route, false, 0},
		{500, nil, doubt, route, false, 0},
		{502, nil, deferred, route, false, 0}, // not_taken
		{504, nil, doubt, route, false, 0},
		{0, nil, doubt, route, false, 0}, // it hangs up
	} {
		s := newServer(t, c.status, `{"id":{}}`, c.header)
		r := deliver(t, Settings{URL: s.URL, NotTaken: []int{502}, ID: "/id", IdempotencyHeader: "Idempotency-Key"}, envelope())
		if r.Kind != c.kind || r.Blame != c.blame || r.Throttled != c.throttled || r.RetryAfter != c.after || r.Code != c.status || r.ID != "" || r.Text == "" || strings.Contains(r.Text, "s3cret") {
			t.Errorf("%d %v: %+v", c.status, c.header, r)
		}
		if n := s.asked.Load(); n != 1 {
			t.Errorf("%d: asked %d times", c.status, n)
		}
		want := map[int]mail.Cause{401: mail.CauseLogin, 0: mail.CauseLost}[c.status]
		if want == "" && c.blame == route && !c.throttled {
			want = mail.CauseRejected
		}
		if r.Cause != want {
			t.Errorf("%d: cause %q, want %q", c.status, r.Cause, want)
		}
	}
}

// A provider that gets texts alone gets no mail that has more.
func TestAttachments(t *testing.T) {
	s := newServer(t, 200, "", nil)
	e := envelope()
	e.Content = []byte("Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhi\r\n--b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=a\r\n\r\nx\r\n--b--\r\n")
	texts := Settings{URL: s.URL, Body: `{"to":"{{to}}","text":"{{text}}"}`}
	if r := deliver(t, texts, e); r.Kind != mail.ResultFailed || r.Blame != mail.BlameMessage || !strings.Contains(r.Text, "1 attachments") || s.asked.Load() != 0 {
		t.Errorf("%+v", r)
	}
	texts.Body = `{"to":"{{to}}","text":"{{text}}","raw":"{{raw_base64}}"}`
	if r := deliver(t, texts, e); r.Kind != mail.ResultSent || !strings.Contains(*s.gotBody.Load(), `"text":"hi"`) {
		t.Errorf("%+v", r)
	}
	deep := ""
	for i := range maxLevels + 2 {
		deep += fmt.Sprintf("Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n", i, i)
	}
	for _, broken := range []string{"no header", "Content-Type: multipart/mixed\r\n\r\nx", "Content-Type: text/plain; charset=klingon\r\n\r\nx", deep} {
		e.Content = []byte(broken)
		if r := deliver(t, texts, e); r.Kind != mail.ResultFailed || r.Blame != mail.BlameMessage {
			t.Errorf("%.60q: %+v", broken, r)
		}
	}
}

func TestSettings(t *testing.T) {
	good := Settings{Name: "x", URL: "https://h/p", Body: `{"to":"{{to}}"}`}
	tr, err := New(good, clocktest.At(testNow))
	if err != nil || tr.Workers() != DefaultWorkers || tr.Window() != 1 || tr.Name() != "x" || tr.Repeatable() {
		t.Errorf("%+v %v", tr, err)
	}
	var _ mail.Repeatable = tr
	for want, change := range map[string]func(*Settings){
		"url cannot be read":             func(s *Settings) { s.URL = "ftp://hunter2/" },
		"url has a user":                 func(s *Settings) { s.URL = "https://u:hunter2@h/" },
		"method is \"GET\"":              func(s *Settings) { s.Method = "GET" },
		"headers has the name \"a b\"":   func(s *Settings) { s.Headers = []Header{{"a b", "hunter2"}} },
		"headers.X has a line break":     func(s *Settings) { s.Headers = []Header{{"X", "hunter2\r\nY: z"}} },
		"headers.content-length is not":  func(s *Settings) { s.Headers = []Header{{"content-length", "1"}} },
		"body is missing":                func(s *Settings) { s.Body = "" },
		"body is no JSON":                func(s *Settings) { s.Body = `{"to": {{to}}}` },
		"body has no {{to}}":             func(s *Settings) { s.Body = `{}` },
		"body has {{ without }}":         func(s *Settings) { s.Body = `{"to":"{{to"}` },
		"body has {{too}}, want one of":  func(s *Settings) { s.Body = `{"to":"{{too}}"}` },
		"body has {{header:}}, want one": func(s *Settings) { s.Body = `{"to":"{{to}} {{header:}}"}` },
		"id is no JSON pointer":          func(s *Settings) { s.ID = "id" },
		"not_taken has 404":              func(s *Settings) { s.NotTaken = []int{404} },
		"idempotency_header is \"a b\"":  func(s *Settings) { s.IdempotencyHeader = "a b" },
		"workers is -1":                  func(s *Settings) { s.Workers = -1 },
		"timeout is 1h0m0s":              func(s *Settings) { s.Timeout = time.Hour },
	} {
		s := good
		change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestPointer(t *testing.T) {
	tr := Transport{}
	for pointer, want := range map[string]string{"/a~1b/0": "x", "/a~1b/00": "", "/a~1b/1": "", "/m~0n": "1", "/": "empty", "/nope/x": "", "/deep/er": ""} {
		var err error
		if tr.pointer, err = parsePointer(pointer); err != nil {
			t.Fatal(err)
		}
		if got := tr.idOf([]byte(`{"a/b":["x"],"m~n":1,"":"empty","deep":{"er":{}}}`)); got != want {
			t.Errorf("%s shows %q, want %q", pointer, got, want)
		}
	}
}

// Whatever a mail holds, it is a text in what is sent.
func FuzzFill(f *testing.F) {
	body, err := parseTemplate(`{"to":"{{to}}","s":"{{subject}}","t":"{{text}}","h":"{{html}}","x":"{{header:X}}","raw":"{{raw_base64}}","tags":"{{tags}}"}`)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a@b", message)
	f.Add("\"\xff", "Subject: =?utf-8?q?=22,=22x=22:=22?=\r\n\r\n\x00\"")
	f.Fuzz(func(t *testing.T, to, content string) {
		b, err := body.fill(&mail.Envelope{To: to, Content: []byte(content), Tags: []string{to}})
		if err != nil {
			return
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil || len(m) != 7 {
			t.Fatalf("%v: %s", err, b)
		}
	})
}

// TestNamesKeepTheirQuotes: what was one name in a header is one name when the
// provider reads it.
func TestNamesKeepTheirQuotes(t *testing.T) {
	tmpl, err := parseTemplate(`{"to":"{{to}}","from":"{{header:from}}"}`)
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		`ann@example.com`:                                                                         `ann@example.com`,
		`Ann Smith <ann@example.com>`:                                                             `Ann Smith <ann@example.com>`,
		`"Smith, Ann" <ann@example.com>`:                                                          `"Smith, Ann" <ann@example.com>`,
		`"Smith \"A\", Ann" <ann@example.com>`:                                                    `"Smith \"A\", Ann" <ann@example.com>`,
		`=?utf-8?q?J=C3=BCrgen?= <j@example.com>`:                                                 `Jürgen <j@example.com>`,
		`=?utf-8?q?M=C3=BCller=2C_Anna?= <a@example.com>`:                                         `"Müller, Anna" <a@example.com>`,
		`=?utf-8?b?TcO8bGxlciwgImEi?= <a@example.com>`:                                            `"Müller, \"a\"" <a@example.com>`,
		`=?utf-8?q?M=C3=BC?= =?utf-8?q?ller=2C?= A <a@example.com>`:                               `"Müller, A" <a@example.com>`,
		`=?iso-8859-1?Q?Z=F6_=3Cx=40bad.example=3E?= <a@example.com>`:                             `"Zö <x@bad.example>" <a@example.com>`,
		`=?utf-8?q?Shop=0D=0ABcc:_x=40bad.example?= <a@example.com>`:                              `=?utf-8?q?Shop=0D=0ABcc:_x=40bad.example?= <a@example.com>`,
		`=?utf-8?q?A=09B=C3=9C=2C?= <a@example.com>`:                                              `"A BÜ," <a@example.com>`,
		`=?utf-8?q?Dr=2E_=C3=9C?= <a@example.com>, "Smith, Bob" <b@example.com>, c@example.com`:   `"Dr. Ü" <a@example.com>, "Smith, Bob" <b@example.com>, c@example.com`,
		`=?utf-8?q?Team?=: =?utf-8?q?=C3=9C=2C?= <"a b"@example.com>, b@example.com;`:             `"Ü," <"a b"@example.com>, b@example.com`,
		`"=?utf-8?q?M=C3=BCller=2C?=" <a@example.com>`:                                            `"=?utf-8?q?M=C3=BCller=2C?=" <a@example.com>`, // no encoded word inside quotes
		`=?utf-8?q?=3D=3Futf-8=3Fq=3Fx=3F=3D?= <a@example.com>`:                                   `"=?utf-8?q?x?=" <a@example.com>`,
		`=?utf-8?q?Shop=2C_Inc?= a@example.com`:                                                   `=?utf-8?q?Shop=2C_Inc?= a@example.com`, // unreadable
		`=?x-unknown?q?Shop=2C?= <a@example.com>`:                                                 `=?x-unknown?q?Shop=2C?= <a@example.com>`,
		`=?utf-8?q?=C3=9C=2C?= <a@example.com>, =?x-unknown?q?Shop=2C?= <a@example.com>, x@[1.2.`: `=?utf-8?q?=C3=9C=2C?= <a@example.com>, =?x-unknown?q?Shop=2C?= <a@example.com>, x@[1.2.`,
	} {
		e := envelope()
		e.Content = []byte("From: " + from + "\r\n\r\nt\r\n")
		b, err := tmpl.fill(&e)
		var got struct{ From string }
		if err == nil {
			err = json.Unmarshal(b, &got)
		}
		if err != nil || got.From != want {
			t.Errorf("%s is %s, want %s: %v", from, got.From, want, err)
		}
	}
}
