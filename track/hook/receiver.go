package hook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"sluice"
	"sluice/lib/outbound"
)

// Bounds of requests, beside those of a body.
const (
	// MaxSources bounds how many may post.
	MaxSources = 64

	// maxSingleBytes bounds the body of a provider that posts one event at a time: 256 KiB
	// in a message of SNS, with its escapes.
	maxSingleBytes = 1 << 20
)

// Source is one entry of the configuration: an account at a provider that may post.
type Source struct {
	Name     string
	Provider Provider
	Secrets  []string // Access.Secrets
	Topics   []string // Access.Topics
	URL      string   // the address as it was entered at the provider, without a query; empty: below Options.PublicURL

	// Consent says that the provider is trusted with consent: its complaints stop all mail,
	// and opt-ins lift what an opt-out held back (sluice.OriginTrusted).
	Consent bool
}

// MaxBodyBytes bounds the body of a request.
func (s *Source) MaxBodyBytes() int {
	if s.Provider.single {
		return maxSingleBytes
	}
	return MaxBodyBytes
}

// Armed reports whether anything can be authentic: there is a secret, or a topic of SNS.
func (s *Source) Armed() bool {
	return len(s.Secrets) > 0 || s.Provider.Name == "ses" && len(s.Topics) > 0
}

// Options are what NewReceiver may be told. Without them it is the program's own.
type Options struct {
	Log       *slog.Logger
	Clock     sluice.Clock
	PublicURL string            // with which addresses begin, without a slash at its end; empty: as they are requested
	Transport http.RoundTripper // to SNS, by verified TLS; nil: public addresses alone

	// FirstWith has all processes remember with what a token came first, by when it was
	// made (flow.Redis). nil: this one remembers alone.
	FirstWith func(ctx context.Context, made time.Time, token, with string, ttl time.Duration) (first string, known bool, err error)
}

// Receiver verifies and reads what is posted by its sources. Many goroutines may use it.
type Receiver struct {
	sources      []Source
	log          *slog.Logger
	clock        sluice.Clock
	public       string
	certificates *Certificates
	client       http.Client   // confirms subscriptions
	asking       chan struct{} // has an element for each that is being confirmed
	tokens       tokens
}

// NewReceiver returns a receiver of some sources.
func NewReceiver(sources []Source, o Options) *Receiver {
	if o.Transport == nil {
		// The names that are asked are those of SNS; a forged answer of DNS for them must not
		// lead into the network of this machine.
		o.Transport = (&outbound.Guard{}).Client().Transport
	}
	if o.Clock == nil {
		o.Clock = sluice.SystemClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Receiver{
		sources: sources, log: o.Log, clock: o.Clock, public: o.PublicURL, certificates: NewCertificates(o.Transport, o.Clock),
		client: http.Client{
			Transport: o.Transport, Timeout: askTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		asking: make(chan struct{}, maxAsking),
		tokens: tokens{first: o.FirstWith},
	}
}

// Sources are all.
func (r *Receiver) Sources() []Source { return r.sources }

// Source returns the source of a name, if it is of that provider, by whichever of its
// names; else nil.
func (r *Receiver) Source(provider, name string) *Source {
	p, err := Find(provider)
	if err != nil {
		return nil
	}
	for i := range r.sources {
		if s := &r.sources[i]; s.Name == name && s.Provider.Name == p.Name {
			return s
		}
	}
	return nil
}

// Address returns the whole address that a request was sent to, as the provider knows it.
// The query is always that of the request: a secret may stand in it.
func (r *Receiver) Address(s *Source, q *http.Request) string {
	address := s.URL
	if address == "" && r.public != "" {
		address = r.public + q.URL.EscapedPath()
	}
	if address == "" {
		address = "http://" + q.Host + q.URL.EscapedPath()
	}
	if q.URL.RawQuery != "" {
		address += "?" + q.URL.RawQuery
	}
	return address
}

// access is what a source's requests are verified by.
func (r *Receiver) access(s *Source) *Access {
	return &Access{
		Secrets: s.Secrets, Topics: s.Topics, Certificates: r.certificates.Get, Now: r.clock.Now(),
		FirstBody: r.tokens.fits,
	}
}

// Early says of a request without its body whether it can be authentic: otherwise nobody
// need read the body of a stranger. An error wraps ErrRefused.
func (r *Receiver) Early(ctx context.Context, s *Source, q *Request) error {
	switch signed := s.Provider.signed; {
	case signed == inBody || signed != "" && q.Header.Get(signed) != "":
		return nil
	case signed == "" || s.Provider.Name == "ses":
		return verifyShared(ctx, q, r.access(s))
	default:
		if signed == svixSignature && svix(q.Header, "Signature") != "" {
			return nil
		}
		return refuse("it has no header %s", signed)
	}
}

// Receive verifies a request of a source and reads it. It confirms a subscription of SNS
// that the request asks for, and waits for that, some seconds at most. An error wraps
// ErrRefused (it is not the provider's), ErrUnconfirmed or ErrNoCertificate (it may come
// again), is that of a body that nobody can have meant, or that of FirstWith (it may come
// again).
func (r *Receiver) Receive(ctx context.Context, s *Source, q *Request) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*askTimeout) // certificate and confirmation: others wait for the place
	defer cancel()
	if err := s.Provider.Verify(ctx, q, r.access(s)); err != nil {
		return Result{}, err
	}
	found, err := s.Provider.Parse(q)
	if err != nil {
		return Result{}, err
	}
	for _, note := range found.Notes {
		r.log.Info("a provider says: "+note, "hook", s.Name)
	}
	if found.Confirmation != nil {
		err = r.confirm(ctx, s, found.Confirmation)
	}
	return found, err
}

// CheckSecret says what is wrong with a secret of a provider, nil if nothing is. It does
// not show the secret.
func (p Provider) CheckSecret(secret string) error {
	const least = 16
	switch {
	case p.Name == "sendgrid":
		if _, ok := publicKey(secret); !ok {
			return errors.New("is no public key in base64, as SendGrid shows it (Settings, Mail Settings, Event Webhook, Signed Event Webhook)")
		}
	case p.Name == "resend":
		if key, ok := svixKey(secret); !ok || len(key) < least {
			return errors.New("is no signing secret of Resend, want whsec_ and base64")
		}
	case len(secret) < least:
		return fmt.Errorf("has %d characters, want at least %d", len(secret), least)
	case strings.ContainsFunc(secret, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return errors.New("has a control character in it")
	}
	return nil
}
