package domain

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sluice/lib/dns"
	"sluice/lib/doctor"
	"sluice/mail/dkim"
)

// wanted is an SPF record for the ways by which mail leaves: what there is, with
// what is missing before its end. Beside an end nobody follows a redirect (RFC 7208, 6.1):
// it is included instead, unless there was an end beside it before.
func (l *look) wanted(now string, missing []string, end string) string {
	words := strings.Fields(now)
	if len(words) == 0 {
		words = []string{"v=spf1"}
	}
	isEnd := func(w string) bool { return strings.EqualFold(strings.TrimLeft(w, "+-~?"), "all") }
	ended := slices.ContainsFunc(words, isEnd)
	var all []string
	for _, w := range words {
		name, to, _ := strings.Cut(w, "=")
		switch redirects := strings.EqualFold(name, "redirect"); {
		case isEnd(w), redirects && ended:
		case redirects:
			all = append(all, "include:"+to)
		default:
			all = append(all, w)
		}
	}
	return record(l.domain, strings.Join(slices.Concat(all, missing, []string{end}), " "))
}

// needed are the mechanisms that the ways need.
func (l *look) needed() (all []string) {
	add := func(word string) {
		if !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	for _, w := range l.Ways {
		ip, err := netip.ParseAddr(w.Host)
		switch {
		case w.Bounces != "": // SPF is about that domain
		case w.Include != "":
			add("include:" + w.Include)
		case w.Host == "":
		case err != nil:
			add("a:" + w.Host)
		default:
			add(mechanism(ip) + w.Host)
		}
	}
	return all
}

// mechanism is what stands before an address in a record.
func mechanism(ip netip.Addr) string {
	if ip.Is4() {
		return "ip4:"
	}
	return "ip6:"
}

// checkSPF looks at the domain's SPF record and all that it includes.
func (l *look) checkSPF(ctx context.Context) {
	w := &walk{ask: l.ask, includes: map[string]bool{}}
	text, all, answer, err := w.record(ctx, l.domain)
	switch {
	case err != nil:
		l.spf = proofOpen
		l.e.Unknown(err, doctor.CheckDomainSPF)
		return
	case all == 0:
		l.e.Warn(doctor.CheckDomainSPF, "publish "+l.wanted("", l.needed(), "~all")+", with every server that sends its mail", "it has no SPF record%s: nobody knows which servers may send its mail", by(&answer))
		return
	case all > 1: // RFC 7208, 4.5: permerror
		l.e.Fail(doctor.CheckDomainSPF, "make one of them", "it has %d SPF records, want one: none of them counts", all)
		return
	}
	s, err := parseSPF(text)
	if err != nil {
		l.e.Fail(doctor.CheckDomainSPF, "mend it, for instance "+l.wanted("", l.needed(), "~all"), "its SPF record cannot be read, and fails all mail: %v: %.300q", err, text)
		return
	}
	switch err := w.follow(ctx, l.domain, s, true, nil, true); {
	case err != nil && !errors.Is(err, errWalk):
		l.spf = proofOpen
		l.e.Unknown(err, doctor.CheckDomainSPF)
		return
	case w.lookups > maxLookups:
		n := fmt.Sprint(w.lookups)
		if w.over {
			n = "more than " + fmt.Sprint(walkLookups)
		}
		l.e.Fail(doctor.CheckDomainSPF, "take includes out of senders that are not used any more, write addresses (ip4:, ip6:) in place of a and mx, or send from a subdomain with a record of its own",
			"its SPF record takes %s lookups, at most %d are allowed (RFC 7208, 4.6.4): receivers give up, and none of it counts", n, maxLookups)
		return
	}
	if len(w.faults) > 0 {
		l.e.Fail(doctor.CheckDomainSPF, "take out or mend what it names", "its SPF record fails mail as it is: %s", strings.Join(w.faults, "; "))
		return
	}
	if w.void > maxVoid {
		l.e.Fail(doctor.CheckDomainSPF, "take out the names that are not there", "its SPF record has %d lookups that find nothing, at most %d are allowed (RFC 7208, 4.6.4)", w.void, maxVoid)
		return
	}
	l.judgeSPF(ctx, w, text)
}

// judgeSPF judges what a record that can be used says.
func (l *look) judgeSPF(ctx context.Context, w *walk, text string) {
	l.spf = proofGiven
	switch missing, what := l.missing(ctx, w); {
	case w.all == '+':
		l.e.Fail(doctor.CheckDomainSPF, "publish "+l.wanted(text, nil, "~all"), "its SPF record ends in +all: anybody may send its mail")
	case len(missing) > 0:
		l.e.Warn(doctor.CheckDomainSPF, "publish "+l.wanted(text, missing, qualified(w.all)), "its SPF record leaves out %s", strings.Join(what, ", "))
	case w.all == 0 || w.all == '?':
		l.e.Warn(doctor.CheckDomainSPF, "publish "+l.wanted(text, nil, "~all"), "its SPF record says nothing of servers that it does not name; want -all or ~all at its end")
	case w.ptr:
		l.e.Warn(doctor.CheckDomainSPF, "take ptr out", "its SPF record has ptr, which is slow and not to be used any more (RFC 7208, 5.5)")
	default:
		l.e.Fine(doctor.CheckDomainSPF, "its SPF record takes %d lookups and ends in %call", w.lookups, w.all)
	}
}

// qualified is `all` as it was, or as it should be.
func qualified(all byte) string {
	if all == '-' {
		return "-all"
	}
	return "~all"
}

// missing returns the mechanisms that ways need and a record lacks, as far as
// that can be known. A server may send from other addresses than it takes mail
// at.
func (l *look) missing(ctx context.Context, w *walk) (words, what []string) {
	for _, way := range l.Ways {
		switch {
		case way.Bounces != "":
		case way.Include != "":
			if w.includes[way.Include] {
				continue
			}
			words = append(words, "include:"+way.Include)
			note := ""
			if way.Foreign {
				note = "; they need it where this domain stands in the envelope (MAIL FROM)"
			}
			what = append(what, fmt.Sprintf("the servers of route %s (%s%s)", way.Name, way.Include, note))
		case way.Host == "" || w.open:
		default:
			ips, _, err := l.addresses(ctx, way.Host)
			if ip, parseErr := netip.ParseAddr(way.Host); parseErr == nil {
				ips, err = []netip.Addr{ip}, nil
			}
			public := slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool { return !isPublic(ip) })
			if err != nil || len(public) == 0 || slices.ContainsFunc(public, w.covers) {
				continue
			}
			words = append(words, mechanism(public[0])+public[0].String())
			what = append(what, fmt.Sprintf("the server of route %s (%s, %s; if it sends from other addresses, name those)", way.Name, way.Host, public[0]))
		}
	}
	return words, what
}

