package dkim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// A signature counts for DMARC only if its d= belongs to the domain of the
// header From (RFC 7489, 3.1.1; RFC 9989, 4.4). That is the same domain where
// adkim=s, and otherwise one of the same organisation. The ring picks keys by
// what can be known without DNS, since no mail waits for DNS. It picks a
// domain's own key, else the key of the nearest domain above it that belongs to
// the same organisation. What DNS says beside that (adkim=s, other borders of
// the organisation) is judged by `sluice domain check`.

// Ring has the signers of several domains, and says which one signs for whom. It
// is filled before it is used; then several goroutines may ask it. A nil ring
// has none.
type Ring struct {
	exact map[string]*Signer
	below map[string]bound
}

// bound is a signer of the subdomains of a domain.
type bound struct {
	signer *Signer
	given  bool // it was asked for, whatever the public suffix list says
}

// Organisation returns the domain that somebody has registered, by the public
// suffix list as of the build (RFC 7489, 3.2).
func Organisation(domain string) string {
	org, err := publicsuffix.EffectiveTLDPlusOne(domain)
	if err != nil {
		return domain // a public suffix itself, or a name of no registry
	}
	return org
}

// Domain returns the domain that stands in d=, in lower case.
func (s *Signer) Domain() string { return s.keys[0].domain }

// Add lets a signer sign for senders: domains in ASCII and lower case, or
// *.DOMAIN, the subdomains of one. Without any it signs for its own domain and
// the subdomains of that. A sender has one signer: the second is an error.
func (r *Ring) Add(s *Signer, senders ...string) error {
	given := len(senders) > 0
	if !given {
		senders = []string{s.Domain(), "*." + s.Domain()}
	}
	if r.exact == nil {
		r.exact, r.below = make(map[string]*Signer), make(map[string]bound)
	}
	for _, sender := range senders {
		name, below := strings.CutPrefix(sender, "*.")
		if !isName(name) {
			return fmt.Errorf("%q is no sender's domain, want example.com or *.example.com", sender)
		}
		before := r.exact[name]
		if below {
			before = r.below[name].signer
		}
		if before != nil {
			return fmt.Errorf("mail from %s would be signed with the keys of %s and of %s: want one of them", sender, before.Domain(), s.Domain())
		}
		if below {
			r.below[name] = bound{s, given}
		} else {
			r.exact[name] = s
		}
	}
	return nil
}

// For returns the signer for mail whose header From has a domain (ASCII, lower
// case); nil: it is not signed here.
func (r *Ring) For(sender string) *Signer {
	if r == nil {
		return nil
	}
	if s := r.exact[sender]; s != nil {
		return s
	}
	for name := sender; ; {
		_, above, ok := strings.Cut(name, ".")
		if !ok {
			return nil
		}
		if b := r.below[above]; b.signer != nil && (b.given || Organisation(above) == Organisation(sender)) {
			return b.signer
		}
		name = above
	}
}

// Domains returns the domains of the keys, sorted.
func (r *Ring) Domains() (all []string) {
	if r == nil {
		return nil
	}
	for _, s := range r.exact {
		all = append(all, s.Domain())
	}
	for _, b := range r.below {
		all = append(all, b.signer.Domain())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Senders returns the domains that have a signer by their own name, sorted.
func (r *Ring) Senders() []string {
	if r == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(r.exact))
}
