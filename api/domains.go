package api

import (
	"context"
	"strings"

	"sluice"
	"sluice/lib/doctor"
	"sluice/lib/mime"
	"sluice/mail/domain"
	"sluice/user/profile"
)

const domainPath = "/v1/domains/{domain}"

// parallelDomains bounds the looks at domains at a time: each asks others, and
// waits for them.
const parallelDomains = 4

// DomainLooker looks at sender domains. A domain.Watcher is one.
type DomainLooker interface {
	// Refresh looks at a domain now, within half a minute.
	Refresh(ctx context.Context, name string) domain.Result
}

// SenderDomain is a domain that mail was sent from, in Stats.
type SenderDomain struct {
	Name    string
	Summary doctor.Summary
}

// checkDomain is GET /v1/domains/{domain}: what `sluice domain check` says.
func (q *request) checkDomain() (any, error) {
	given := strings.TrimSuffix(q.PathValue("domain"), ".")
	a, err := mime.ParseAddress("postmaster@" + given)
	if err != nil || strings.Contains(given, "@") || !strings.Contains(a.Domain, ".") {
		return nil, refusal(sluice.CodeInvalid, "%.80q is no domain, want a name such as example.com", given)
	}
	done, err := takeAny(q.s.domainSlots, "domains are being looked at")
	if err != nil {
		return nil, err
	}
	defer done()
	found := q.Domains.Refresh(q.Context(), strings.ToLower(a.Domain))
	answer := struct {
		Domain  string `json:"domain"`
		Checked string `json:"checked"`
		doctor.Report
	}{Domain: found.Domain, Checked: profile.TimeText(found.CheckedMillis)}
	answer.Add(doctor.Examination{Findings: found.Findings})
	return answer, nil
}
