package config

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"sluice/lib/dns"
	"sluice/mail/domain"
	"sluice/mail/route"
)

// Domains says what is done about the domains that mail is sent from.
type Domains struct {
	Check    bool   `yaml:"check" doc:"Whether a sender's domain is looked at in DNS (SPF, DKIM, DMARC, MX) at its first mail, and every 6 hours while there is mail, with sending: allow-list or on. Errors are in the log, in doctor, and an alert. No mail waits for it."`
	Require  bool   `yaml:"require" doc:"true: mail is not accepted from a domain that is surely wrong, be it the envelope's or that of an author in the header From. The first mail of a domain waits up to 5 seconds for the look at it; if DNS does not answer it is accepted."`
	Resolver string `yaml:"resolver" doc:"Who is asked: IP or IP:PORT. Default: the resolvers of this machine." sample:"127.0.0.53"`
}

// domains checks the settings of domains.
func (f *findings) domains() {
	d := &f.c.Domains
	if d.Resolver != "" {
		_, err := dns.New(d.Resolver)
		f.add("domains.resolver", within("is wrong:", err))
	}
	if d.Require && !d.Check {
		f.add("domains.require", errors.New("is true, and domains.check is not: nothing would be known; set both"))
	}
}

// Leaves reports whether mail leaves at all: else it does not matter what
// receivers would find.
func (c *Config) Leaves() bool {
	return c.Sending == string(route.AllowList) || c.Sending == string(route.On)
}

// providers are mail servers and HTTP interfaces that are known, by the ends of
// their hosts' names, with what they want included in SPF records. Those with an
// envelope of their own, unless that is set up otherwise, are foreign.
var providers = []struct {
	host, include string
	foreign       bool
}{
	{".amazonaws.com", amazonInclude, true},
	{".sendgrid.net", "sendgrid.net", true},
	{".sendgrid.com", "sendgrid.net", true},
	{".mailgun.org", "mailgun.org", false},
	{".mailgun.net", "mailgun.org", false},
	{".postmarkapp.com", "spf.mtasv.net", true},
	{".sparkpostmail.com", "sparkpostmail.com", true},
	{".sparkpost.com", "sparkpostmail.com", true},
	{".mailjet.com", "spf.mailjet.com", true},
	{".brevo.com", "spf.brevo.com", true},
	{".gmail.com", "_spf.google.com", false},
	{".office365.com", "spf.protection.outlook.com", false},
}

const amazonInclude = "amazonses.com"

// Ways are the routes, as far as DNS has to know of them.
func (c *Config) Ways() []domain.Way {
	var all []domain.Way
	for i := range c.Routes {
		r := &c.Routes[i]
		w := domain.Way{Name: r.Name, Bounces: strings.ToLower(r.BounceDomain)}
		switch kinds := r.kinds(); {
		case slices.Contains(kinds, "ses"):
			w.Include, w.Foreign, w.Signs = amazonInclude, true, true
		case slices.Contains(kinds, "smtp"):
			if u, err := url.Parse(r.SMTP.URL.Reveal()); err == nil {
				w.Host = strings.ToLower(u.Hostname())
				knownProvider(&w, w.Host)
			}
		default:
			w.Foreign, w.Signs = true, true // until the provider is known
			if u, err := url.Parse(r.HTTP.URL.Reveal()); err == nil {
				knownProvider(&w, strings.ToLower(u.Hostname()))
			}
		}
		all = append(all, w)
	}
	return all
}

// knownProvider says of a way whose host belongs to a known provider what that
// one wants.
func knownProvider(w *domain.Way, host string) {
	for _, p := range providers {
		if strings.HasSuffix("."+host, p.host) {
			w.Include, w.Foreign, w.Signs = p.include, p.foreign, true
			return
		}
	}
}
