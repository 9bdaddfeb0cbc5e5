package domain

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxTags bounds a list of tags.
const maxTags = 64

// tag is NAME=VALUE of a list, without the blanks around them.
type tag struct{ name, value string }

// parseTags reads a list of tags, as the records of DKIM have them (RFC 6376, 3.2).
func parseTags(text string) ([]tag, error) {
	tags, faults, err := splitTags(text)
	if err == nil && len(faults) > 0 {
		err = errors.New(faults[0])
	}
	return tags, err
}

// splitTags reads a list of tags that may have parts which are none, as readers of DMARC
// records overlook them (RFC 7489, 6.3). An error means that the list as a whole does not
// count.
func splitTags(text string) (tags []tag, faults []string, err error) {
	parts := strings.Split(text, ";")
	if strings.Trim(parts[len(parts)-1], blanks) == "" {
		parts = parts[:len(parts)-1]
	}
	if len(parts) > maxTags {
		return nil, nil, fmt.Errorf("it has more than %d tags", maxTags)
	}
	for _, part := range parts {
		name, value, ok := strings.Cut(part, "=")
		t := tag{strings.Trim(name, blanks), strings.Trim(value, blanks)}
		if !ok || t.name == "" || !isLetter(t.name[0]) || strings.ContainsAny(t.name, blanks) {
			faults = append(faults, fmt.Sprintf("%.80q is no tag, want NAME=VALUE", part))
			continue
		}
		if _, twice := find(tags, t.name); twice {
			return nil, nil, fmt.Errorf("the tag %.32s= is there twice", t.name)
		}
		tags = append(tags, t)
	}
	return tags, faults, nil
}

const blanks = " \t\r\n"

func find(tags []tag, name string) (value string, ok bool) {
	i := slices.IndexFunc(tags, func(t tag) bool { return t.name == name })
	if i < 0 {
		return "", false
	}
	return tags[i].value, true
}

// keyRecord is the record of a DKIM key (RFC 6376, 3.6.1).
type keyRecord struct {
	public  crypto.PublicKey // nil: revoked
	bits    int              // of an RSA key
	testing bool             // t=y
}

// parseKeyRecord reads it. An error means that verifiers find no key.
func parseKeyRecord(text string) (*keyRecord, error) {
	tags, err := parseTags(text)
	if err != nil {
		return nil, err
	}
	if v, ok := find(tags, "v"); ok && (v != "DKIM1" || tags[0].name != "v") {
		return nil, errors.New("it does not begin with v=DKIM1")
	}
	if h, ok := find(tags, "h"); ok && !lists(h, "sha256") {
		return nil, fmt.Errorf("h=%.40s leaves out sha256, by which mail is signed", h)
	}
	if s, ok := find(tags, "s"); ok && !lists(s, "*") && !lists(s, "email") {
		return nil, fmt.Errorf("s=%.40s leaves out email", s)
	}
	r := &keyRecord{}
	if t, ok := find(tags, "t"); ok {
		r.testing = lists(t, "y")
	}
	p, ok := find(tags, "p")
	if !ok {
		return nil, errors.New("it has no p=, the key")
	}
	p = strings.Map(func(c rune) rune {
		if strings.ContainsRune(blanks, c) {
			return -1
		}
		return c
	}, p)
	if p == "" {
		return r, nil
	}
	der, err := base64.StdEncoding.DecodeString(p)
	if err != nil {
		return nil, errors.New("its p= is no base64; perhaps a part of it is missing")
	}
	kind, ok := find(tags, "k")
	if !ok {
		kind = "rsa"
	}
	return r, r.read(kind, der)
}

// lists reports whether a list with colons has a word.
func lists(list, word string) bool {
	return slices.ContainsFunc(strings.Split(list, ":"), func(s string) bool { return strings.Trim(s, blanks) == word })
}

