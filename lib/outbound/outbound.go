// Package outbound makes HTTP requests to addresses that others have chosen, such as
// webhooks: never into the network that the program itself is in.
//
// A name is resolved, each of its addresses is checked, and one of those very addresses
// is dialled. So a name that resolves to something else a moment later (DNS rebinding)
// leads nowhere new. No proxy is asked, since it would resolve the name again, and no
// redirect is followed, since it was checked by nobody.
package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of a request.
const (
	ConnectTimeout  = 5 * time.Second // to all addresses of a name
	minAddressTime  = time.Second     // to one of them, while there is time
	maxHeaderBytes  = 16 << 10
	idleTimeout     = 20 * time.Second
	maxIdleConns    = 64
	maxConnsPerHost = 8
	maxAddresses    = 16 // of a name
)

// ErrRefused says that an address leads where no request may go.
var ErrRefused = errors.New("the address is refused")

// Guard is what a client may reach.
type Guard struct {
	// Allow has names of hosts that may be reached wherever they are, and by http:// too:
	// as they stand in the URL, in lower case, without a port.
	Allow []string

	// Resolver resolves names; nil: the machine's.
	Resolver *net.Resolver

	// Roots are whose certificates are believed; nil: the machine's.
	Roots *x509.CertPool

	// connect connects to an address; nil: the machine does.
	connect func(ctx context.Context, network, address string) (net.Conn, error)
}

// Check says why no request may go to a URL, as far as that is known without resolving
// its name. A URL must be https://, without user and fragment.
func (g *Guard) Check(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return errors.New("cannot be read as a URL; want https://HOST/PATH")
	case u.User != nil:
		return errors.New("has a user or a password; put a secret into the path, if need be")
	case u.Fragment != "":
		return errors.New("has a fragment (#), which is never sent")
	}
	host := hostOf(u)
	if u.Scheme != "https" && (u.Scheme != "http" || !g.allows(host)) {
		return fmt.Errorf("has the scheme %.16q, want https://", u.Scheme)
	}
	if ip, err := netip.ParseAddr(host); err == nil && !g.allows(host) {
		return CheckAddr(ip)
	}
	return nil
}

func hostOf(u *url.URL) string { return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") }

func (g *Guard) allows(host string) bool { return slices.Contains(g.Allow, host) }

// Client returns a client whose requests go where the guard lets them. A request has the
// time that its context has. Each client has connections of its own: CloseIdleConnections
// ends those of one that is not needed any more.
func (g *Guard) Client() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  nil, // none, also where the environment names one
			DialContext:            g.dial,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: g.Roots},
			TLSHandshakeTimeout:    ConnectTimeout,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           maxIdleConns,
			MaxConnsPerHost:        maxConnsPerHost,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes,
			DisableCompression:     true, // an answer must not grow
		},
	}
}

// dial resolves, checks, and connects to what it has checked.
func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses, err := g.resolve(ctx, strings.TrimSuffix(strings.ToLower(host), "."))
	if err != nil {
		return nil, err
	}
	return g.dialAny(ctx, network, addresses, port)
}

// dialAny connects to the first of some addresses that answers. Each gets its part of
// the time that is left: one that drops what it is sent must not take that of the others.
func (g *Guard) dialAny(ctx context.Context, network string, addresses []netip.Addr, port string) (net.Conn, error) {
	connect := g.connect
	if connect == nil {
		connect = new(net.Dialer).DialContext
	}
	var errs []error
	for i, ip := range addresses {
		end, _ := ctx.Deadline()
		part := max(time.Until(end)/time.Duration(len(addresses)-i), minAddressTime)
		within, stop := context.WithTimeout(ctx, part)
		conn, err := connect(within, network, net.JoinHostPort(ip.String(), port))
		stop()
		if err == nil {
			return conn, nil
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// resolve returns the addresses of a host, all of which may be dialled. One that may not
// refuses them all: a name that leads inside and outside is not to be trusted.
func (g *Guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	resolver := g.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	found := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		found = append(found, ip)
	} else if found, err = resolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%.128s has no addresses", host)
	}
	for i, ip := range found {
		found[i] = ip.Unmap()
		if err := CheckAddr(ip); err != nil && !g.allows(host) {
			return nil, fmt.Errorf("%.128s: %w", host, err)
		}
	}
	return found[:min(len(found), maxAddresses)], nil
}

// refused are networks that no public server is in, and what they are. RFC 6890 and the
// registries that it began: iana-ipv4-special-registry, iana-ipv6-special-registry.
var refused = []struct {
	network netip.Prefix
	what    string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared by a carrier (RFC 6598)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("168.63.129.16/32"), "Azure's metadata"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local, with the metadata of clouds"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved (RFC 6890)"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relays"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("2001::/23"), "reserved, with Teredo"},
	{netip.MustParsePrefix("2001:db8::/32"), "for documentation"},
	{netip.MustParsePrefix("2002::/16"), "6to4"},
	{netip.MustParsePrefix("3fff::/20"), "for documentation"},
}

// Of IPv6 only global unicast addresses are handed out (RFC 4291, 2.4). NAT64 has IPv4
// addresses in it (RFC 6052), which are judged by themselves.
var (
	global = netip.MustParsePrefix("2000::/3")
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
)

// CheckAddr says why an address may not be dialled: the error is ErrRefused.
func CheckAddr(ip netip.Addr) error {
	original := ip
	ip = ip.Unmap().WithZone("")
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	for _, r := range refused {
		if r.network.Contains(ip) {
			return fmt.Errorf("%w: %s is %s", ErrRefused, original, r.what)
		}
	}
	if ip.Is6() && !global.Contains(ip) {
		return fmt.Errorf("%w: %s is not a public address", ErrRefused, original)
	}
	return nil
}

// RetryAfter returns how long an answer wants a repeat to wait, by its Retry-After: seconds,
// or a date (RFC 9110, 10.2.3). It is 0 to most, 0 if the answer says nothing that can be
// read. Fractions of seconds, which some servers write, are read too.
func RetryAfter(h http.Header, now time.Time, most time.Duration) time.Duration {
	text := h.Get("Retry-After")
	var wait time.Duration
	if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	} else if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		wait = time.Duration(min(seconds, most.Seconds()) * float64(time.Second))
	}
	return min(max(wait, 0), most)
}
