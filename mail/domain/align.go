package domain

import (
	"context"
	"fmt"
	"strings"

	"sluice/mail/dkim"
)

// A signature of another domain than the one in the header From proves something
// only where DMARC aligns the two. Receivers follow two rules today. RFC 7489:
// both belong to one organisation by the public suffix list. RFC 9989: the border
// of an organisation is found in DNS, by a walk up the tree of names. By both,
// adkim=s of the author's policy wants the same domain. A signature is in order
// here if it is by both rules.

// maxWalkLabels is where a walk goes on from a name that has more labels (RFC
// 9989, 4.10).
const maxWalkLabels = 7

// treeRecord is a DMARC record that a walk met.
type treeRecord struct {
	domain      string
	psd         string // n: the organisation's; y: of a registry; else not said
	adkimStrict bool
	aspfStrict  bool
}

// readTree reads of a DMARC record what alignment needs. ok: it is one that counts.
func readTree(domain, text string) (r treeRecord, ok bool) {
	tags, _, err := splitTags(text)
	if err != nil {
		return r, false
	}
	psd, _ := find(tags, "psd")
	adkim, _ := find(tags, "adkim")
	aspf, _ := find(tags, "aspf")
	return treeRecord{domain: domain, psd: strings.ToLower(psd), adkimStrict: strings.EqualFold(adkim, "s"), aspfStrict: strings.EqualFold(aspf, "s")}, true
}

// tree walks up from a domain to the top, or to a record that says where the
// organisation ends (RFC 9989, 4.10). It returns the records on its way.
func (l *look) tree(ctx context.Context, domain string) (met []treeRecord, err error) {
	labels := strings.Split(domain, ".")
	for len(labels) > 0 {
		name := strings.Join(labels, ".")
		text, all, err := l.policyAt(ctx, name)
		if err != nil {
			return nil, err
		}
		if r, ok := readTree(name, text); ok && all == 1 {
			if met = append(met, r); r.psd == "n" || r.psd == "y" {
				break
			}
		}
		labels = labels[max(1, len(labels)-maxWalkLabels):]
	}
	return met, nil
}

// treeOrganisation returns the domain at the border of the organisation that a
// domain belongs to. It takes the records that a walk from the domain met (RFC
// 9989, 4.10.2).
func treeOrganisation(domain string, met []treeRecord) string {
	if len(met) == 0 {
		return domain
	}
	top := met[len(met)-1]
	if top.psd == "y" && top.domain != domain {
		below := strings.TrimSuffix(domain, "."+top.domain)
		return below[strings.LastIndexByte(below, '.')+1:] + "." + top.domain
	}
	return top.domain
}

// unaligned says why DMARC does not accept a signature, or an envelope, of a domain for
// mail from the one that is looked at; empty: it does.
func (l *look) unaligned(ctx context.Context, signer string, strict strictness) (why string, err error) {
	if signer == l.domain {
		return "", nil
	}
	if ours, theirs := dkim.Organisation(l.domain), dkim.Organisation(signer); ours != theirs {
		return fmt.Sprintf("%s belongs to %s, and %s to %s (RFC 7489, 3.2)", l.domain, ours, signer, theirs), nil
	}
	ours, err := l.tree(ctx, l.domain)
	if err != nil {
		return "", err
	}
	theirs, err := l.tree(ctx, signer)
	if err != nil {
		return "", err
	}
	// The policy is the domain's own, or the organisation's: of the two rules each
	// has its own idea of that one. Without a policy nothing is asked of signatures.
	border := treeOrganisation(l.domain, ours)
	for _, at := range []string{l.domain, border, dkim.Organisation(l.domain)} {
		text, all, err := l.policyAt(ctx, at) // DNS is not asked again
		if err != nil {
			return "", err
		}
		r, ok := readTree(at, text)
		if ok = ok && all == 1; ok && strict.of(&r) {
			return strict.says(at, l.domain), nil
		}
		if ok && at == l.domain {
			break
		}
	}
	if len(ours) == 0 {
		return "", nil
	}
	if other := treeOrganisation(signer, theirs); other != border {
		return fmt.Sprintf("by the DMARC records in DNS %s belongs to %s, and %s to %s (RFC 9989, 4.10.2)", l.domain, border, signer, other), nil
	}
	return "", nil
}
