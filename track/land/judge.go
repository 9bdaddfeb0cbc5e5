package land

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// Machine or human, as far as one request tells. What only others
// beside it tell is judged in the store (store/sqlstore/reactions.go).
//
// A wrong word costs in both directions: an open of a program that counts as a
// person's lets somebody in who has seen nothing, and a person who counts as a
// program gets no mail any more. So a request is a machine's by a sign that no
// person makes, and everything else is a person's until the store knows better.
//
// Sources of the signs, all of the public:
//
//   - "Mozilla/5.0" and nothing else: Apple Mail Privacy Protection, which loads
//     all images in the background when a mail has arrived (help.socketlabs.com,
//     "Identifying Apple MPP opens"; wordtothewise.com, 2021-09 "Apple MPP").
//   - "(via ggpht.com GoogleImageProxy)": Gmail loads an image when its mail is
//     opened, through its proxy: a person. Chrome/42.0.2311.135 with Edge/12.246
//     is Gmail loading ahead (gmass.co, "False opens in Gmail"; mautic#10245).
//   - "YahooMailProxy; https://help.yahoo.com/kb/...SLN28749.html": as Gmail's.
//   - "Barracuda Sentinel (EE)" and agents of programs: lists of Braze's bot
//     filter and of gmass.co.
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
	reasonApple    = "apple_privacy"
	reasonGmail    = "gmail_prefetch"
	reasonScanner  = "scanner"
	reasonProgram  = "program"
)

// Verdict is whether a request is a machine's.
type Verdict struct {
	Machine bool
	Reason  string // of a machine
	Proxy   string // through whose proxy a person comes; empty: none that is known
}

// agents tell programs by a part of their user agent, in lower case. The first that
// fits holds.
var agents = [...]struct {
	part string
	Verdict
}{
	{"googleimageproxy", Verdict{Proxy: "google"}},
	{"yahoomailproxy", Verdict{Proxy: "yahoo"}},
	{"chrome/42.0.2311.135 safari/537.36 edge/12.246", Verdict{true, reasonGmail, ""}},
	{"barracuda", Verdict{true, reasonScanner, ""}},
	{"proofpoint", Verdict{true, reasonScanner, ""}},
	{"mimecast", Verdict{true, reasonScanner, ""}},
	{"safelinks", Verdict{true, reasonScanner, ""}},
	{"microsoft office existence discovery", Verdict{true, reasonScanner, ""}},
	{"symantec", Verdict{true, reasonScanner, ""}},
	{"trendmicro", Verdict{true, reasonScanner, ""}},
	{"sophos", Verdict{true, reasonScanner, ""}},
	{"ironport", Verdict{true, reasonScanner, ""}},
	{"bingpreview", Verdict{true, reasonScanner, ""}},
	{"bot/", Verdict{true, reasonProgram, ""}},
	{"bot;", Verdict{true, reasonProgram, ""}},
	{"crawler", Verdict{true, reasonProgram, ""}},
	{"spider", Verdict{true, reasonProgram, ""}},
	{"headlesschrome", Verdict{true, reasonProgram, ""}},
	{"phantomjs", Verdict{true, reasonProgram, ""}},
	{"urlpreview", Verdict{true, reasonProgram, ""}},
	{"url preview", Verdict{true, reasonProgram, ""}},
	{"facebookexternalhit", Verdict{true, reasonProgram, ""}},
	{"whatsapp/", Verdict{true, reasonProgram, ""}},
	{"python", Verdict{true, reasonProgram, ""}},
	{"aiohttp", Verdict{true, reasonProgram, ""}},
	{"go-http-client", Verdict{true, reasonProgram, ""}},
	{"curl/", Verdict{true, reasonProgram, ""}},
	{"wget/", Verdict{true, reasonProgram, ""}},
	{"java/", Verdict{true, reasonProgram, ""}},
	{"apache-httpclient", Verdict{true, reasonProgram, ""}},
	{"okhttp/", Verdict{true, reasonProgram, ""}},
	{"libwww-perl", Verdict{true, reasonProgram, ""}},
	{"lua-resty-http", Verdict{true, reasonProgram, ""}},
	{"node-fetch", Verdict{true, reasonProgram, ""}},
	{"axios/", Verdict{true, reasonProgram, ""}},
	{"ahc/", Verdict{true, reasonProgram, ""}},
	{"hubspot connect", Verdict{true, reasonProgram, ""}},
	{"amazon cloudfront", Verdict{true, reasonProgram, ""}},
}

// scannerNetworks are those from which mail is filtered and no mailbox is read.
var scannerNetworks = [...]string{
	"40.92.0.0/15", "40.107.0.0/16", "52.100.0.0/14", "52.238.78.88/32", "104.47.0.0/17", "2a01:111:f400::/48", "2a01:111:f403::/48",
	"3.24.133.128/25", "15.222.16.128/25", "35.157.190.224/27", "18.185.115.192/26", "18.184.203.224/27", "13.200.136.128/25",
	"35.176.92.96/27", "18.133.136.128/26", "18.133.136.96/27", "209.222.82.0/24",
}

// agentsKept bounds the user agents whose verdict is remembered, each of
// maxAgentBytes at most.
const agentsKept = 4096

// Judge says of single requests whether they are a machine's. Its methods may be
// called by several goroutines at once.
type Judge struct {
	networks []netip.Prefix

	// A few user agents make nearly all requests, and to look for every part of
	// agents in one costs as much as the MAC of a token.
	mu     sync.RWMutex
	agents map[string]Verdict // by agentText; emptied when it is full
}

// NewJudge returns a judge that knows the public networks of scanners, and more
// of them.
func NewJudge(more []netip.Prefix) *Judge {
	j := &Judge{networks: append([]netip.Prefix(nil), more...), agents: make(map[string]Verdict)}
	for _, text := range scannerNetworks {
		j.networks = append(j.networks, netip.MustParsePrefix(text))
	}
	return j
}

// judge says whether a request from an address is a machine's.
func (j *Judge) judge(r *http.Request, ip netip.Addr) Verdict {
	agent := r.UserAgent()
	switch {
	case r.Method == http.MethodHead:
		return Verdict{Machine: true, Reason: reasonHead}
	case prefetches(r.Header):
		return Verdict{Machine: true, Reason: reasonPrefetch}
	case agent == "":
		return Verdict{Machine: true, Reason: reasonNoAgent}
	case agent == "Mozilla/5.0":
		return Verdict{Machine: true, Reason: reasonApple}
	}
	if found := j.ofAgent(agentText(agent)); found != (Verdict{}) {
		return found
	}
	for _, network := range j.networks {
		if network.Contains(ip) {
			return Verdict{Machine: true, Reason: reasonScanner}
		}
	}
	return Verdict{}
}

// ofAgent returns what a user agent says, and remembers it.
func (j *Judge) ofAgent(agent string) Verdict {
	j.mu.RLock()
	found, ok := j.agents[agent]
	j.mu.RUnlock()
	if ok {
		return found
	}
	lower := strings.ToLower(agent)
	for i := range agents {
		if strings.Contains(lower, agents[i].part) {
			found = agents[i].Verdict
			break
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.agents) >= agentsKept { // by agents that are made up: the usual ones are soon back
		clear(j.agents)
	}
	j.agents[strings.Clone(agent)] = found // the request's text holds its whole head
	return found
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
