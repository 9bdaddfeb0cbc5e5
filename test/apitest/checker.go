package apitest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// Checker knows which answers are possible. Its methods may be called from
// several goroutines at once.
type Checker struct {
	Document *openapi3.T
	paths    map[string]*regexp.Regexp

	mu     sync.Mutex
	passed map[[sha256.Size]byte]bool // answers that were compared before, mostPassed at most
}

// mostPassed bounds how many answers are remembered. Tests that wait ask the same
// again and again, and to compare an answer takes milliseconds.
const mostPassed = 10_000

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
	c := &Checker{Document: doc, paths: map[string]*regexp.Regexp{}, passed: map[[sha256.Size]byte]bool{}}
	for path := range doc.Paths.Map() {
		c.paths[path] = regexp.MustCompile("^" + parameter.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
	}
	return c, nil
}

// parameter is one of a quoted path.
var parameter = regexp.MustCompile(`\\\{[^}]*\\\}`)

// find returns the operation that answers a request, or the status of the
// refusal if there is none. The library's routers take /a/ for /a. A path without
// parameters comes before those that have some (OpenAPI 3.1, 4.8.8.2).
func (c *Checker) find(method, path string) (*routers.Route, int) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for template, pattern := range c.paths {
		if !pattern.MatchString(path) || template != path && c.Document.Paths.Value(path) != nil {
			continue
		}
		item := c.Document.Paths.Value(template)
		if operation := item.GetOperation(method); operation != nil {
			return &routers.Route{Spec: c.Document, Path: template, PathItem: item, Method: method, Operation: operation}, 0
		}
		return nil, http.StatusMethodNotAllowed
	}
	return nil, http.StatusNotFound
}

// textBodies are decoded as what they are: kin-openapi knows plain text, JSON
// and YAML by itself.
func init() {
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
}

// Check says why an answer is none that the document promises, if so.
func (c *Checker) Check(r *http.Request, status int, header http.Header, body []byte) error {
	if status == http.StatusMisdirectedRequest { // the Host is wrong, whatever the path
		return c.checkRefusal(status, status, header, body, r.Method)
	}
	route, refused := c.find(r.Method, r.URL.Path)
	if route == nil {
		return c.checkRefusal(refused, status, header, body, r.Method)
	}
	key := keyOf(r.Method, route.Path, status, header, body)
	if c.known(key) {
		return nil
	}
	if err := validate(r, route, status, header, body); err != nil {
		return err
	}
	c.remember(key)
	return nil
}

// keyOf is equal for answers of one operation with all the same, but for the time.
func keyOf(method, path string, status int, header http.Header, body []byte) [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %d\n", method, path, status)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if name != "Date" {
			fmt.Fprintf(h, "%q %q\n", name, header[name])
		}
	}
	h.Write(body)
	return [sha256.Size]byte(h.Sum(nil))
}

func (c *Checker) known(key [sha256.Size]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.passed[key]
}

func (c *Checker) remember(key [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.passed) < mostPassed {
		c.passed[key] = true
	}
}

// validate compares an answer with what the document says of its operation.
func validate(r *http.Request, route *routers.Route, status int, header http.Header, body []byte) error {
	lookup := r.Clone(r.Context())
	lookup.Method = route.Method
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: lookup, Route: route},
		Status:                 status,
		Header:                 header,
		Body:                   io.NopCloser(bytes.NewReader(body)),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true, ExcludeResponseBody: r.Method == http.MethodHead},
	}
	return openapi3filter.ValidateResponse(r.Context(), input)
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
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return c.Document.Components.Schemas["Error"].Value.VisitJSON(value, openapi3.EnableJSONSchema2020())
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
