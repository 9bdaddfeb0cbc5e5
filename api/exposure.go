package api

import (
	"net"
	"net/http"
	"strings"

	"sluice"
	"sluice/lib/key"
)

// exposure decides what a caller may see without a key, and by which names a
// server on loopback may be addressed.
//
// A server on loopback trusts every caller with /metrics, /v1/status and
// /v1/profile. Two things turn a stranger into such a caller. One is a proxy on
// the same machine, whose requests come from loopback. The other is a page in a
// browser on this machine whose host name is pointed at 127.0.0.1 after it was
// loaded (DNS rebinding). A key is needed as soon as a proxy is configured or
// shows itself, and a name that the operator has not given is refused.
type exposure struct {
	loopback bool            // only this machine reaches the listener; set by Start
	proxied  bool            // public_url or proxies is set: a proxy stands before it
	hosts    map[string]bool // names beside loopback's, in lower case, without port
}

func newExposure(o *Options) exposure {
	e := exposure{proxied: o.Proxied || len(o.Proxies) > 0, hosts: make(map[string]bool)}
	for _, host := range o.Hosts {
		e.hosts[plainHost(host)] = true
	}
	return e
}

// listens notes the address that was asked for and the one that was taken.
func (e *exposure) listens(asked string, taken net.Addr) {
	e.loopback = isLoopback(taken)
	if host := plainHost(asked); host != "" {
		e.hosts[host] = true
	}
}

// isLoopback reports whether only this machine reaches a listener.
func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// plainHost returns the host of HOST or HOST:PORT in lower case, without the
// brackets of an IPv6 address and without a final dot.
func plainHost(text string) string {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	return strings.ToLower(strings.TrimSuffix(text, "."))
}

// check refuses a request to a server on loopback whose Host is neither a name
// of loopback nor one that the operator has given. A request of HTTP/1.0 may
// have none; browsers always send one.
func (e *exposure) check(r *http.Request) error {
	if !e.loopback || r.Host == "" {
		return nil
	}
	host := plainHost(r.Host)
	if isLocalHost(host) || e.hosts[host] {
		return nil
	}
	return &statusError{http.StatusMisdirectedRequest, refusal(sluice.CodeForbidden,
		"this server listens on loopback and does not answer for the host %.100q; ask for localhost, or add the name to the setting hosts (public_url's host is allowed)", host)}
}

// open reports whether the caller is on this machine, as far as can be known.
func (e *exposure) open(r *http.Request) bool {
	return e.loopback && !e.proxied && !passedOn(r)
}

// passedOn reports whether a proxy says that it passes the request on.
func passedOn(r *http.Request) bool {
	for _, name := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if _, ok := r.Header[name]; ok {
			return true
		}
	}
	return false
}

// mayWatch returns nil if the caller may see what this process does. It is on
// this machine, or has a key with the permission metrics:read.
func (s *Server) mayWatch(w http.ResponseWriter, r *http.Request) error {
	if s.exposure.open(r) {
		return nil
	}
	_, err := s.allowed(w, r, key.MetricsRead)
	return err
}
