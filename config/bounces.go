package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/lib/mime"
	"sluice/track/verp"
)

// Bounces is the listener for mail that comes back.
type Bounces struct {
	Listen   string `yaml:"listen" doc:"Where mail that comes back to the bounce_domain of routes is taken in by SMTP: 127.0.0.1:2526 behind a mail server on this machine, 0.0.0.0:2526 with port 25 redirected to it. It has no login, and refuses all but its own addresses. TLS is that of smtpd. Empty: nowhere." sample:"127.0.0.1:2526"`
	Feedback string `yaml:"feedback" doc:"What stands before the @ of the address that feedback loops report complaints to (RFC 5965), at each bounce_domain. Choose something that nobody guesses: anybody who knows it can report. Empty: there is none." sample:"fbl-7h2k9q4m"`
}

// MaxFeedbackBytes bounds what stands before the @ (RFC 5321, 4.5.3.1.1).
const MaxFeedbackBytes = 64

// checkBounceDomain says what is wrong with the domain of return paths.
func (r *Route) checkBounceDomain() error {
	const most = 254 - 1 - verp.LocalBytes // RFC 5321, 4.5.3.1.3: a path of 256 octets, with < and >
	switch d := r.BounceDomain; {
	case d == "":
		return nil
	case !slices.Equal(r.kinds(), []string{"smtp"}):
		return fmt.Errorf("is for routes by smtp: a provider by %s has return paths of its own, and reports by its webhook", r.kinds()[0])
	case !mime.IsHostname(d) || !strings.Contains(d, ".") || len(d) > most:
		return fmt.Errorf("is %q, want a name such as bounces.example.com, of %d characters at most", d, most)
	}
	return nil
}

// BounceDomains are the domains of the routes' return paths, in lower case.
func (c *Config) BounceDomains() (all []string) {
	for i := range c.Routes {
		if d := strings.ToLower(c.Routes[i].BounceDomain); d != "" && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// bounces checks the listener for mail that comes back.
func (f *findings) bounces() {
	b := &f.c.Bounces
	if b.Listen != "" {
		f.add("bounces.listen", checkListen(b.Listen))
		if len(f.c.BounceDomains()) == 0 {
			f.add("bounces.listen", errors.New("is set, and no route has a bounce_domain: no mail would be taken; give one to a route"))
		}
	}
	if !isFeedback(b.Feedback) {
		f.add("bounces.feedback", fmt.Errorf("is %.80q, want 1 to %d of a-z, 0-9, ., _ and -, not as long as a return path (%d)", b.Feedback, MaxFeedbackBytes, verp.LocalBytes))
	}
}

// isFeedback reports whether a text can stand before the @, or is empty.
func isFeedback(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && (c != '.' || i == 0 || i == len(s)-1 || s[i-1] == '.') {
			return false
		}
	}
	return len(s) <= MaxFeedbackBytes && len(s) != verp.LocalBytes
}
