package suppress

import (
	"fmt"
	"strings"

	"golang.org/x/net/publicsuffix"

	"sluice/user/profile"
)

// WantEntry says what an entry may be.
const WantEntry = "want an address, a domain, or a dot and a domain (`*.` and a domain is the same)"

// ParseEntry brings an entry into the form in which it is kept. An address is
// as profile.NormalAddress has it, and a domain is in lower case. A dot and a
// domain stand for the domain and all below it. `*.` and a domain is the same
// as a dot and a domain; `@` before one of both is left out. It reports whether
// it is one of these.
func ParseEntry(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if domain, ok := strings.CutPrefix(text, "@"); ok {
		text = domain
	} else if strings.Contains(text, "@") {
		return profile.NormalAddress(text)
	}
	if below, ok := strings.CutPrefix(strings.TrimPrefix(text, "*"), "."); ok {
		domain, ok := parseDomain(below)
		if !ok {
			return "", false
		}
		return "." + domain, true
	}
	return parseDomain(text)
}

// parseDomain reads a domain as that of an address, but that one label, all of a
// top-level domain, is enough.
func parseDomain(text string) (string, bool) {
	text = strings.TrimSuffix(text, ".")
	if !strings.Contains(text, ".") {
		normal, ok := profile.NormalEmail("a@" + text + ".a")
		return strings.TrimSuffix(strings.TrimPrefix(normal, "a@"), ".a"), ok && text != ""
	}
	normal, ok := profile.NormalEmail("a@" + text)
	return strings.TrimPrefix(normal, "a@"), ok
}

// CheckWidth refuses an entry that is all of a top-level domain, or of a suffix
// under which a registry registers domains: `com`, `.com`, `.co.uk`. Such an entry
// is written by mistake, or is the header of a file, and stops the mail of millions.
// Suffixes of companies, such as github.io, are domains like others.
func CheckWidth(entry string) error {
	domain := strings.TrimPrefix(entry, ".")
	if strings.Contains(domain, "@") {
		return nil
	}
	if suffix, registry := publicsuffix.PublicSuffix(domain); suffix == domain && (registry || !strings.Contains(domain, ".")) {
		return fmt.Errorf("entry is %.64q, a top-level domain or a suffix of one, with all domains in it; say force if that is meant", entry)
	}
	return nil
}
