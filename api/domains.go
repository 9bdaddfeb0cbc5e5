package api

import (
	"context"
	"net/http"
	"strings"

	"sluice"
	"sluice/lib/key"
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
	Summary sluice.Summary
}

// domainRoutes are the paths of sender domains (INTERFACES.md, section 6).
func (s *Server) domainRoutes() []route {
	return []route{{domainPath, []string{http.MethodGet, http.MethodHead}, ofStore(s, func(v *Services) DomainLooker { return v.Domains }, key.DomainsRead, key.DomainsRead, nil, s.checkDomain)}}
}

// checkDomain is GET /v1/domains/{domain}: what `sluice domain check` says.
func (s *Server) checkDomain(_ http.ResponseWriter, r *http.Request, looker DomainLooker) (int, any, error) {
	if _, err := readQuery(r, nil); err != nil {
		return 0, nil, err
	}
	given := strings.TrimSuffix(r.PathValue("domain"), ".")
	a, err := mime.ParseAddress("postmaster@" + given)
	if err != nil || strings.Contains(given, "@") || !strings.Contains(a.Domain, ".") {
		return 0, nil, refusal(sluice.CodeInvalid, "%.80q is no domain, want a name such as example.com", given)
	}
	select {
	case s.domainSlots <- struct{}{}:
		defer func() { <-s.domainSlots }()
	default:
		return 0, nil, refusal(sluice.CodeUnavailable, "%d domains are being looked at, and no more are at a time; ask again", parallelDomains)
	}
	found := looker.Refresh(r.Context(), strings.ToLower(a.Domain))
	answer := struct {
		Domain  string `json:"domain"`
		Checked string `json:"checked"`
		sluice.Report
	}{Domain: found.Domain, Checked: profile.TimeText(found.CheckedMillis)}
	answer.Add(sluice.Examination{Findings: found.Findings})
	return http.StatusOK, answer, nil
}
