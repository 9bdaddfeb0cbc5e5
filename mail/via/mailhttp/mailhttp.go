// Package mailhttp carries mail out to any provider that takes it as JSON by
// HTTP: what is sent is a template of the operator's.
package mailhttp

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"sluice"
	"sluice/lib/outbound"
	"sluice/mail"
	"sluice/mail/via/httponce"
)

// What applies where nothing is set, and bounds.
const (
	DefaultWorkers = 16

	MaxHeaders = 32

	// MaxRetryAfter is up to where a provider's Retry-After is believed.
	MaxRetryAfter = 6 * time.Hour
)

// Header is one of a request's. Its value may be a secret.
type Header struct{ Name, Value string }

// Settings are of one route.
type Settings struct {
	Name    string // of the transport
	URL     string // https://, or http:// to this machine; may hold a secret
	Method  string // POST, PUT or PATCH; empty: POST
	Headers []Header
	Body    string // JSON with placeholders: see template.go

	// ID is a JSON pointer (RFC 6901) to the message's id in the answer; empty:
	// there is none.
	ID string

	// IdempotencyHeader names a header by which the provider knows an attempt
	// again: it carries Envelope.Send, the same each time. Empty: there is none.
	IdempotencyHeader string

	// NotTaken are statuses from 500 on that say that the mail was not taken. The
	// others, but for 503, leave it in doubt.
	NotTaken []int

	Roots *x509.CertPool // who may sign the server's certificate; nil: the system's

	Workers int           // 0: DefaultWorkers
	Timeout time.Duration // of a request; 0: httponce.DefaultTimeout
}

// Transport is a mail.Transport.
type Transport struct {
	httponce.Base
	s       Settings
	host    string
	body    *template
	pointer []string // of the id
	clock   sluice.Clock
}

// headerName is a token (RFC 9110, 5.6.2).
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// Check says what is wrong with settings, nil if nothing is. It shows no secret.
func (s *Settings) Check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if u, err := url.Parse(s.URL); err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http") || u.Fragment != "" {
		wrong("url cannot be read, want https://HOST/PATH")
	} else if u.User != nil {
		wrong("url has a user; give a header Authorization instead")
	} else if err := httponce.CheckWay(u); err != nil {
		wrong("url %w", err)
	}
	if s.Method != "" && !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, s.Method) {
		wrong("method is %q, want POST, PUT or PATCH", s.Method)
	}
	if len(s.Headers) > MaxHeaders {
		wrong("headers has %d entries, the most is %d", len(s.Headers), MaxHeaders)
	}
	for _, h := range s.Headers {
		if !headerName.MatchString(h.Name) {
			wrong("headers has the name %q, which no header can have", h.Name)
		} else if strings.ContainsFunc(h.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			wrong("headers.%s has a line break or another control character in it", h.Name)
		}
		if slices.Contains([]string{"Host", "Content-Length", "Transfer-Encoding", "Connection"}, http.CanonicalHeaderKey(h.Name)) {
			wrong("headers.%s is not for settings to say", h.Name)
		}
	}
	if s.IdempotencyHeader != "" && !headerName.MatchString(s.IdempotencyHeader) {
		wrong("idempotency_header is %q, which no header can be called", s.IdempotencyHeader)
	}
	if _, err := parseTemplate(s.Body); err != nil {
		wrong("body %w", err)
	}
	if _, err := parsePointer(s.ID); err != nil {
		wrong("id %w", err)
	}
	for _, status := range s.NotTaken {
		if status < 500 || status > 599 {
			wrong("not_taken has %d, want statuses from 500 to 599: all below say it anyway", status)
		}
	}
	return errors.Join(append(errs, httponce.CheckBounds(s.Workers, s.Timeout)...)...)
}

