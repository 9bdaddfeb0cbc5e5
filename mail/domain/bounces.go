package domain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sluice/lib/doctor"
)

// checkBounces looks at the domains of return paths: whether what comes back finds a
// server, whether the routes may send with such an envelope, and whether DMARC takes it
// for the domain's own (RFC 7489, 3.1.2).
func (l *look) checkBounces(ctx context.Context) {
	byDomain := make(map[string][]Way)
	var domains []string
	for _, w := range l.Ways {
		if w.Bounces == "" {
			continue
		}
		if byDomain[w.Bounces] == nil {
			domains = append(domains, w.Bounces)
		}
		byDomain[w.Bounces] = append(byDomain[w.Bounces], w)
	}
	for i, d := range domains {
		proof := l.checkReturnPaths(ctx, d, byDomain[d])
		if i == 0 || proof < l.returns {
			l.returns = proof
		}
	}
}

// checkReturnPaths looks at one of these domains, and returns whether its SPF record
// proves that mail is that of the domain that is looked at.
func (l *look) checkReturnPaths(ctx context.Context, domain string, ways []Way) proof {
	for i := range ways {
		ways[i].Bounces = "" // the record of this domain has to name their servers
	}
	of := &look{Checker: &Checker{DNS: l.DNS, Ways: ways}, domain: domain, known: l.known, asked: l.asked, e: doctor.Examination{Where: l.e.Where}}
	if of.home(ctx) {
		of.checkSPF(ctx)
	}
	l.asked = of.asked
	about := fmt.Sprintf("return paths are at %s: ", domain)
	faults := 0
	for _, f := range of.e.Findings {
		switch f.Severity {
		case doctor.SeverityError:
			l.e.Fail(doctor.CheckDomainBounces, "for "+domain+": "+f.Remedy, "%s%s", about, f.Found)
		case doctor.SeverityWarning:
			l.e.Warn(doctor.CheckDomainBounces, "for "+domain+": "+f.Remedy, "%s%s", about, f.Found)
		case doctor.SeverityUnknown:
			l.e.Unknown(errors.New(about+f.Found), doctor.CheckDomainBounces)
		default:
			continue
		}
		faults++
	}
	why, err := l.unaligned(ctx, domain, envelopes)
	switch {
	case err != nil:
		l.e.Unknown(err, doctor.CheckDomainBounces)
		return proofOpen
	case why != "":
		l.e.Warn(doctor.CheckDomainBounces, "set bounce_domain to a domain below "+l.domain+", such as bounces."+l.domain+", or rely on signatures alone",
			"%sDMARC does not take them for %s, so only signatures prove its mail: %s", about, l.domain, why)
		return proofNone
	case faults == 0:
		l.e.Fine(doctor.CheckDomainBounces, "%swhat comes back finds a server, SPF names the routes' servers, and DMARC takes them for %s", about, l.domain)
	}
	return of.spf
}

// ownEnvelopes reports whether mail leaves by some way with an envelope of the domain
// that is looked at, for which its SPF record counts.
func (l *look) ownEnvelopes() bool {
	return len(l.Ways) == 0 || slices.ContainsFunc(l.Ways, func(w Way) bool { return w.Bounces == "" })
}

// strictness is what DMARC may want to be of exactly the author's domain.
type strictness struct {
	tag, what string
	of        func(r *treeRecord) bool
}

var (
	signatures = strictness{"adkim", "a signature", func(r *treeRecord) bool { return r.adkimStrict }}
	envelopes  = strictness{"aspf", "an envelope", func(r *treeRecord) bool { return r.aspfStrict }}
)

// says is how a record wants it.
func (s *strictness) says(at, domain string) string {
	return fmt.Sprintf("%s=s in the DMARC record of %s wants %s of exactly %s", s.tag, at, s.what, domain)
}
