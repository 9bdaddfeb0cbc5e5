package config

import (
	"fmt"
	"net/netip"
	"strings"

	"sluice/lib/mime"
)

// MaxPlainServers bounds `plain_servers`.
const MaxPlainServers = 100

func (f *findings) plainServers() {
	f.most("plain_servers", "entries", len(f.c.PlainServers), MaxPlainServers)
	for _, text := range f.c.PlainServers {
		if _, err := parseProxy(text); err != nil && !mime.IsHostname(text) {
			f.add("plain_servers", fmt.Errorf("has %.100q, want an address, a network or a name: 10.0.0.7, 10.0.0.0/8, redis.internal", text))
		}
	}
}

// Plain reports whether the server of a host may be reached without TLS and
// without a password.
func (c *Config) Plain(host string) bool {
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	for _, text := range c.PlainServers {
		if network, wrong := parseProxy(text); wrong == nil && err == nil && network.Contains(ip.Unmap()) {
			return true
		}
		if strings.EqualFold(strings.TrimSuffix(text, "."), strings.TrimSuffix(host, ".")) {
			return true
		}
	}
	return false
}
