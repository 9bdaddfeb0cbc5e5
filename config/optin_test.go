package config

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

const publicURL = "public_url: https://m.example.com\n"

func TestOptIn(t *testing.T) {
	c := mustLoad(t, "public_url: https://m.example.com/x/\nproxies: [10.0.0.7, 10.1.2.3/16, '::1']\noptin:\n  news: {groups: [g]}\n  plain:\n", nil, nil)
	forms := c.Forms()
	if len(forms) != 2 || c.PublicURL != "https://m.example.com/x" {
		t.Fatalf("%+v %s", forms, c.PublicURL)
	}
	f := forms[0]
	if f.Name != "news" || !f.EmailSubscribe || f.Hours != 72 || f.Honeypot != "website" || f.PerAddressPerHour != 3 || f.PerSenderPerHour != 30 || !slices.Equal(f.Groups, []string{"g"}) {
		t.Errorf("%+v", f)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("::1/128")}
	if got := c.ProxyPrefixes(); !slices.Equal(got, want) {
		t.Errorf("proxies %v", got)
	}
	mustLoad(t, "secret: "+strings.Repeat("x", 32), nil, nil)
}

func TestOptInRefusals(t *testing.T) {
	for yaml, want := range map[string]string{
		"optin: {a: {}}":                                                 "sluice.yaml:1: optin has forms, and there is no public_url, with which their links begin; set it: https://HOST",
		publicURL + "optin: {a: {hours: 0}}":                             "sluice.yaml:2: optin.a.hours is 0, want 1 to 720",
		publicURL + "optin: {a: {hour: 1}}":                              "sluice.yaml:2: optin.a.hour: unknown key; did you mean hours?",
		publicURL + "optin: {A/b: {}}":                                   "sluice.yaml:2: optin.A/b is no name of a form, want 1 to 64 of a-z, 0-9, _ and -",
		publicURL + "optin: {a: {email_subscribe: false}}":               "sluice.yaml:2: optin.a.groups are empty, and email_subscribe is false: nothing would be subscribed",
		publicURL + "optin: {a: {groups: ['']}}":                         "sluice.yaml:2: optin.a.groups has \"\", want ids of 1 to 100 bytes",
		publicURL + "optin: {a: {fields: [email_subscribe]}}":            "sluice.yaml:2: optin.a.fields has email_subscribe, which is not for strangers to set",
		publicURL + "optin: {a: {fields: [website]}}":                    "sluice.yaml:2: optin.a.fields has website, which is the honeypot; give that another name",
		publicURL + "optin: {a: {confirmed_url: 'javascript:alert(1)'}}": "sluice.yaml:2: optin.a.confirmed_url is javascript:alert(1); want https://HOST/PATH, ...",
		publicURL + "optin: {a: {confirmed_url: '//example.com'}}":       "sluice.yaml:2: optin.a.confirmed_url is //example.com; want https://HOST/PATH, ...",
		publicURL + "optin: {a: {confirmed_url: 'https://u:p4ss@h'}}":    "sluice.yaml:2: optin.a.confirmed_url is https://u:xxxxx@h; want https://HOST/PATH, ...",
		publicURL + "optin: {a: {confirmed_url: \"https://h/\\nX: y\"}}": "sluice.yaml:2: optin.a.confirmed_url cannot be read as a URL; want ...",
		publicURL + "optin: {a: {origins: ['https://example.com/']}}":    "sluice.yaml:2: optin.a.origins has \"https://example.com/\", want https://HOST, in lower case, without a path",
		publicURL + "optin: {a: {origins: ['*']}}":                       "sluice.yaml:2: optin.a.origins has \"*\", want https://HOST, in lower case, without a path",
		publicURL + "optin: {a: {per_ip_per_hour: -1}}":                  "sluice.yaml:2: optin.a.per_ip_per_hour is -1, want 0 to 1000000",
		publicURL + "unsubscribe_mailto: 'a@example.com?x'":              "sluice.yaml:2: unsubscribe_mailto is \"a@example.com?x\", want an address, in ASCII",
		"unsubscribe_mailto: a@example.com":                              "sluice.yaml:1: unsubscribe_mailto is set, and public_url is no https://HOST: ...",
		"public_url: example.com":                                        "sluice.yaml:1: public_url is example.com; want https://HOST/PATH, ...",
		"proxies: [everybody]":                                           "sluice.yaml:1: proxies has \"everybody\", want an address or a network: 10.0.0.7 or 10.0.0.0/8",
		"secret: hunter2":                                                "sluice.yaml:1: secret has 7 characters, want at least 32; make one: head -c 32 /dev/urandom | base64",
		"secret_previous: hunter2":                                       "sluice.yaml:1: secret_previous has 7 characters, want at least 32; make one: ...",
	} {
		_, err := load(t, yaml, nil, nil)
		if err == nil || !matches(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "p4ss") {
			t.Errorf("%q:\ngot  %v\nwant %s", yaml, err, want)
		}
	}
}
