package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/lib/mime"
	"sluice/user/consent"
	"sluice/user/profile"
)

// MaxProxies bounds `proxies`, MaxHosts `hosts`.
const (
	MaxProxies = 100
	MaxHosts   = 100
)

// OptIn is a form of double opt-in.
type OptIn struct {
	Name           string   // in the path of its requests: the key of the mapping
	Groups         []string `yaml:"groups" doc:"Ids of subscription groups that are subscribed, 20 at most." sample:"[newsletter]"`
	EmailSubscribe bool     `yaml:"email_subscribe" doc:"true: email_subscribe becomes opted_in."`
	ConfirmedURL   string   `yaml:"confirmed_url" doc:"Where the browser goes after confirming. Without it a plain page is shown." sample:"https://example.com/welcome"`
	Hours          int      `yaml:"hours" range:"1..720" doc:"How long a link is good, 1 to 720."`
	Fields         []string `yaml:"fields" doc:"Attributes that may be given with the address, 20 at most; others are passed over. Texts, numbers, true and false." sample:"[first_name, language]"`
	Honeypot       string   `yaml:"honeypot" doc:"A field that people do not see. A request in which it is filled in is answered as any other, and forgotten."`
	Origins        []string `yaml:"origins" doc:"Sites whose scripts may send requests, and the only ones whose forms may (CORS). Without them scripts of other sites see no answer, and forms of all sites may send." sample:"[https://example.com]"`
	PerAddress     int      `yaml:"per_address_per_hour" range:"0..1000000" doc:"How many links an address is sent for a form, 1 to 1000000; 0: no bound. Each process counts for itself."`
	PerIP          int      `yaml:"per_ip_per_hour" range:"0..1000000" doc:"How many requests of a form an address of the network may send, 1 to 1000000; 0: no bound. 64 bits of an address of IPv6. Behind a proxy set proxies."`
}

// newOptIn is a form that nothing is set of.
func newOptIn(name string) OptIn {
	return OptIn{Name: name, EmailSubscribe: true, Hours: 72, Honeypot: "website", PerAddress: 3, PerIP: 30}
}

// Forms returns the forms as package consent wants them.
func (c *Config) Forms() []consent.Form {
	var forms []consent.Form
	for _, f := range c.OptIn {
		forms = append(forms, consent.Form{
			Name: f.Name, Groups: f.Groups, EmailSubscribe: f.EmailSubscribe, ConfirmedURL: f.ConfirmedURL, Hours: f.Hours,
			Fields: f.Fields, Honeypot: f.Honeypot, Origins: f.Origins, PerAddressPerHour: f.PerAddress, PerSenderPerHour: f.PerIP,
		})
	}
	return forms
}

// ProxyPrefixes returns the addresses of proxies. They have been checked.
func (c *Config) ProxyPrefixes() []netip.Prefix { return prefixesOf(c.Proxies) }

// prefixesOf returns addresses and networks that have been checked.
func prefixesOf(texts []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		if p, err := parseProxy(text); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// HostNames returns the names by which a server on loopback may be addressed,
// beside those of loopback: public_url's and hosts.
func (c *Config) HostNames() []string {
	names := slices.Clone(c.Hosts)
	if u, err := url.Parse(c.PublicURL); err == nil && u.Host != "" {
		names = append(names, u.Host)
	}
	return names
}

func parseProxy(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		ip = ip.Unmap().WithZone("")
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("has %q, want an address or a network: 10.0.0.7 or 10.0.0.0/8", text)
	}
	return p.Masked(), nil
}

var formName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// notOfForms are attributes that a stranger may not set: what identifies a
// user, and what the user has agreed to.
var notOfForms = []string{
	"email", "external_id", "user_alias", "braze_id", "email_subscribe", "push_subscribe", "subscription_groups",
	"_update_existing_only", "_merge_objects", "push_token_import", "push_tokens",
}

