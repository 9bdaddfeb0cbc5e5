package config

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/mail"
	"sluice/mail/route"
	"sluice/test/clocktest"
)

// sampledRoutes are what the sample shows.
func sampledRoutes() []Route {
	relay, amazon, provider := newRoute("relay"), newRoute("amazon"), newRoute("provider")
	relay.Domains, relay.Except, relay.Classes = []string{"example.com", "*.example.com"}, []string{"test.example.com"}, []string{"transactional", "marketing"}
	relay.Pace, relay.Burst, relay.PerDomain, relay.Paces = "100/s", 200, "20/s", []Pair{{"slow.example", "30/m"}}
	relay.Warmup, relay.WarmupFrom = []string{"50", "100", "500", "1000", "5000"}, "2026-01-31"
	relay.BounceDomain = "bounces.example.com"
	relay.SMTP = SMTPRoute{URL: "smtp://USER:PASSWORD@mail.example.com:587", Hello: "mail.example.com", Provider: "mailgun", Connections: 20, Window: 32, MaxMessages: 300}
	amazon.SES = SESRoute{Region: "eu-west-1", AccessKey: "AKIAEXAMPLE", SecretKey: "SECRET", ConfigurationSet: "newsletter",
		Endpoint: "https://email.eu-west-1.amazonaws.com", Workers: 64, TimeoutSeconds: 60}
	provider.HTTP = HTTPRoute{URL: "https://api.example.com/v1/send", Method: "POST", Headers: []Pair{{"Authorization", "Bearer SECRET"}},
		Body: `{"from": "{{header:From}}", "to": "{{to}}", "html": "{{html}}"}`, ID: "/id", IdempotencyHeader: "Idempotency-Key", NotTaken: []string{"502"}, Workers: 32, TimeoutSeconds: 60}
	return []Route{relay, amazon, provider}
}

const relayURL = "smtp: {url: smtp://h}"

func TestRoutes(t *testing.T) {
	c := mustLoad(t, "sending: on\nroutes:\n  b: {weight: 3, classes: [marketing], pace: 30/m, paces: {slow.example: 1/h}, warmup: [5], warmup_from: 2026-02-01, "+relayURL+
		"}\n  a: {backup: true, ses: {region: eu-west-1}}\n", nil, nil)
	if len(c.Routes) != 2 || c.Routes[0].Name != "b" || c.Routes[1].Name != "a" || c.Routes[1].Weight != 1 {
		t.Fatalf("%+v", c.Routes)
	}
	clock := clocktest.At(time.Now())
	tr, err := c.Routes[0].Transport(nil, clock)
	if err != nil || tr.Name() != "b" {
		t.Fatal(tr, err)
	}
	s, err := c.Routes[0].Settings(tr)
	if err != nil || s.Weight != 3 || s.Pace.PerSecond != 0.5 || s.Paces["slow.example"].PerSecond != 1./3600 || !slices.Equal(s.Classes, []mail.Class{mail.ClassMarketing}) ||
		!slices.Equal(s.Warmup, []int{5}) || s.WarmupFrom.Month() != time.February {
		t.Errorf("%+v %v", s, err)
	}
	keys := map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
	if _, err := c.Routes[1].Transport(func(name string) string { return keys[name] }, clock); err != nil {
		t.Error(err)
	}
	if _, err := c.Routes[1].Transport(func(string) string { return "" }, clock); err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Error(err)
	}
	if d := mustLoad(t, "", []string{"SLUICE_ALLOW_LIST=a@b.example, c.example"}, nil); d.Sending != string(route.Sink) || !slices.Equal(d.AllowList, []string{"a@b.example", "c.example"}) {
		t.Errorf("%+v", d)
	}
}

