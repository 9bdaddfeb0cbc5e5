package config

import (
	"strings"
	"testing"
)

func TestBounces(t *testing.T) {
	route := func(domain string) string {
		return "\nroutes: {relay: {smtp: {url: 'smtp://mail.example.com'}, bounce_domain: " + domain + "}}"
	}
	for _, tt := range []struct{ text, wrong string }{
		{"bounces: {listen: '0.0.0.0:2526', feedback: fbl-1}" + route("Bounces.Example.com"), ""},
		{"bounces: {}" + route("bounces.example.com"), ""},
		{"bounces: {listen: '127.0.0.1:2526'}", "bounces.listen is set, and no route has a bounce_domain"},
		{"bounces: {listen: '2526'}" + route("bounces.example.com"), "bounces.listen is \"2526\""},
		{"bounces: {feedback: 'a b'}", "bounces.feedback is \"a b\""},
		{"bounces: {feedback: " + strings.Repeat("a", 50) + "}", "not as long as a return path (50)"},
		{route("bounces"), "routes.relay.bounce_domain is \"bounces\""},
		{route("'@example.com'"), "routes.relay.bounce_domain is \"@example.com\""},
		{route(strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + "." + strings.Repeat("c", 63) + "." + strings.Repeat("d", 30)), "of 203 characters at most"},
		{"routes: {amazon: {ses: {region: eu-west-1, access_key: A, secret_key: B}, bounce_domain: bounces.example.com}}", "bounce_domain is for routes by smtp"},
	} {
		c, err := load(t, tt.text, nil, nil)
		switch {
		case tt.wrong == "" && err != nil:
			t.Errorf("%s: %v", tt.text, err)
		case tt.wrong == "" && (len(c.BounceDomains()) != 1 || c.BounceDomains()[0] != "bounces.example.com"):
			t.Errorf("%s: domains %q", tt.text, c.BounceDomains())
		case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)):
			t.Errorf("%s: %v, want %s", tt.text, err, tt.wrong)
		}
	}
}