// optIn checks forms, and what all of them need.
func (f *findings) optIn() {
	c := f.c
	for _, path := range []string{"secret", "secret_previous"} {
		if n := c.fieldAt(path).Len(); n > 0 && n < MinSecretBytes {
			f.add(path, fmt.Errorf("has %d characters, want at least %d; make one: head -c 32 /dev/urandom | base64", n, MinSecretBytes))
		}
	}
	f.most("proxies", "entries", len(c.Proxies), MaxProxies)
	for _, text := range c.Proxies {
		_, err := parseProxy(text)
		f.add("proxies", err)
	}
	f.most("hosts", "entries", len(c.Hosts), MaxHosts)
	for _, host := range c.Hosts {
		if _, err := netip.ParseAddr(host); err != nil && !mime.IsHostname(host) {
			f.add("hosts", fmt.Errorf("has %.100q, want a name such as api.example.com, without a port", host))
		}
	}
	if c.PublicURL != "" {
		f.add("public_url", checkWebURL(c.PublicURL))
	}
	if c.UnsubscribeMailto != "" {
		f.add("unsubscribe_mailto", c.checkMailto())
	}
	if len(c.OptIn) == 0 {
		return
	}
	if c.PublicURL == "" {
		f.add("optin", errors.New("has forms, and there is no public_url, with which their links begin; set it: https://HOST"))
	}
	f.most("optin", "forms", len(c.OptIn), consent.MaxForms)
	for i := range c.OptIn {
		f.form(&c.OptIn[i])
	}
}

// checkMailto checks the address of mails to unsubscribe by: it stands in a
// header as it is, so it has none but plain characters.
func (c *Config) checkMailto() error {
	plain := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("<>\"(),:;?&%\\[]", r) }
	address, ok := profile.NormalEmail(c.UnsubscribeMailto)
	switch {
	case !ok || strings.ContainsFunc(address, plain):
		return fmt.Errorf("is %.64q, want an address, in ASCII", c.UnsubscribeMailto)
	case !strings.HasPrefix(c.PublicURL, "https://"):
		return errors.New("is set, and public_url is no https://HOST: without it no mail gets these headers")
	}
	return nil
}

func (f *findings) form(o *OptIn) {
	wrong := f.entry(joinPath("optin", o.Name), o)
	if !formName.MatchString(o.Name) || len(o.Name) > consent.MaxFormNameBytes {
		wrong("", fmt.Errorf("is no name of a form, want 1 to %d of a-z, 0-9, _ and -", consent.MaxFormNameBytes))
	}
	if !o.EmailSubscribe && len(o.Groups) == 0 {
		wrong("groups", errors.New("are empty, and email_subscribe is false: nothing would be subscribed"))
	}
	if n := len(o.Groups); n > consent.MaxGroups {
		wrong("groups", fmt.Errorf("has %d entries, the most is %d", n, consent.MaxGroups))
	}
	for _, g := range o.Groups {
		if g == "" || len(g) > consent.MaxGroupBytes || !utf8.ValidString(g) || strings.ContainsFunc(g, func(r rune) bool { return r < ' ' }) {
			wrong("groups", fmt.Errorf("has %q, want ids of 1 to %d bytes", g, consent.MaxGroupBytes))
		}
	}
	if o.ConfirmedURL != "" {
		wrong("confirmed_url", checkWebURL(o.ConfirmedURL))
	}
	for _, o := range o.Origins {
		wrong("origins", checkOrigin(o))
	}
	if n := len(o.Fields); n > consent.MaxFields {
		wrong("fields", fmt.Errorf("has %d entries, the most is %d", n, consent.MaxFields))
	}
	for _, name := range o.Fields {
		switch {
		case !profile.NameFits(name) || strings.HasPrefix(name, "$"):
			wrong("fields", fmt.Errorf("has %q, which can be the name of no attribute", name))
		case slices.Contains(notOfForms, name):
			wrong("fields", fmt.Errorf("has %s, which is not for strangers to set", name))
		case name == o.Honeypot:
			wrong("fields", fmt.Errorf("has %s, which is the honeypot; give that another name", name))
		}
	}
	if o.Honeypot == "email" {
		wrong("honeypot", errors.New("is email, which everybody fills in; give it another name"))
	}
}

// checkWebURL checks an address that browsers go to.
func checkWebURL(text string) error {
	const want = "want https://HOST/PATH, without a user and without #"
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("cannot be read as a URL; " + want)
	}
	if (u.Scheme != "https" && u.Scheme != "http") || u.Hostname() == "" || u.User != nil || u.Fragment != "" || strings.ContainsAny(text, " \t\r\n\\\"'<>;,") {
		return fmt.Errorf("is %s; %s", redactURL(text), want)
	}
	return nil
}

// checkOrigin checks a site as browsers name it (RFC 6454, 6.1).
func checkOrigin(text string) error {
	u, err := url.Parse(text)
	if err != nil || checkWebURL(text) != nil || u.Scheme+"://"+u.Host != text || strings.ToLower(text) != text {
		return fmt.Errorf("has %q, want https://HOST, in lower case, without a path", text)
	}
	return nil
}
