package config

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/route"
	"sluice/mail/via/mailhttp"
	"sluice/mail/via/ses"
	"sluice/mail/via/sinkbox"
	"sluice/mail/via/smtp"
	"sluice/track/hook"
)

// SinkRoute is what the built-in mailboxes are called among the routes.
const SinkRoute = "sink"

// MaxAllowed bounds `allow_list`.
const MaxAllowed = 10_000

// Route is a way out for mail: what it takes, how fast, and by one of smtp, ses
// and http.
type Route struct {
	Name       string   // the key of the mapping
	Weight     int      `yaml:"weight" range:"1..1000" doc:"Its share of the mail that several routes could take, 1 to 1000."`
	Backup     bool     `yaml:"backup" doc:"true: it takes mail only while no other route that could is up."`
	Domains    []string `yaml:"domains" doc:"Recipients' domains that it takes: example.com, '*.example.com' for all below. None: all. The longest that fits decides." sample:"[example.com, '*.example.com']"`
	Except     []string `yaml:"except" doc:"Domains that it does not take." sample:"[test.example.com]"`
	Classes    []string `yaml:"classes" doc:"transactional, marketing. None: both." sample:"[transactional, marketing]"`
	Pace       string   `yaml:"pace" doc:"How many mails it may send, all processes together: a number, / and s, m, h or d. None: as many as it can. It falls when the other side wants fewer, and grows again." sample:"100/s"`
	Burst      int      `yaml:"burst" range:"0..1000000" doc:"How many of these may be saved up while there is nothing to send, up to 1000000 and not fewer than go at once (window of smtp). 0: a tenth of a second's worth, or as many as go at once if that is more." sample:"200"`
	PerDomain  string   `yaml:"pace_per_domain" doc:"The same for each domain." sample:"20/s"`
	Paces      []Pair   `yaml:"paces" doc:"The same for single domains: DOMAIN: PACE."`
	Warmup     []string `yaml:"warmup" doc:"How many mails a day it may take: on the first day, the second, ... 90 at most; after them there is no limit. Days are of UTC." sample:"[50, 100, 500, 1000, 5000]"`
	WarmupFrom string   `yaml:"warmup_from" doc:"The first of these days." sample:"2026-01-31"`

	BounceDomain string `yaml:"bounce_domain" doc:"A domain of yours whose mail comes to the listener bounces.listen: mail by this route has an envelope sender of its own there, TOKEN@bounce_domain, and what comes back to it is an event of this mail. Of routes by smtp; docs/bounces.md has the DNS records." sample:"bounces.example.com"`

	SMTP SMTPRoute `yaml:"smtp" doc:"A mail server that takes mail to anybody: your own, or a provider's."`
	SES  SESRoute  `yaml:"ses" doc:"Amazon SES by its API."`
	HTTP HTTPRoute `yaml:"http" doc:"Any provider that takes a mail as JSON by HTTP."`
}

// SMTPRoute is a relay.
type SMTPRoute struct {
	URL         URL    `yaml:"url" doc:"smtp://USER:PASSWORD@HOST:587 (by STARTTLS, without which no mail goes to it; plain: true for none) or smtps://USER:PASSWORD@HOST:465. Certificates are verified." sample:"smtp://USER:PASSWORD@mail.example.com:587"`
	Plain       bool   `yaml:"plain" doc:"true: no TLS at all, for a server on this machine or a network of your own."`
	CAFile      string `yaml:"ca_file" doc:"A file with the certificates (PEM) of those who may sign the server's, instead of this machine's: for a private CA. Read at the start."`
	Hello       string `yaml:"hello" doc:"What EHLO says we are. Default: this machine's name." sample:"mail.example.com"`
	Provider    string `yaml:"provider" doc:"Whose server it is: ses, sendgrid, mailgun, postmark, sparkpost, netcore, brevo, mailjet or mandrill. Mails get the header by which that provider's webhooks name them again (docs/hooks.md); a mail with such a header keeps its own." sample:"mailgun"`
	Connections int    `yaml:"connections" doc:"How many at once, 0 to 1000; 0: 10." sample:"20"`
	Window      int    `yaml:"window" doc:"How many mails may be on their way on a connection, 0 to 256; 0: 16. When it dies, so many are in doubt." sample:"32"`
	MaxMessages int    `yaml:"max_messages" range:"0..1000000" doc:"A connection is closed after so many, 0 to 1000000; 0: never. Amazon's servers end them after some 350." sample:"300"`
}

