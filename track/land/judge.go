package land

import (
	"net/http"
	"net/netip"
	"strings"

	"sluice/track/agent"
)

// Machine or human, as far as one request tells. What only others
// beside it tell is judged in the store (store/sqlstore/reactions.go).
//
// A request is a machine's if it has a sign that no person's has; its user agent may be
// one (package agent). Everything else is a person's until the store knows better.
//
// Sources of the other signs, all of the public:
//
//   - Networks of Exchange Online Protection, where Safe Links are followed:
//     Microsoft 365 endpoints, sets 9 and 10 (*.protection.outlook.com). Those of
//     Exchange Online are left out: Outlook on the web loads images from there
//     for persons. Barracuda Email Gateway Defense: its published ranges.
//   - Purpose and Sec-Purpose: prefetch (Fetch Standard, 3.7), X-Moz: prefetch.
//   - HEAD: no browser follows a link by it; Safe Links and Netcore do.

// Why a request is a machine's. The words stand in events.
const (
	reasonHead     = "head"
	reasonPrefetch = "prefetch"
	reasonNoAgent  = "no_agent"
)

// Verdict is whether a request is a machine's.
type Verdict agent.Verdict

// scannerNetworks are those from which mail is filtered and no mailbox is read.
var scannerNetworks = [...]string{
	"40.92.0.0/15", "40.107.0.0/16", "52.100.0.0/14", "52.238.78.88/32", "104.47.0.0/17", "2a01:111:f400::/48", "2a01:111:f403::/48",
	"3.24.133.128/25", "15.222.16.128/25", "35.157.190.224/27", "18.185.115.192/26", "18.184.203.224/27", "13.200.136.128/25",
	"35.176.92.96/27", "18.133.136.128/26", "18.133.136.96/27", "209.222.82.0/24",
}

// Judge says of single requests whether they are a machine's. Its methods may be
// called by several goroutines at once.
type Judge struct {
	networks []netip.Prefix
	agents   *agent.Reader // by agentText
}

// NewJudge returns a judge that knows the public networks of scanners, and more
// of them.
func NewJudge(more []netip.Prefix) *Judge {
	j := &Judge{networks: append([]netip.Prefix(nil), more...), agents: agent.NewReader()}
	for _, text := range scannerNetworks {
		j.networks = append(j.networks, netip.MustParsePrefix(text))
	}
	return j
}

// judge says whether a request from an address is a machine's.
func (j *Judge) judge(r *http.Request, ip netip.Addr) Verdict {
	by := r.UserAgent()
	switch {
	case r.Method == http.MethodHead:
		return Verdict{Machine: true, Reason: reasonHead}
	case prefetches(r.Header):
		return Verdict{Machine: true, Reason: reasonPrefetch}
	case by == "":
		return Verdict{Machine: true, Reason: reasonNoAgent}
	}
	if found := Verdict(j.agents.Read(agentText(by))); found != (Verdict{}) {
		return found
	}
	for _, network := range j.networks {
		if network.Contains(ip) {
			return Verdict{Machine: true, Reason: agent.Scanner}
		}
	}
	return Verdict{}
}

// prefetches reports whether a browser says that nobody has asked yet.
func prefetches(h http.Header) bool {
	for _, name := range [...]string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"} {
		for _, text := range h[name] {
			if lower := strings.ToLower(text); strings.Contains(lower, "prefetch") || strings.Contains(lower, "preview") {
				return true
			}
		}
	}
	return false
}
