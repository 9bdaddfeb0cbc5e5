// Package agent says what the user agent of an open or click tells: whether a program did
// it. Our own pages ask it (package land), and so do posts of providers (package hook).
package agent

import (
	"strings"
	"sync"
)

// A wrong word costs in both directions: an open of a program that counts as a
// person's lets somebody in who has seen nothing, and a person who counts as a
// program gets no mail any more. So an agent is a program's by a sign that no
// person's has, and everything else is a person's.
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

// Why it is a program's. The words stand in events.
const (
	Apple   = "apple_privacy"
	Gmail   = "gmail_prefetch"
	Scanner = "scanner"
	Program = "program"
)

// Verdict is whether a machine opened or clicked.
type Verdict struct {
	Machine bool
	Reason  string // of a machine
	Proxy   string // through whose proxy a person comes; empty: none that is known
}

// alone is the agent of Apple Mail Privacy Protection: all of it.
const alone = "Mozilla/5.0"

// parts tell programs by a part of their user agent, in lower case. The first that
// fits holds.
var parts = [...]struct {
	part string
	Verdict
}{
	{"googleimageproxy", Verdict{Proxy: "google"}},
	{"yahoomailproxy", Verdict{Proxy: "yahoo"}},
	{"chrome/42.0.2311.135 safari/537.36 edge/12.246", Verdict{true, Gmail, ""}},
	{"barracuda", Verdict{true, Scanner, ""}},
	{"proofpoint", Verdict{true, Scanner, ""}},
	{"mimecast", Verdict{true, Scanner, ""}},
	{"safelinks", Verdict{true, Scanner, ""}},
	{"microsoft office existence discovery", Verdict{true, Scanner, ""}},
	{"symantec", Verdict{true, Scanner, ""}},
	{"trendmicro", Verdict{true, Scanner, ""}},
	{"sophos", Verdict{true, Scanner, ""}},
	{"ironport", Verdict{true, Scanner, ""}},
	{"bingpreview", Verdict{true, Scanner, ""}},
	{"bot/", Verdict{true, Program, ""}},
	{"bot;", Verdict{true, Program, ""}},
	{"crawler", Verdict{true, Program, ""}},
	{"spider", Verdict{true, Program, ""}},
	{"headlesschrome", Verdict{true, Program, ""}},
	{"phantomjs", Verdict{true, Program, ""}},
	{"urlpreview", Verdict{true, Program, ""}},
	{"url preview", Verdict{true, Program, ""}},
	{"facebookexternalhit", Verdict{true, Program, ""}},
	{"whatsapp/", Verdict{true, Program, ""}},
	{"python", Verdict{true, Program, ""}},
	{"aiohttp", Verdict{true, Program, ""}},
	{"go-http-client", Verdict{true, Program, ""}},
	{"curl/", Verdict{true, Program, ""}},
	{"wget/", Verdict{true, Program, ""}},
	{"java/", Verdict{true, Program, ""}},
	{"apache-httpclient", Verdict{true, Program, ""}},
	{"okhttp/", Verdict{true, Program, ""}},
	{"libwww-perl", Verdict{true, Program, ""}},
	{"lua-resty-http", Verdict{true, Program, ""}},
	{"node-fetch", Verdict{true, Program, ""}},
	{"axios/", Verdict{true, Program, ""}},
	{"ahc/", Verdict{true, Program, ""}},
	{"hubspot connect", Verdict{true, Program, ""}},
	{"amazon cloudfront", Verdict{true, Program, ""}},
}

// kept bounds the user agents whose verdict is remembered, each of MaxBytes.
const kept = 4096

// MaxBytes is how much of a user agent is read.
const MaxBytes = 256

// Reader reads user agents. Its methods may be called by several goroutines at once.
type Reader struct {
	// A few user agents make nearly all requests, and to look for every part in one
	// costs as much as the MAC of a token.
	mu    sync.RWMutex
	known map[string]Verdict // emptied when it is full
}

// NewReader returns a reader that remembers nothing yet.
func NewReader() *Reader { return &Reader{known: make(map[string]Verdict)} }

// Read returns what a user agent says, and remembers it. One that says nothing, or is
// empty, has the zero Verdict.
func (r *Reader) Read(agent string) Verdict {
	agent = agent[:min(len(agent), MaxBytes)]
	r.mu.RLock()
	found, ok := r.known[agent]
	r.mu.RUnlock()
	if ok {
		return found
	}
	found = look(agent)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= kept { // by agents that are made up: the usual ones are soon back
		clear(r.known)
	}
	r.known[strings.Clone(agent)] = found // the text may be a part of a whole request
	return found
}

func look(agent string) Verdict {
	if agent == alone {
		return Verdict{Machine: true, Reason: Apple}
	}
	lower := strings.ToLower(agent)
	for i := range parts {
		if strings.Contains(lower, parts[i].part) {
			return parts[i].Verdict
		}
	}
	return Verdict{}
}
