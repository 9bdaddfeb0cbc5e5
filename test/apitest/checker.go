package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Checker knows which answers are possible. Its methods may be called from
// several goroutines at once.
type Checker struct {
	Document *openapi3.T
	patterns map[string]*regexp.Regexp // of paths with parameters
	schemas  *schemas
}

// New reads a document. The error says what is no OpenAPI 3.1 in it, or which
// of its examples is not what its schema says.
func New(document []byte) (*Checker, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		return nil, fmt.Errorf("check the OpenAPI document: %w", err)
	}
	c := &Checker{Document: doc, patterns: map[string]*regexp.Regexp{}}
	if c.schemas, err = newSchemas(document); err != nil {
		return nil, fmt.Errorf("read the schemas of the OpenAPI document: %w", err)
	}
	for path := range doc.Paths.Map() {
		if pattern := parameter.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+"); strings.Contains(path, "{") {
			c.patterns[path] = regexp.MustCompile("^" + pattern + "$")
		}
	}
	return c, nil
}

// parameter is one of a quoted path.
var parameter = regexp.MustCompile(`\\\{[^}]*\\\}`)

// described is the operation that answers a request.
type described struct {
	at        string // its place in the document
	operation *openapi3.Operation
}

// find returns the operation that answers a request, or the status of the
// refusal if there is none. The library's routers take /a/ for /a. A path without
// parameters comes before those that have some (OpenAPI 3.1, 4.8.8.2).
func (c *Checker) find(method, path string) (*described, int) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	template, item := path, c.Document.Paths.Value(path)
	for with, pattern := range c.patterns {
		if item == nil && pattern.MatchString(path) {
			template, item = with, c.Document.Paths.Value(with)
		}
	}
	if item == nil {
		return nil, http.StatusNotFound
	}
	operation := item.GetOperation(method)
	if operation == nil {
		return nil, http.StatusMethodNotAllowed
	}
	return &described{below("", "", "paths", template, strings.ToLower(method)), operation}, 0
}

// Check says why an answer is none that the document promises, if so.
func (c *Checker) Check(r *http.Request, status int, header http.Header, body []byte) error {
	if status == http.StatusMisdirectedRequest { // the Host is wrong, whatever the path
		return c.checkRefusal(status, status, header, body, r.Method)
	}
	found, refused := c.find(r.Method, r.URL.EscapedPath())
	if found == nil {
		return c.checkRefusal(refused, status, header, body, r.Method)
	}
	at, answer, err := found.answer(status)
	if err != nil || answer == nil {
		return err
	}
	if err := c.checkHeaders(at, answer, header); err != nil {
		return err
	}
	if r.Method == http.MethodHead || len(answer.Content) == 0 {
		return nil
	}
	return c.checkBody(at, answer, header.Get("Content-Type"), body)
}

// answer returns what the document says of the answers with a status, and where. It is
// nil for a status that leads elsewhere: what those say is not compared.
func (d *described) answer(status int) (at string, answer *openapi3.Response, err error) {
	switch status {
	case http.StatusNotModified, http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return "", nil, nil
	}
	for _, key := range []string{strconv.Itoa(status), strconv.Itoa(status/100) + "XX", "default"} {
		if found := d.operation.Responses.Value(key); found != nil {
			return below(below(d.at, "", "responses", key), found.Ref), found.Value, nil
		}
	}
	return "", nil, errors.New("its status is not in the document")
}

// checkHeaders compares the headers that the document describes.
func (c *Checker) checkHeaders(at string, answer *openapi3.Response, header http.Header) error {
	for name, one := range answer.Headers {
		values := header.Values(name)
		if http.CanonicalHeaderKey(name) == "Content-Type" || len(values) == 0 && !one.Value.Required {
			continue
		}
		if len(values) == 0 {
			return fmt.Errorf("it has no header %s", name)
		}
		var value any = values[0]
		if one.Value.Schema.Value.Type.Is(openapi3.TypeInteger) {
			value = json.Number(values[0])
			if _, err := strconv.ParseInt(values[0], 10, 64); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
		}
		if err := c.schemas.check(below(below(at, "", "headers", name), one.Ref, "schema"), value); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	return nil
}

// checkBody compares a body with the schema of its type: JSON as what it is, all else as
// a text.
func (c *Checker) checkBody(at string, answer *openapi3.Response, kind string, body []byte) error {
	media := answer.Content.Get(kind)
	if media == nil {
		return fmt.Errorf("its Content-Type %q is not in the document", kind)
	}
	if media.Schema == nil {
		return nil
	}
	var value any = string(body)
	if strings.HasPrefix(kind, "application/json") {
		var err error
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(body)); err != nil {
			return fmt.Errorf("it is no JSON: %w", err)
		}
	}
	for name, one := range answer.Content {
		if one == media {
			at = below(at, "", "content", name, "schema")
		}
	}
	return c.schemas.check(at, value)
}

// checkRefusal checks the answer to a request that the document does not have.
func (c *Checker) checkRefusal(want, status int, header http.Header, body []byte, method string) error {
	if status != want {
		return fmt.Errorf("status %d, want %d", status, want)
	}
	if want == http.StatusMethodNotAllowed && header.Get("Allow") == "" {
		return errors.New("405 without Allow")
	}
	if got := header.Get("Content-Type"); got != "application/json" {
		return fmt.Errorf("Content-Type %q", got)
	}
	if method == http.MethodHead {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return c.schemas.check("/components/schemas/Error", value)
}

// transport checks every answer that passes through.
type transport struct {
	checker *Checker
	t       testing.TB
	next    http.RoundTripper
}

// Transport returns a way to a server by which every answer is checked. An
// answer that the document does not promise is an error of the test.
func (c *Checker) Transport(t testing.TB, next http.RoundTripper) http.RoundTripper {
	return &transport{c, t, next}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, errors.Join(err, res.Body.Close())
	}
	if err := res.Body.Close(); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if err := t.checker.Check(r, res.StatusCode, res.Header, body); err != nil {
		t.t.Errorf("%s %s: %d %s\nis not what api/openapi.json says: %v", r.Method, r.URL.Path, res.StatusCode, strings.TrimSpace(string(body[:min(len(body), 500)])), err)
	}
	return res, nil
}
