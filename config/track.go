package config

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"sluice/track/link"
)

// MaxExceptApps bounds track.except_apps.
const MaxExceptApps = 1000

// Track says what is put into mails so that opens and clicks are known.
type Track struct {
	URL    string `yaml:"url" doc:"With what the links in tracked mails begin, best a domain that serves nothing else: https://HOST, or with a path. Empty: nothing is tracked." sample:"https://t.example.com"`
	Opens  bool   `yaml:"opens" doc:"true: mails get a pixel, by which it is known that they were opened. A message may say no for itself."`
	Clicks bool   `yaml:"clicks" doc:"true: links of mails lead by way of url, by which it is known that they were clicked. A message may say no for itself."`

	Transactional bool     `yaml:"transactional" doc:"false: transactional mail gets neither."`
	ExceptApps    []string `yaml:"except_apps" doc:"Apps (app_id) whose mail gets neither. On a command line or in the environment: separated by commas." sample:"[intranet]"`

	Listen            string   `yaml:"listen" doc:"Where opens, clicks and pages about subscriptions are answered: HOST:PORT, a listener of its own beside the API's. Empty: nowhere. Needs url. Beyond loopback (0.0.0.0:8020) give it a certificate, or put a proxy before it." sample:"127.0.0.1:8020"`
	TLSCertificate    string   `yaml:"tls_certificate" doc:"File with the certificate and its chain (PEM) that the listener shows. Read again when it changes. Without it the listener speaks plain HTTP, to a proxy." sample:"/etc/sluice/track-fullchain.pem"`
	TLSKey            string   `yaml:"tls_key" doc:"File with the certificate's key (PEM)." sample:"/etc/sluice/track-privkey.pem"`
	KeepAddressesDays int      `yaml:"keep_addresses_days" range:"0..36500" doc:"For how many days the events of opens and clicks keep the address (ip) and the user agent of the visitor, and what of a URL names a mail address, 0 to 36500; 0: for ever. The events stay."`
	Scanners          []string `yaml:"scanners" doc:"Networks from which nobody reads mail, beside those that the program knows: opens and clicks of our own pages from there count as a machine's. On a command line or in the environment: separated by commas." sample:"[198.51.100.0/24]"`
}

// SubscriptionPages is with what the links in mails begin that lead to pages about
// subscriptions: the listener of opens and clicks answers them. Empty if it does not, or
// if track.url is no https URL, which one click needs (RFC 8058, 3.1).
func (c *Config) SubscriptionPages() string {
	if c.Track.Listen == "" || !strings.HasPrefix(c.Track.URL, "https://") {
		return ""
	}
	return c.Track.URL + link.PagePath
}

// track checks what links of tracked mails begin with: it stands in HTML as it is.
func (f *findings) track() {
	f.landing()
	f.most("track.except_apps", "entries", len(f.c.Track.ExceptApps), MaxExceptApps)
	if slices.Contains(f.c.Track.ExceptApps, "") {
		f.add("track.except_apps", errors.New("has an empty entry, which would leave out all mail without an app; name apps by their app_id, or leave the setting empty"))
	}
	base := f.c.Track.URL
	if base == "" {
		return
	}
	f.add("track.url", checkWebURL(base))
	if strings.ContainsAny(base, "?&=") {
		f.add("track.url", errors.New("has a query; want https://HOST, or with a path"))
	}
}

// landing checks the listener of what tracked mails bring back.
func (f *findings) landing() {
	t := &f.c.Track
	if (t.TLSCertificate != "") != (t.TLSKey != "") {
		f.add("track.tls_certificate", errors.New("and track.tls_key belong together: give the files of both or neither"))
	}
	for _, text := range t.Scanners {
		if _, err := parseProxy(text); err != nil {
			f.add("track.scanners", err)
		}
	}
	if t.Listen == "" {
		return
	}
	f.add("track.listen", checkListen(t.Listen))
	if t.URL == "" {
		f.add("track.listen", errors.New("is set, and there is no track.url, with which the links begin that come there; set it: https://HOST"))
	}
}

// Networks returns the networks of scanners. They have been checked.
func (t *Track) Networks() []netip.Prefix { return prefixesOf(t.Scanners) }