// New returns a transport. Nothing is connected to before the first mail.
func New(s Settings, clock sluice.Clock) (*Transport, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("prepare HTTP route %s: %w", s.Name, err)
	}
	if s.Method == "" {
		s.Method = http.MethodPost
	}
	u, err1 := url.Parse(s.URL)
	body, err2 := parseTemplate(s.Body)
	pointer, err3 := parsePointer(s.ID)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("prepare HTTP route %s: %w", s.Name, err)
	}
	t := &Transport{s: s, host: u.Host, body: body, pointer: pointer, clock: clock}
	t.Base = httponce.NewBase(s.Name, httponce.Options{Workers: cmp.Or(s.Workers, DefaultWorkers), Timeout: s.Timeout, Roots: s.Roots}, t.send)
	return t, nil
}

// Repeatable implements mail.Repeatable: the provider knows an attempt again.
func (t *Transport) Repeatable() bool { return t.s.IdempotencyHeader != "" }

func (t *Transport) send(ctx context.Context, e *mail.Envelope) mail.Result {
	if err := ctx.Err(); err != nil {
		return mail.Result{Kind: mail.ResultUntried, Text: mail.ReplyText(err.Error())}
	}
	body, err := t.body.fill(e)
	if err != nil {
		return mail.Result{Kind: mail.ResultFailed, Blame: mail.BlameMessage, Text: mail.ReplyText(err.Error())}
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {"sluice"}}
	for _, h := range t.s.Headers {
		header.Set(h.Name, h.Value)
	}
	if t.s.IdempotencyHeader != "" {
		header.Set(t.s.IdempotencyHeader, e.Send)
	}
	answer := t.Do(ctx, t.s.Method, t.s.URL, header, body)
	if answer.Status == 0 {
		return answer.Lost(ctx)
	}
	r := t.meaningOf(&answer)
	r.Remote, r.Took = t.host, answer.Took
	return r
}

// meaningOf says what an answer means.
func (t *Transport) meaningOf(a *httponce.Answer) mail.Result {
	r := mail.Result{Code: a.Status, Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Text: mail.ReplyText(string(a.Body))}
	switch {
	case a.Status >= 200 && a.Status < 300:
		r.Kind, r.Blame, r.ID = mail.ResultSent, mail.BlameNobody, t.idOf(a.Body)
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusServiceUnavailable:
		r.Throttled, r.RetryAfter = true, outbound.RetryAfter(a.Header, t.clock.Now(), MaxRetryAfter)
	case a.Status >= 500 && !slices.Contains(t.s.NotTaken, a.Status):
		r.Kind = mail.ResultInDoubt
	case a.Status >= 500, a.Status < 400:
		// It was not taken; of a redirect the text says where the settings
		// should point.
		if where := a.Header.Get("Location"); a.Status < 400 && where != "" {
			r.Text = mail.ReplyText("redirects are not followed, and it leads to " + withoutQuery(where))
		}
	case slices.Contains(ours, a.Status):
		r.OfSender = a.Status == http.StatusForbidden // SendGrid and Resend say so of a sender that they do not know
	default:
		r.Kind, r.Blame = mail.ResultFailed, mail.BlameMessage
	}
	if r.Blame == mail.BlameRoute && !r.Throttled {
		r.Cause = a.Cause()
	}
	if r.Text == "" {
		r.Text = http.StatusText(a.Status)
	}
	return r
}

// ours are statuses below 500 that are about the key, the account, the address
// or the pace. An operator can fix them, and they must cost no mail.
var ours = []int{
	http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
	http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusUpgradeRequired,
}

func withoutQuery(location string) string {
	location, _, _ = strings.Cut(location, "?")
	return location
}

// maxIDBytes bounds what is taken for an id.
const maxIDBytes = 256

// idOf returns what the pointer shows in an answer, empty if it shows no text
// and no number.
func (t *Transport) idOf(body []byte) string {
	if t.pointer == nil {
		return ""
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber() // 64-bit ids
	var v any
	if d.Decode(&v) != nil {
		return ""
	}
	for _, key := range t.pointer {
		v = step(v, key)
	}
	var id string
	switch x := v.(type) {
	case string:
		id = x
	case json.Number:
		id = x.String()
	}
	id = mail.ReplyText(id)
	return id[:min(len(id), maxIDBytes)]
}
