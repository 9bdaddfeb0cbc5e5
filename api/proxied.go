package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"sluice/lib/connlimit"
)

// proxyWarned is for how long a proxy is told of that is not among the proxies.
const proxyWarned = 24 * time.Hour

// unnamed is the last proxy that is not among the proxies of the configuration. Failed
// attempts to sign in are counted by address: behind such a proxy those of a stranger are
// everybody's.
type unnamed struct {
	mu   sync.Mutex
	from netip.Addr
	seen time.Time
}

// note notes where a request to sign in comes from. An address beyond private networks
// may be a stranger's, who can say anything in a header: it counts where somebody has
// signed in. It reports whether that is to be logged: it was not seen for proxyWarned.
func (u *unnamed) note(r *http.Request, proxies []netip.Prefix, signedIn bool, now time.Time) (from netip.Addr, fresh bool) {
	from, ok := connlimit.UnnamedProxy(r, proxies)
	if !ok || !signedIn && !from.IsLoopback() && !from.IsPrivate() && !from.IsLinkLocalUnicast() {
		return from, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	fresh = now.Sub(u.seen) >= proxyWarned
	u.from, u.seen = from, now
	return from, fresh
}

// warnings says that there is one.
func (u *unnamed) warnings(now time.Time) (all []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.seen.IsZero() && now.Sub(u.seen) < proxyWarned {
		all = append(all, fmt.Sprintf("people sign in through %s, which says in X-Forwarded-For whose request it passes on and is not among the proxies: "+
			"they count as one, so a stranger with wrong passwords locks all of them out; if it is your proxy, add it to the setting proxies", u.from))
	}
	return all
}

// warnings are those of the program, and of this server.
func (s *Server) warnings() (all []string) {
	if p, ok := s.program.(Warner); ok {
		all = p.Warnings()
	}
	return append(all, s.unnamed.warnings(s.clock.Now())...)
}