func (r *keyRecord) read(kind string, der []byte) error {
	switch kind {
	case "ed25519": // RFC 8463, 4
		if len(der) != ed25519.PublicKeySize {
			return fmt.Errorf("its p= has %d octets, an Ed25519 key %d", len(der), ed25519.PublicKeySize)
		}
		r.public = ed25519.PublicKey(der)
		return nil
	case "rsa":
		key, err := rsaKey(der)
		if err != nil {
			return err
		}
		r.public, r.bits = key, key.N.BitLen()
		return nil
	}
	return fmt.Errorf("k=%.32s is no kind of key, want rsa or ed25519", kind)
}

// rsaKey reads an RSA key, as a SubjectPublicKeyInfo or, as RFC 6376 had it by
// mistake and many have it since, alone.
func rsaKey(der []byte) (*rsa.PublicKey, error) {
	if key, err := x509.ParsePKCS1PublicKey(der); err == nil {
		return key, nil
	}
	any, err := x509.ParsePKIXPublicKey(der)
	key, ok := any.(*rsa.PublicKey)
	if err != nil || !ok {
		return nil, errors.New("its p= is no RSA key; perhaps a part of it is missing")
	}
	return key, nil
}

// policy is a DMARC record (RFC 7489, 6.3).
type policy struct {
	domain, subdomain string // p= and sp=: none, quarantine, reject
	percent           int
	reports           bool // rua=

	// faults are what receivers overlook: they take the default in its place.
	faults []string
}

// isDMARC reports whether a TXT record is one of DMARC (RFC 7489, 6.6.3).
func isDMARC(text string) bool {
	name, value, ok := strings.Cut(text, "=")
	value, _, _ = strings.Cut(value, ";")
	return ok && strings.Trim(name, blanks) == "v" && strings.Trim(value, blanks) == "DMARC1"
}

// parsePolicy reads a record that isDMARC. An error means that receivers find no policy.
func parsePolicy(text string) (*policy, error) {
	tags, faults, err := splitTags(text)
	if err != nil {
		return nil, err
	}
	p := &policy{percent: 100, faults: faults}
	fault := func(format string, args ...any) { p.faults = append(p.faults, fmt.Sprintf(format, args...)) }
	if rua, ok := find(tags, "rua"); ok {
		if p.reports = hasURI(rua); !p.reports {
			fault("rua=%.80s has no address, want mailto:ADDRESS", rua)
		}
	}
	if err := p.read(tags); err != nil {
		if !p.reports {
			return nil, err
		}
		p.domain, p.subdomain = "none", "none" // RFC 7489, 6.6.3: act as if it said p=none
		fault("%v: receivers take it for p=none", err)
	}
	for _, name := range []string{"adkim", "aspf"} {
		if value, ok := find(tags, name); ok && !slices.Contains([]string{"r", "s"}, strings.ToLower(value)) {
			fault("%s=%.32s is wrong, want r or s", name, value)
		}
	}
	if text, ok := find(tags, "pct"); ok {
		if n, err := strconv.Atoi(text); err == nil && n >= 0 && n <= 100 {
			p.percent = n
		} else {
			fault("pct=%.32s is wrong, want 0 to 100", text)
		}
	}
	return p, nil
}

// read reads what a record asks of receivers.
func (p *policy) read(tags []tag) error {
	var ok bool
	if p.domain, ok = find(tags, "p"); !ok {
		return errors.New("it has no p=, the policy")
	}
	if p.subdomain, ok = find(tags, "sp"); !ok {
		p.subdomain = p.domain
	}
	for _, x := range []struct {
		name  string
		value *string
	}{{"p", &p.domain}, {"sp", &p.subdomain}} {
		if *x.value = strings.ToLower(*x.value); !slices.Contains([]string{"none", "quarantine", "reject"}, *x.value) {
			return fmt.Errorf("%s=%.32s is no policy, want none, quarantine or reject", x.name, *x.value)
		}
	}
	return nil
}

// hasURI reports whether a list has a URI to which reports can go. Behind it may be a
// bound, such as !10m (RFC 7489, 6.2).
func hasURI(list string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(s string) bool {
		u, err := url.Parse(strings.Trim(s, blanks))
		return err == nil && u.Scheme != "" && (u.Opaque != "" || u.Host != "")
	})
}