// SESRoute is Amazon SES.
type SESRoute struct {
	Region           string `yaml:"region" doc:"eu-west-1 and so on." sample:"eu-west-1"`
	AccessKey        string `yaml:"access_key" doc:"Of who may ses:SendEmail and ses:SendRawEmail. Default: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN of the environment." sample:"AKIAEXAMPLE"`
	SecretKey        Secret `yaml:"secret_key" doc:"Never printed." sample:"SECRET"`
	ConfigurationSet string `yaml:"configuration_set" doc:"The configuration set that says where events go." sample:"newsletter"`
	Endpoint         string `yaml:"endpoint" doc:"Another address than the region's: https://, or http:// to this machine." sample:"https://email.eu-west-1.amazonaws.com"`
	CAFile           string `yaml:"ca_file" doc:"As ca_file of smtp: who may sign the certificate of endpoint, instead of this machine's authorities."`
	Workers          int    `yaml:"workers" doc:"How many requests at once, 0 to 1024; 0: 32." sample:"64"`
	TimeoutSeconds   int    `yaml:"timeout_seconds" doc:"How long an answer is waited for, 0 to 600; 0: 60. What is not answered is in doubt." sample:"60"`
}

// HTTPRoute is any provider.
type HTTPRoute struct {
	URL               Secret   `yaml:"url" doc:"Where mail is posted to: https://, or http:// to this machine. Redirects are not followed. Never printed: it may hold a secret." sample:"https://api.example.com/v1/send"`
	CAFile            string   `yaml:"ca_file" doc:"As ca_file of smtp: who may sign the server's certificate, instead of this machine's authorities."`
	Method            string   `yaml:"method" doc:"POST, PUT or PATCH." sample:"POST"`
	Headers           []Pair   `yaml:"headers" doc:"NAME: VALUE of headers, 32 at most. Values are never printed."`
	Body              string   `yaml:"body" doc:"JSON with placeholders in its texts: {{from}} {{to}} {{id}} {{tag_id}} {{tags}} {{raw_base64}} {{subject}} {{text}} {{html}} {{header:NAME}}. '{{tags}}' alone becomes a list; {{tag_id}} is {{id}} with - for its dot." sample:"'{\"from\": \"{{header:From}}\", \"to\": \"{{to}}\", \"html\": \"{{html}}\"}'"`
	ID                string   `yaml:"id" doc:"Where the message's id is in the answer, a JSON pointer." sample:"/id"`
	IdempotencyHeader string   `yaml:"idempotency_header" doc:"A header that carries the send's id, by which the provider takes a mail once, however often it comes." sample:"Idempotency-Key"`
	NotTaken          []string `yaml:"not_taken" doc:"Statuses from 500 on that say that the mail was not taken. The others leave it in doubt, but for 503, which is asked to slow down by." sample:"[502]"`
	Workers           int      `yaml:"workers" doc:"How many requests at once, 0 to 1024; 0: 16." sample:"32"`
	TimeoutSeconds    int      `yaml:"timeout_seconds" doc:"How long an answer is waited for, 0 to 600; 0: 60. What is not answered is in doubt." sample:"60"`
}

// Mailboxes are those that are built in.
type Mailboxes struct {
	Keep          int `yaml:"keep" range:"1..100000" doc:"How many mails are kept for viewing, 1 to 100000, the newest."`
	Megabytes     int `yaml:"megabytes" range:"1..1024" doc:"And how much of them, 1 to 1024."`
	Seed          int `yaml:"seed" range:"0..2147483647" doc:"Another number, other addresses that do what follows."`
	Defer         int `yaml:"defer" doc:"Of 1000 addresses so many defer each mail once."`
	Refuse        int `yaml:"refuse" doc:"Of 1000 so many refuse it."`
	Bounce        int `yaml:"bounce" doc:"So many take it, and it comes back."`
	Open          int `yaml:"open" doc:"So many open it."`
	Click         int `yaml:"click" doc:"So many of 1000 also click in it."`
	Complain      int `yaml:"complain" doc:"So many complain of it."`
	Unsubscribe   int `yaml:"unsubscribe" doc:"So many unsubscribe."`
	WithinSeconds int `yaml:"within_seconds" range:"1..2592000" doc:"All this happens within so many seconds, 1 to 2592000."`
}

// Pair is a key of a mapping and its value, which may be a secret.
type Pair struct {
	Key   string
	Value Secret
}

func newRoute(name string) Route { return Route{Name: name, Weight: 1} }

// Box returns the settings of the built-in mailboxes.
func (m *Mailboxes) Box() sinkbox.Settings {
	return sinkbox.Settings{
		Name: SinkRoute, Seed: uint64(m.Seed), Defer: m.Defer, Refuse: m.Refuse, Bounce: m.Bounce, Open: m.Open, Click: m.Click,
		Complain: m.Complain, Unsubscribe: m.Unsubscribe, Within: time.Duration(m.WithinSeconds) * time.Second, Mails: m.Keep, Bytes: m.Megabytes << 20,
	}
}

