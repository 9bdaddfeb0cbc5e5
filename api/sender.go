package api

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// senderOf returns the address that a request comes from. A proxy says in
// X-Forwarded-For whose request it passes on, behind what others said before
// it. So the list is read from its end, as long as proxies that the operator
// has named wrote it. What a stranger puts there is not believed.
func senderOf(r *http.Request, proxies []netip.Prefix) netip.Addr {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	ip := remote.Addr().Unmap().WithZone("")
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

func isProxy(ip netip.Addr, proxies []netip.Prefix) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}
