package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"sluice/mail"
	"sluice/store/sqlstore"
	"sluice/test/apitest"
	"sluice/test/clocktest"
	"sluice/test/dnstest"
	"sluice/user"
	"sluice/user/consent"
)

// checkers are of the documents that programs have served so far. All serve the
// same one, and to read it takes a second.
var checkers struct {
	sync.Mutex
	of map[string]*apitest.Checker
}

// described reads the document that a program serves.
func described(t *testing.T, url string) *apitest.Checker {
	t.Helper()
	res, err := http.Get(url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	checkers.Lock()
	defer checkers.Unlock()
	if known := checkers.of[string(text)]; known != nil {
		return known
	}
	checker, err := apitest.New(text)
	if err != nil {
		t.Fatal(err)
	}
	checkers.of = map[string]*apitest.Checker{string(text): checker}
	return checker
}

// documented returns a client for a program, which compares every answer with
// the document that the program serves. It is a patient one.
func documented(t *testing.T, url string) *http.Client {
	t.Helper()
	return patient(described(t, url).Transport(t, transport))
}

// undone are texts of answers 503 to requests of which nothing was done, or which may be
// repeated, mostly as the database was too slow. No test wants an answer with one of them.
var undone = []string{
	"keys cannot be checked now", "sessions cannot be checked now", "nothing was done, send it again",
	"not in time; nothing of this request was taken in", "nothing was changed, as",
	"under its external_send_id all of it is taken in once", "may be stored yet",
	"send it again to learn which", "it is not known what of the mail was stopped",
}

// patient returns a client that sends again what was answered so, as it is told to: on a
// busy machine the database takes longer than the program waits.
func patient(next http.RoundTripper) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		for began := time.Now(); ; clocktest.Rest(began) {
			res, err := next.RoundTrip(r)
			if err != nil || res.StatusCode != http.StatusServiceUnavailable {
				return res, err
			}
			text, err := io.ReadAll(res.Body)
			if err = errors.Join(err, res.Body.Close()); err != nil {
				return nil, err
			}
			res.Body = io.NopCloser(bytes.NewReader(text))
			said := func(what string) bool { return strings.Contains(string(text), what) }
			if !slices.ContainsFunc(undone, said) || r.Body != nil && r.GetBody == nil || time.Since(began) > patience {
				return res, nil
			}
			if r = r.Clone(r.Context()); r.GetBody == nil {
				continue
			}
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
	})}
}

// example is a request of the document: one of an operation's bodies, or none.
type example struct {
	method, path, name, kind string
	body                     any
	operation                *openapi3.Operation
}

// examples are all requests of the document.
func examples(d *openapi3.T) (all []example) {
	for path, item := range d.Paths.Map() {
		for method, operation := range item.Operations() {
			if operation.RequestBody == nil {
				all = append(all, example{method, path, "", "", nil, operation})
				continue
			}
			for kind, media := range operation.RequestBody.Value.Content {
				for name, e := range media.Examples {
					all = append(all, example{method, path, name, kind, e.Value.Value, operation})
				}
			}
		}
	}
	return all
}