// relay returns the settings of a relay.
func (r *Route) relay() (smtp.Options, error) {
	s := &r.SMTP
	const want = "want smtp://HOST:587 or smtps://HOST:465, with USER:PASSWORD@ before HOST if it asks for a login"
	u, err := url.Parse(s.URL.Reveal())
	if err != nil {
		return smtp.Options{}, errors.New("cannot be read as a URL; " + want + ", special characters of a password as %XX")
	}
	ports := map[string]string{"smtp": "587", "smtps": "465"}
	if ports[u.Scheme] == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return smtp.Options{}, fmt.Errorf("is %s; %s", s.URL, want)
	}
	o := smtp.Options{
		Name: r.Name, Address: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), ports[u.Scheme])), Hello: s.Hello, TLS: smtp.TLSStart, User: u.User.Username(),
		Connections: s.Connections, Window: s.Window, MaxMessages: s.MaxMessages,
	}
	o.Password, _ = u.User.Password()
	if s.Provider != "" {
		provider, err := hook.Find(s.Provider)
		if err == nil {
			o.Header, err = provider.Echo()
		}
		if err != nil {
			return o, fmt.Errorf("has a provider, %.64q, that is not right: %w", s.Provider, err)
		}
	}
	switch {
	case s.Plain && u.Scheme == "smtps":
		return o, errors.New("is smtps://, and plain is true; want one of them")
	case s.Plain:
		o.TLS, o.Insecure = smtp.TLSNone, true
	case u.Scheme == "smtps":
		o.TLS = smtp.TLSImplicit
	}
	if s.CAFile == "" {
		return o, nil
	}
	if s.Plain {
		return o, errors.New("is without TLS (plain is true), and ca_file is set; want one of them")
	}
	o.Roots, err = authorities(s.CAFile)
	return o, err
}

// authorities reads the certificates of those who may sign a server's, nil of no
// file: this machine's.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot be trusted: read ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("cannot be trusted: ca_file %s has no certificate; want PEM, -----BEGIN CERTIFICATE-----", file)
	}
	return pool, nil
}

func (r *Route) amazon(getenv func(string) string) (ses.Settings, error) {
	s := &r.SES
	out := ses.Settings{
		Name: r.Name, Region: s.Region, Endpoint: s.Endpoint, ConfigurationSet: s.ConfigurationSet, Workers: s.Workers,
		Timeout: time.Duration(s.TimeoutSeconds) * time.Second, Credentials: ses.Credentials{AccessKey: s.AccessKey, SecretKey: s.SecretKey.Reveal()},
	}
	var err error
	if out.Roots, err = authorities(s.CAFile); err != nil {
		return out, fmt.Errorf("endpoint %w", err)
	}
	if s.AccessKey == "" && s.SecretKey == "" {
		out.Credentials, err = ses.FromEnvironment(getenv)
	}
	return out, err
}

func (r *Route) provider() (mailhttp.Settings, error) {
	h := &r.HTTP
	out := mailhttp.Settings{
		Name: r.Name, URL: h.URL.Reveal(), Method: h.Method, Body: h.Body, ID: h.ID, IdempotencyHeader: h.IdempotencyHeader, Workers: h.Workers,
		Timeout: time.Duration(h.TimeoutSeconds) * time.Second,
	}
	var err error
	if out.Roots, err = authorities(h.CAFile); err != nil {
		return out, fmt.Errorf("url %w", err)
	}
	for _, p := range h.Headers {
		out.Headers = append(out.Headers, mailhttp.Header{Name: p.Key, Value: p.Value.Reveal()})
	}
	for _, text := range h.NotTaken {
		status, err := strconv.Atoi(text)
		if err != nil {
			return out, fmt.Errorf("not_taken has %q, want numbers", text)
		}
		out.NotTaken = append(out.NotTaken, status)
	}
	return out, nil
}

// kinds returns which of smtp, ses and http a route has.
func (r *Route) kinds() (kinds []string) {
	if r.SMTP != (SMTPRoute{}) {
		kinds = append(kinds, "smtp")
	}
	if r.SES != (SESRoute{}) {
		kinds = append(kinds, "ses")
	}
	if h := &r.HTTP; h.URL != "" || h.Body != "" || len(h.Headers) > 0 || h.Method+h.ID+h.IdempotencyHeader+h.CAFile != "" || len(h.NotTaken) > 0 || h.Workers+h.TimeoutSeconds != 0 {
		kinds = append(kinds, "http")
	}
	return kinds
}

