package domain

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sluice/lib/dns"
)

// What RFC 7208, 4.6.4 allows a record to cost; beyond it nothing passes.
const (
	maxLookups = 10 // terms that need DNS, those of what it includes too
	maxVoid    = 2  // of these, those that find nothing
	maxMailers = 10 // MX records of one term
)

// Where a walk ends that has no end: past the limits, so that it can be said by
// how much.
const (
	walkLookups = 40
	walkDepth   = 12
)

// walk is a record and all that it includes, looked up.
type walk struct {
	ask func(ctx context.Context, name string, kind dns.Kind) (dns.Answer, error)

	lookups, void int
	over          bool            // it has more than walkLookups
	includes      map[string]bool // domains whose record is part of it
	networks      []netip.Prefix  // from which mail passes
	open          bool            // from more, which depends on each mail
	ptr           bool
	all           byte // what is said of all other; 0: nothing
	faults        []string
}

func (w *walk) fault(format string, args ...any) {
	const most = 8 // told
	if len(w.faults) < most {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
	}
}

// errWalk ends a walk that has become too long.
var errWalk = errors.New("the record is too long to be looked up as a whole")

// record finds the SPF record of a domain (RFC 7208, 4.5). all is how many there
// are.
func (w *walk) record(ctx context.Context, domain string) (text string, all int, answer dns.Answer, err error) {
	if answer, err = w.ask(ctx, domain, dns.TXT); err != nil {
		return "", 0, answer, err
	}
	text, all = last(answer.Texts, isSPF)
	return text, all, answer, nil
}

// last returns the last of the texts that are records of a kind, and how many are.
func last(texts []string, is func(string) bool) (text string, all int) {
	for _, t := range texts {
		if is(t) {
			text, all = t, all+1
		}
	}
	return text, all
}

// follow looks up what a record needs. passes: what matches it may send, which
// is not so of what it excludes. path are the domains that led here; top: it is
// the first record, or stands for it.
func (w *walk) follow(ctx context.Context, domain string, s *spf, passes bool, path []string, top bool) error {
	for i := range s.terms {
		t := &s.terms[i]
		name := t.domain
		if name == "" {
			name = domain
		}
		if err := w.term(ctx, t, strings.ToLower(name), passes && t.qualifier == '+', append(path, domain)); err != nil {
			return err
		}
	}
	if top {
		w.all = s.all
	}
	if s.all != 0 || s.redirect == "" { // RFC 7208, 6.1
		return nil
	}
	if err := w.count(); err != nil {
		return err
	}
	return w.enter(ctx, strings.ToLower(s.redirect), "redirect=", passes, append(path, domain), top)
}

// count counts a term that needs DNS.
func (w *walk) count() error {
	if w.lookups++; w.lookups > walkLookups {
		w.over = true
		return errWalk
	}
	return nil
}

// enter follows the record of another domain.
func (w *walk) enter(ctx context.Context, name, word string, passes bool, path []string, top bool) error {
	if hasMacro(name) {
		w.open = true
		return nil
	}
	for _, before := range path {
		if strings.EqualFold(before, name) || len(path) > walkDepth {
			w.fault("%s%s goes round in circles", word, name)
			return nil
		}
	}
	text, all, answer, err := w.record(ctx, name)
	if err != nil {
		return err
	}
	if answer.Status != dns.Found {
		w.void++
	}
	switch { // RFC 7208, 5.2, 6.1: all of these are errors
	case all == 0:
		w.fault("%s%s has no SPF record", word, name)
		return nil
	case all > 1:
		w.fault("%s%s has %d SPF records, want one", word, name, all)
		return nil
	}
	s, err := parseSPF(text)
	if err != nil {
		w.fault("the record of %s%s cannot be read: %v", word, name, err)
		return nil
	}
	w.includes[name] = true
	return w.follow(ctx, name, s, passes, path, top)
}

// term looks up one mechanism.
func (w *walk) term(ctx context.Context, t *spfTerm, name string, passes bool, path []string) error {
	if t.name == "ip4" || t.name == "ip6" {
		if passes {
			w.networks = append(w.networks, t.network)
		}
		return nil
	}
	if err := w.count(); err != nil {
		return err
	}
	switch {
	case t.name == "include":
		return w.enter(ctx, name, "include:", passes, path, false)
	case t.name == "ptr":
		w.ptr, w.open = true, w.open || passes
		return nil
	case hasMacro(name) || t.name == "exists":
		w.open = w.open || passes
		return nil
	case t.name == "a":
		found, err := w.addresses(ctx, t, name, passes)
		if err == nil && !found {
			w.void++
		}
		return err
	}
	answer, err := w.ask(ctx, name, dns.MX)
	if err != nil {
		return err
	}
	if answer.Status != dns.Found {
		w.void++
		return nil
	}
	if len(answer.Mailers) > maxMailers {
		w.fault("mx:%s has %d servers, at most %d are looked at", name, len(answer.Mailers), maxMailers)
		return nil
	}
	for _, m := range answer.Mailers {
		if m.Host == "" {
			continue
		}
		if _, err := w.addresses(ctx, t, m.Host, passes); err != nil {
			return err
		}
	}
	return nil
}

// addresses adds the networks around a host's addresses.
func (w *walk) addresses(ctx context.Context, t *spfTerm, host string, passes bool) (found bool, err error) {
	for _, kind := range []dns.Kind{dns.A, dns.AAAA} {
		answer, err := w.ask(ctx, host, kind)
		if err != nil {
			return false, err
		}
		found = found || answer.Status == dns.Found
		for _, ip := range answer.Addresses {
			bits := t.bits6
			if ip.Is4() {
				bits = t.bits4
			}
			if passes {
				w.networks = append(w.networks, netip.PrefixFrom(ip, bits).Masked())
			}
		}
	}
	return found, nil
}

// covers reports whether mail from an address passes, as far as that does not
// depend on the mail.
func (w *walk) covers(ip netip.Addr) bool {
	return slices.ContainsFunc(w.networks, func(n netip.Prefix) bool { return n.Contains(ip.Unmap()) })
}
