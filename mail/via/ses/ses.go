// Package ses carries mail out by the API of Amazon SES (SendEmail, version 2,
// the whole message as it is), signed by hand.
//
// AWS's own library was left out because it repeats requests by default. SES
// has no token that would make a repeat harmless, so mail would be sent twice.
// It is the oracle of the tests instead.
package ses

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/via/httponce"
)

// DefaultWorkers applies where nothing is set.
const DefaultWorkers = 32

const sendPath = "/v2/email/outbound-emails"

// Tags by which SES's events name the send and its tags again: mail.tags.
const (
	SendTag   = "sluice-send"
	TagPrefix = "sluice-tag-" // and a number from 1, since a name may stand once
)

// Settings are of one route.
type Settings struct {
	Name             string // of the transport
	Region           string // eu-west-1
	Endpoint         string // https://HOST; empty: that of the region
	Credentials      Credentials
	ConfigurationSet string // empty: none, or the identity's own

	Roots *x509.CertPool // who may sign the endpoint's certificate; nil: the system's

	Workers int           // 0: DefaultWorkers
	Timeout time.Duration // of a request; 0: httponce.DefaultTimeout
}

// Transport is a mail.Transport.
type Transport struct {
	httponce.Base
	s     Settings
	host  string
	url   string // without a slash at its end
	clock sluice.Clock
}

var regionForm = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]+$`)

// Check says what is wrong with settings, nil if nothing is. It shows no secret.
func (s *Settings) Check() error {
	var errs []error
	if !regionForm.MatchString(s.Region) {
		errs = append(errs, fmt.Errorf("region is %q, want one of AWS's, such as eu-west-1", s.Region))
	}
	if s.Endpoint != "" {
		u, err := url.Parse(s.Endpoint)
		if err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http") || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
			errs = append(errs, errors.New("endpoint is no address of a server, want https://HOST, without a path"))
		} else if err := httponce.CheckWay(u); err != nil {
			errs = append(errs, fmt.Errorf("endpoint %w", err))
		}
	}
	if s.Credentials.AccessKey == "" || s.Credentials.SecretKey == "" {
		errs = append(errs, errors.New("access_key or secret_key is missing"))
	}
	return errors.Join(append(errs, httponce.CheckBounds(s.Workers, s.Timeout)...)...)
}

// New returns a transport. Nothing is connected to before the first mail.
func New(s Settings, clock sluice.Clock) (*Transport, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("prepare SES route %s: %w", s.Name, err)
	}
	if s.Endpoint == "" {
		s.Endpoint = "https://email." + s.Region + ".amazonaws.com"
		if strings.HasPrefix(s.Region, "cn-") {
			s.Endpoint += ".cn"
		}
	}
	u, err := url.Parse(s.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("prepare SES route %s: %w", s.Name, err)
	}
	t := &Transport{s: s, host: u.Host, url: strings.TrimSuffix(s.Endpoint, "/"), clock: clock}
	t.Base = httponce.NewBase(s.Name, httponce.Options{Workers: cmp.Or(s.Workers, DefaultWorkers), Timeout: s.Timeout, Roots: s.Roots}, t.send)
	return t, nil
}

func (t *Transport) send(ctx context.Context, e *mail.Envelope) mail.Result {
	// SES offers no SMTPUTF8: it takes addresses in ASCII alone.
	if e.UTF8 || !mime.IsASCII(e.From) || !mime.IsASCII(e.To) {
		return mail.Result{Kind: mail.ResultFailed, Blame: mail.BlameMessage, Code: 553, Enhanced: "5.6.7", Text: "SES takes no address or header that is not ASCII (RFC 6531)"}
	}
	if err := ctx.Err(); err != nil {
		return mail.Result{Kind: mail.ResultUntried, Text: mail.ReplyText(err.Error())}
	}
	body := t.body(e)
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"sluice"}}
	t.s.Credentials.sign(header, http.MethodPost, t.host, sendPath, t.s.Region, body, t.clock.Now())
	answer := t.Do(ctx, http.MethodPost, t.url+sendPath, header, body)
	if answer.Status == 0 {
		return answer.Lost(ctx)
	}
	r := meaningOf(&answer)
	r.Remote, r.Took = t.host, answer.Took
	return r
}

// body encodes SendEmail. The message is most of it, and goes in as base64, which
// JSON leaves as it is.
func (t *Transport) body(e *mail.Envelope) []byte {
	b := make([]byte, 0, base64.StdEncoding.EncodedLen(len(e.Content))+512+len(e.From)+len(e.To)+len(e.Tags)*(64+mail.MaxTagBytes))
	b = append(b, `{"Content":{"Raw":{"Data":"`...)
	b = base64.StdEncoding.AppendEncode(b, e.Content)
	b = append(b, `"}},"Destination":{"ToAddresses":[`...)
	b = appendText(b, e.To)
	b = append(b, `]}`...)
	if e.From != "" { // else SES takes it from the message
		b = appendText(append(b, `,"FromEmailAddress":`...), e.From)
	}
	if t.s.ConfigurationSet != "" {
		b = appendText(append(b, `,"ConfigurationSetName":`...), t.s.ConfigurationSet)
	}
	b = append(b, `,"EmailTags":[{"Name":"`+SendTag+`","Value":`...)
	b = append(appendText(b, tagValue(e.Send)), '}')
	for i, tag := range e.Tags {
		b = append(b, `,{"Name":"`+TagPrefix+strconv.Itoa(i+1)+`","Value":`...)
		b = append(appendText(b, tagValue(tag)), '}')
	}
	return append(b, `]}`...)
}

func appendText(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // a string always can be
	return append(b, text...)
}

// tagValue makes a text what the value of a tag may be: 1 to 256 of ASCII
// letters, digits, _ and - (API_MessageTag).
func tagValue(s string) string {
	v := []byte(s[:min(len(s), 256)])
	for i, c := range v {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			v[i] = '-'
		}
	}
	if len(v) == 0 {
		return "-"
	}
	return string(v)
}
