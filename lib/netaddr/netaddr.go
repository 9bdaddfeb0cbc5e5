// Package netaddr reads the hosts and addresses that settings and URLs name.
package netaddr

import (
	"net"
	"net/netip"
	"strings"
)

// IsLoopback reports whether a host, as url.URL.Hostname has it, is this machine. A name
// other than localhost may resolve to anything, so it does not count.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// WithPort returns HOST:PORT of an address that may lack its port.
func WithPort(address, port string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), port)
}
