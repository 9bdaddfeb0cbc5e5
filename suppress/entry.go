package suppress

import (
	"strings"

	"sluice/profile"
)

// ParseEntry brings an entry into the form in which it is kept: an address as
// profile.NormalAddress has it, a domain in lower case, or a dot and a domain (or
// `*.` and a domain, as some write it), which stands for the domain and all below
// it. It reports whether it is one of these.
func ParseEntry(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "@") {
		if domain, ok := strings.CutPrefix(text, "@"); ok { // as some write a domain
			return parseDomain(domain)
		}
		return profile.NormalAddress(text)
	}
	if below, ok := strings.CutPrefix(strings.TrimPrefix(text, "*"), "."); ok {
		domain, ok := parseDomain(below)
		return "." + domain, ok
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