// send sends an example with the parameters' examples. The value of an
// Idempotency-Key is one request's, so each example gets its own.
func (e *example) send(s *served) (*http.Response, error) {
	var body io.Reader
	switch v := e.body.(type) {
	case nil:
	case string:
		body = strings.NewReader(v)
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	path := e.path
	for _, p := range e.operation.Parameters {
		if p.Value.In == openapi3.ParameterInPath {
			path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", fmt.Sprint(p.Value.Example))
		}
	}
	r, err := http.NewRequest(e.method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	for _, p := range e.operation.Parameters {
		switch value := p.Value.Example; {
		case value == nil:
		case p.Value.In == openapi3.ParameterInHeader:
			r.Header.Set(p.Value.Name, fmt.Sprintf("%v-%s", value, e.name))
		case p.Value.In == openapi3.ParameterInQuery:
			query.Set(p.Value.Name, fmt.Sprint(value))
		}
	}
	r.URL.RawQuery = query.Encode()
	if e.kind != "" {
		r.Header.Set("Content-Type", e.kind)
	}
	if needsKey(e.operation) || strings.Contains(e.operation.Description, "Open while the server listens on loopback only") {
		r.Header.Set("Authorization", "Bearer "+testRoot)
	}
	return s.client.Do(r)
}

// answered sends an example until the answer is not 503: on a busy machine the program may
// not be ready for a moment, or not see in time what it has written.
func (e *example) answered(t *testing.T, s *served) (code int, text []byte) {
	t.Helper()
	awaitFound(t, e.method+" "+e.path+" is answered", func() (any, bool) {
		res, err := e.send(s)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if text, err = io.ReadAll(res.Body); err != nil {
			t.Fatal(err)
		}
		code = res.StatusCode
		return string(text), code != http.StatusServiceUnavailable
	})
	return code, text
}

// needsKey reports whether an operation is answered with a key only.
func needsKey(o *openapi3.Operation) bool {
	return o.Security != nil && !slices.ContainsFunc(*o.Security, func(r openapi3.SecurityRequirement) bool { return len(r) == 0 })
}

// said returns the status and body with which the document answers an example:
// those of the answer's example of the same name.
func (e *example) said() (status string, body any) {
	for code, answer := range e.operation.Responses.Map() {
		for _, media := range answer.Value.Content {
			if found := media.Examples[e.name]; found != nil {
				return code, found.Value.Value
			}
		}
	}
	return "", nil
}

// makeExamples stores what paths of the document name: a segment, a template and
// a user.
func (s *served) makeExamples(t *testing.T) {
	t.Helper()
	s.sent(t, http.StatusCreated, "/users/track/sync", `{"attributes":[{"external_id":"u-7","plan":"gold"}]}`)
	store, err := sqlstore.Open(t.Context(), "sqlite:"+s.database(), calm)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	message := mail.TemplateVersion{Subject: "Welcome, {{ name }}", HTML: "<p>{{ a }} {{ '<' }} 7</p>", Class: mail.ClassTransactional}
	err = errors.Join(store.AddTemplate(t.Context(), mail.Template{ID: "welcome", Name: "Welcome"}, message),
		store.AddSegment(t.Context(), user.Segment{ID: "019aa5c0-7a00-7abc-8def-0123456789ab", Name: "gold", Definition: `{"attribute":"plan","is":"equals","value":"gold"}`}))
	if err != nil {
		t.Fatal(err)
	}
}

// Every example of the document is answered by a real program as it says; a
// request without a body by a success.
func TestDocumentExamples(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot, "SLUICE_DOMAINS_RESOLVER="+dnstest.Start(t).Addr())
	s.makeExamples(t)
	bodies := 0
	for _, e := range examples(described(t, s.url).Document) {
		if e.path == consent.ConfirmPath || e.path == consent.UnsubscribePath || strings.HasPrefix(e.path, "/v1/messages") || strings.HasPrefix(e.path, "/v1/journeys") || strings.HasPrefix(e.path, "/v1/ledger/doubts/") || strings.HasPrefix(e.path, "/v1/mailboxes/") || strings.HasPrefix(e.path, "/messages/") || strings.HasPrefix(e.path, "/transactional/") || strings.HasSuffix(e.path, "/test") || strings.HasPrefix(e.path, "/v1/accounts") || strings.HasPrefix(e.path, "/v1/keys") || strings.HasPrefix(e.path, "/v1/dead/") || e.path == "/v1/session" || e.path == "/v1/setup" || strings.HasSuffix(e.path, "/stream") || strings.HasPrefix(e.path, "/v1/webhooks") || strings.HasPrefix(e.path, "/v1/groups/") || strings.HasPrefix(e.path, "/v1/imports") && e.path != "/v1/imports/preview" {
			continue // a link is good where it was made: TestOptIn, TestUnsubscribe; ids of messages and numbers of mails are made up: TestMessages, TestMailbox, TestDoubts, TestBrazeSends, TestNothingButTheAllowedLeaves; a journey goes from one status to the next: TestJourneyCommand. Ids of accounts, keys and dead letters are new each time: TestDashboard. So are those of webhooks, and a stream never ends: TestWebhooks, TestStreamOfEvents. Of a group the answer says when it was made: TestGroupCommand. Imports have a new id each: TestImportByHTTP
		}
		code, text := e.answered(t, s)
		if e.name == "" {
			if code >= 300 {
				t.Errorf("%s %s: %d %s", e.method, e.path, code, text)
			}
			continue
		}
		bodies++
		status, want := e.said()
		if status == "" {
			t.Errorf("%s %s: no answer has an example %q as the request does", e.method, e.path, e.name)
			continue
		}
		var got any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(code) != status || !reflect.DeepEqual(got, want) {
			t.Errorf("%s %s, example %s: %d %s, the document says %s %v", e.method, e.path, e.name, code, text, status, want)
		}
	}
	if bodies < 3 {
		t.Errorf("%d examples of bodies", bodies)
	}
}
