package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// MaxPlainServers bounds `plain_servers`.
const MaxPlainServers = 100

func (c *Config) validatePlainServers() error {
	var errs []error
	if n := len(c.PlainServers); n > MaxPlainServers {
		errs = append(errs, c.wrong("plain_servers", fmt.Errorf("has %d entries, the most is %d", n, MaxPlainServers)))
	}
	for _, text := range c.PlainServers {
		if _, err := parseProxy(text); err != nil && !isHostname(text) {
			errs = append(errs, c.wrong("plain_servers", fmt.Errorf("has %.100q, want an address, a network or a name: 10.0.0.7, 10.0.0.0/8, redis.internal", text)))
		}
	}
	return errors.Join(errs...)
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