// Transport makes what carries a route's mail. getenv is asked for credentials
// that are not in the configuration.
func (r *Route) Transport(getenv func(string) string, clock sluice.Clock) (mail.Transport, error) {
	kinds := r.kinds()
	if len(kinds) != 1 {
		return nil, fmt.Errorf("want one of smtp, ses and http, found %d", len(kinds))
	}
	switch kinds[0] {
	case "smtp":
		o, err := r.relay()
		if err != nil {
			return nil, fmt.Errorf("smtp.url %w", err)
		}
		o.Clock = clock
		return smtp.New(o)
	case "ses":
		s, err := r.amazon(getenv)
		if err != nil {
			return nil, err
		}
		return ses.New(s, clock)
	}
	s, err := r.provider()
	if err != nil {
		return nil, err
	}
	return mailhttp.New(s, clock)
}

// Settings returns what package route wants to know of a route.
func (r *Route) Settings(t mail.Transport) (route.Settings, error) {
	s := route.Settings{Transport: t, Weight: r.Weight, Backup: r.Backup, Domains: r.Domains, Except: r.Except, Paces: make(map[string]route.Pace)}
	var errs []error
	pace := func(key, text string) (p route.Pace) {
		if text == "" {
			return p
		}
		n, err := route.ParsePace(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %w", key, err))
		}
		return route.Pace{PerSecond: n}
	}
	s.Pace, s.PerDomain = pace("pace", r.Pace), pace("pace_per_domain", r.PerDomain)
	s.Pace.Size = r.Burst
	for _, p := range r.Paces {
		s.Paces[p.Key] = pace("paces."+p.Key, p.Value.Reveal())
	}
	for _, word := range r.Classes {
		class, ok := mail.ParseClass(word)
		if !ok {
			errs = append(errs, fmt.Errorf("classes has %q, want transactional, marketing", word))
		}
		s.Classes = append(s.Classes, class)
	}
	for _, text := range r.Warmup {
		n, err := strconv.Atoi(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("warmup has %q, want how many mails a day", text))
		}
		s.Warmup = append(s.Warmup, n)
	}
	if r.WarmupFrom != "" {
		day, err := time.Parse(time.DateOnly, r.WarmupFrom)
		if err != nil {
			errs = append(errs, fmt.Errorf("warmup_from is %q, want a day: 2026-01-31", r.WarmupFrom))
		}
		s.WarmupFrom = day
	}
	return s, errors.Join(errs...)
}

// routes checks what is sent, where to, and by which routes.
func (f *findings) routes() {
	c := f.c
	modes := []string{string(route.Off), string(route.Sink), string(route.AllowList), string(route.On)}
	f.add("sending", oneOf(c.Sending, modes...))
	outside := false
	ranges(reflect.ValueOf(c.Mailboxes), "", func(string, error) { outside = true })
	if box := c.Mailboxes.Box(); !outside {
		f.add("mailboxes", box.Check())
	}
	f.most("allow_list", "entries", len(c.AllowList), MaxAllowed)
	for _, a := range c.AllowList {
		if _, err := netmail.ParseAddress(a); strings.Contains(a, "@") && err != nil {
			f.add("allow_list", fmt.Errorf("has %q, want an address or a domain", a))
		} else if !strings.Contains(a, "@") {
			f.add("allow_list", within("has", route.CheckDomain(a)))
		}
	}
	if slices.Contains([]string{string(route.On), string(route.AllowList)}, c.Sending) && len(c.Routes) == 0 {
		f.add("sending", fmt.Errorf("is %s, and there are no routes; add one, or leave it at %s", c.Sending, route.Sink))
	}
	f.most("routes", "entries", len(c.Routes), route.MaxRoutes)
	for i := range c.Routes {
		f.route(&c.Routes[i])
	}
}

// within puts words before an error, nil of nil.
func within(words string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %w", words, err)
}

func (f *findings) route(r *Route) {
	wrong := f.entry(joinPath("routes", r.Name), r)
	if !formName.MatchString(r.Name) || len(r.Name) > 64 || r.Name == SinkRoute {
		wrong("", fmt.Errorf("is no name of a route, want 1 to 64 of a-z, 0-9, _ and -, but for %s, as the built-in mailboxes are called", SinkRoute))
	}
	if kinds := r.kinds(); len(kinds) != 1 {
		wrong("", fmt.Errorf("has %d of smtp, ses and http, want one: what carries its mail", len(kinds)))
		return
	}
	// Credentials of the environment are looked for when the program starts.
	t, err := r.Transport(func(string) string { return "-" }, sluice.SystemClock{})
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			wrong(r.kinds()[0], errors.New("is not right: "+strings.TrimSpace(line)))
		}
		return
	}
	s, err := r.Settings(t)
	if err == nil {
		err = s.Check()
	}
	if err != nil {
		wrong("", within("is not right:", err))
	}
	wrong("bounce_domain", r.checkBounceDomain())
}