// isPublic reports whether receivers can see an address.
func isPublic(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate()
}

// checkDMARC looks for the domain's policy, and whether its mail would pass.
func (l *look) checkDMARC(ctx context.Context) {
	at := l.domain
	text, all, err := l.policyAt(ctx, at)
	if org := dkim.Organisation(l.domain); err == nil && all == 0 && org != l.domain { // RFC 7489, 6.6.3
		at = org
		text, all, err = l.policyAt(ctx, at)
	}
	if err != nil {
		l.e.Unknown(err, doctor.CheckDomainDMARC, doctor.CheckDomainAlignment)
		return
	}
	const example = "v=DMARC1; p=none; rua=mailto:postmaster@"
	publish := "publish " + record("_dmarc."+dkim.Organisation(l.domain), example+dkim.Organisation(l.domain)) + "; p=quarantine or p=reject, once the reports show that all of your own mail passes"
	strict := false
	switch {
	case all == 0:
		l.e.Warn(doctor.CheckDomainDMARC, publish, "it has no DMARC record: large receivers require one from bulk senders")
	case all > 1:
		l.e.Fail(doctor.CheckDomainDMARC, "make one of them", "_dmarc.%s has %d DMARC records, want one: none of them counts", at, all)
	default:
		p, err := parsePolicy(text)
		if err != nil {
			l.e.Fail(doctor.CheckDomainDMARC, publish, "the DMARC record of %s cannot be used: %v", at, err)
			break
		}
		word := p.domain
		if at != l.domain {
			word = p.subdomain
		}
		strict = word != "none" && p.percent > 0
		reports := "reports go to somebody"
		if !p.reports {
			reports = "nobody gets reports (rua=)"
		}
		says := fmt.Sprintf("the DMARC record of %s says %s for mail that is not proven to be its; %s", at, word, reports)
		if len(p.faults) > 0 {
			l.e.Warn(doctor.CheckDomainDMARC, "mend or take out what it names", "%s; receivers overlook faults in it: %s", says, strings.Join(p.faults, "; "))
			break
		}
		l.e.Fine(doctor.CheckDomainDMARC, "%s", says)
	}
	l.checkAlignment(ctx, strict)
}

// policyAt finds the DMARC record at a domain.
func (l *look) policyAt(ctx context.Context, domain string) (text string, all int, err error) {
	answer, err := l.ask(ctx, "_dmarc."+domain, dns.TXT)
	if err != nil {
		return "", 0, err
	}
	text, all = last(answer.Texts, isDMARC)
	return text, all, nil
}

// checkAlignment judges whether anything proves that mail is the domain's (RFC
// 7489, 3.1). That is a signature that DMARC accepts for it, or SPF of an
// envelope of this domain.
func (l *look) checkAlignment(ctx context.Context, strict bool) {
	if l.signer != nil {
		why, err := l.unaligned(ctx, l.signer.Domain(), signatures)
		if err != nil {
			l.e.Unknown(err, doctor.CheckDomainAlignment)
			return
		}
		if why != "" {
			l.e.Fail(doctor.CheckDomainAlignment, "make a key of its own, and set dkim: {"+l.domain+": {keys: {s1: s1.pem}}}; docs/domains.md shows how",
				"its mail is signed with a key of %s, which DMARC does not accept for it: %s", l.signer.Domain(), why)
			return
		}
	}
	spf := l.spf
	if !l.ownEnvelopes() {
		spf = l.returns
	}
	if len(l.Ways) > 0 && !slices.ContainsFunc(l.Ways, func(w Way) bool { return !w.Foreign }) && spf == proofGiven {
		spf = proofOpen // it is about the provider's domain, if nobody has changed that
	}
	switch {
	case l.dkim == proofGiven:
		l.e.Fine(doctor.CheckDomainAlignment, "signatures prove that mail is its own, also after it was forwarded")
	case spf == proofOpen || l.dkim == proofOpen:
		l.e.Unknown(errors.New("what proves that mail is its own "+notSeenHere+"; a mail to a mailbox that shows Authentication-Results does"), doctor.CheckDomainAlignment)
	case spf == proofGiven:
		l.e.Warn(doctor.CheckDomainAlignment, "sign its mail, as domain-dkim says", "only SPF proves that mail is its own, which ends where it is forwarded; large receivers want a signature as well")
	case strict:
		l.e.Fail(doctor.CheckDomainAlignment, "sign its mail, as domain-dkim says", "neither SPF nor a signature proves that mail is its own, and its DMARC policy asks receivers to refuse such mail")
	default:
		l.e.Warn(doctor.CheckDomainAlignment, "sign its mail, as domain-dkim says", "neither SPF nor a signature proves that mail is its own")
	}
}
