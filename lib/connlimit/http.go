package connlimit

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ConnState is for http.Server: it follows what the server does with a
// connection. Whenever it turns to its client, the connection is quiet.
func ConnState(c net.Conn, state http.ConnState) {
	if conn := connOf(c); conn != nil && (state == http.StateActive || state == http.StateIdle) {
		conn.Quiet()
	}
}

// connOf returns the connection of a Listener, also of one below another, as TLS is
// over it; nil: it is of another listener.
func connOf(c net.Conn) *Conn {
	if under, ok := c.(interface{ NetConn() net.Conn }); ok { // a *tls.Conn has it too
		c = under.NetConn()
	}
	conn, _ := c.(*Conn)
	return conn
}

// connKey is where a request's context has its connection.
type connKey struct{}

// ConnContext is for http.Server: with it Busy knows a request's connection.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(c))
}

// Busy says that a request has arrived as a whole: until its answer is written
// its connection is not closed for another.
func Busy(r *http.Request) {
	if conn, _ := r.Context().Value(connKey{}).(*Conn); conn != nil {
		conn.Busy()
	}
}

// Sender returns the address that a request comes from. A proxy says in
// X-Forwarded-For whose request it passes on, behind what others said before
// it. So the list is read from its end, as long as proxies that the operator
// has named wrote it. What a stranger puts there is not believed.
func Sender(r *http.Request, proxies []netip.Prefix) netip.Addr {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	ip := remote.Addr().Unmap().WithZone("")
	if !isProxy(ip, proxies) {
		return ip
	}
	said := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(said) - 1; i >= 0 && isProxy(ip, proxies); i-- {
		before, err := netip.ParseAddr(strings.TrimSpace(said[i]))
		if err != nil {
			break
		}
		ip = before.Unmap().WithZone("")
	}
	return ip
}

// Network returns what of a sender's address is counted: of IPv6 its first so many bits.
// Who has one address of IPv6 has 2^64, and who has a /48 has 65,536 networks of these.
func Network(from netip.Addr, bits int) string {
	if from.Is6() && !from.Is4In6() {
		if p, err := from.Prefix(bits); err == nil {
			return p.String()
		}
	}
	return from.Unmap().String()
}

// UnnamedProxy returns where a request comes from that says in X-Forwarded-For whose it
// is, from an address that is none of the proxies: so all whom it passes on count as one.
func UnnamedProxy(r *http.Request, proxies []netip.Prefix) (from netip.Addr, ok bool) {
	if len(r.Header.Values("X-Forwarded-For")) == 0 {
		return from, false
	}
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	from = remote.Addr().Unmap().WithZone("")
	return from, err == nil && !isProxy(from, proxies)
}

func isProxy(ip netip.Addr, proxies []netip.Prefix) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}