func TestRouteRefusals(t *testing.T) {
	for yaml, want := range map[string]string{
		"sending: maybe":                                                                 "sluice.yaml:1: sending is \"maybe\", want one of off, sink, allow-list, on",
		"sending: on":                                                                    "sluice.yaml:1: sending is on, and there are no routes; add one, or leave it at sink",
		"allow_list: [Example.com]":                                                      "sluice.yaml:1: allow_list has \"Example.com\" is no domain; ...",
		"allow_list: [a@@b]":                                                             "sluice.yaml:1: allow_list has \"a@@b\", want an address or a domain",
		"mailboxes: {open: 1, click: 2}":                                                 "sluice.yaml:1: mailboxes click is 2 and open 1: ...",
		"mailboxes: {keep: 0}":                                                           "sluice.yaml:1: mailboxes.keep is 0, want 1 to 100000",
		"routes: {sink: {" + relayURL + "}}":                                             "sluice.yaml:1: routes.sink is no name of a route, ...",
		"routes: {a: {}}":                                                                "sluice.yaml:1: routes.a has 0 of smtp, ses and http, want one: ...",
		"routes: {a: {" + relayURL + ", ses: {region: x}}}":                              "sluice.yaml:1: routes.a has 2 of smtp, ses and http, want one: ...",
		"routes: {a: {weigth: 1, " + relayURL + "}}":                                     "sluice.yaml:1: routes.a.weigth: unknown key; did you mean weight?",
		"routes: {a: {weight: 0, " + relayURL + "}}":                                     "sluice.yaml:1: routes.a.weight is 0, want 1 to 1000",
		"routes: {a: {pace: fast, " + relayURL + "}}":                                    "sluice.yaml:1: routes.a is not right: pace is \"fast\", want a number from 1, ...",
		"routes: {a: {pace: 1/s, burst: 3, " + relayURL + "}}":                           "sluice.yaml:1: routes.a is not right: pace saves up 3, less than the 16 that go at once; raise it",
		"routes: {a: {smtp: {url: 'smtps://h', max_messages: 1000001}}}":                 "sluice.yaml:1: routes.a.smtp.max_messages is 1000001, want 0 to 1000000",
		"routes: {a: {classes: [spam], " + relayURL + "}}":                               "sluice.yaml:1: routes.a is not right: classes has \"spam\", want transactional, marketing",
		"routes: {a: {domains: [A.example], " + relayURL + "}}":                          "sluice.yaml:1: routes.a is not right: \"A.example\" is no domain; ...",
		"routes: {a: {warmup: [5], " + relayURL + "}}":                                   "sluice.yaml:1: routes.a is not right: warmup has no day to begin with; ...",
		"routes: {a: {warmup_from: tomorrow, " + relayURL + "}}":                         "sluice.yaml:1: routes.a is not right: warmup_from is \"tomorrow\", want a day: 2026-01-31",
		"routes: {a: {smtp: {url: 'http://u:hunter2@h'}}}":                               "sluice.yaml:1: routes.a.smtp is not right: smtp.url is http://u:xxxxx@h; want smtp://HOST:587 ...",
		"routes: {a: {smtp: {url: 'smtps://h', plain: true}}}":                           "sluice.yaml:1: routes.a.smtp is not right: smtp.url is smtps://, and plain is true; want one of them",
		"routes: {a: {ses: {region: Ireland}}}":                                          "sluice.yaml:1: routes.a.ses is not right: prepare SES route a: region is \"Ireland\", want ...",
		"routes: {a: {http: {url: 'https://u:hunter2@h', body: '{}'}}}":                  "sluice.yaml:1: routes.a.http is not right: prepare HTTP route a: url has a user; ...",
		"routes: {a: {http: {url: 'http://h/?k=hunter2', body: '{\"to\":\"{{to}}\"}'}}}": "sluice.yaml:1: routes.a.http is not right: prepare HTTP route a: url is not https://, so keys and mails would go ...",
		"routes: {a: {ses: {region: eu-west-1, endpoint: 'http://h', access_key: k, secret_key: hunter2}}}": "sluice.yaml:1: routes.a.ses is not right: prepare SES route a: endpoint is not https://, so keys and mails would go ...",
		"routes: {a: {http: {url: 'https://h', not_taken: [x], body: '{}'}}}":                               "sluice.yaml:1: routes.a.http is not right: not_taken has \"x\", want numbers",
	} {
		_, err := load(t, yaml, nil, nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", yaml, err)
			continue
		}
		first, _, _ := strings.Cut(err.Error(), "\n")
		if !matches(first, want) {
			t.Errorf("%q:\ngot  %v\nwant %s", yaml, first, want)
		}
	}
}

// What a route's settings hide is not shown, and a file with it is known to have
// secrets.
func TestRouteSecrets(t *testing.T) {
	for _, yaml := range []string{
		"routes: {a: {ses: {region: eu-west-1, access_key: k, secret_key: hunter2}}}",
		"routes: {a: {http: {url: 'https://h/?key=hunter2', body: '{\"to\":\"{{to}}\"}'}}}",
		"routes: {a: {http: {url: 'https://h', headers: {X: hunter2}, body: '{\"to\":\"{{to}}\"}'}}}",
		"routes: {a: {smtp: {url: 'smtp://u:hunter2@h'}}}",
	} {
		c := mustLoad(t, yaml, nil, nil)
		if _, secret := c.File(); !secret {
			t.Errorf("%s: no secret", yaml)
		}
		var shown bytes.Buffer
		fmt.Fprintf(&shown, "%v %+v %#v", c.Routes, c.Routes, c.Routes)
		if strings.Contains(shown.String(), "hunter2") {
			t.Errorf("%s", shown.String())
		}
	}
	if !reflect.DeepEqual(Default().Routes, []Route(nil)) {
		t.Error("there are routes by default")
	}
}
