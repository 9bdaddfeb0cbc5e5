package domain

import (
	"context"
	"net/netip"
	"net/url"
	"strings"

	"sluice/lib/doctor"
)

// checkLinks looks whether the links in mails lead somewhere. Nothing of it is an
// error: mail arrives all the same, and is to be accepted.
func (l *look) checkLinks(ctx context.Context) {
	u, err := url.Parse(l.Links)
	if err != nil || u.Host == "" {
		return
	}
	host := strings.ToLower(u.Hostname())
	all, aliases, err := []netip.Addr(nil), []string(nil), error(nil)
	if ip, parseErr := netip.ParseAddr(host); parseErr == nil {
		all = append(all, ip)
	} else {
		all, aliases, err = l.addresses(ctx, host)
	}
	led := host
	if len(aliases) > 0 {
		led += ", an alias of " + strings.Join(aliases, ", of ") + ","
	}
	switch {
	case err != nil:
		l.e.Unknown(err, doctor.CheckDomainLinks)
	case len(all) == 0:
		l.e.Warn(doctor.CheckDomainLinks, "publish an address for it, or an alias of the host that answers: "+host+". IN CNAME HOST., or unset track.url",
			"links in its mail lead to %s (track.url), which has no address: nobody gets to the page", led)
	case u.Scheme != "https":
		l.e.Warn(doctor.CheckDomainLinks, "set track.url to https://"+u.Host, "links in its mail lead to %s without TLS: everybody on the way reads them, and mail programs warn of them", led)
	default:
		l.e.Fine(doctor.CheckDomainLinks, "links in its mail lead to %s with %s", led, all[0])
	}
}
