package httponce

import (
	"errors"
	"net/url"

	"sluice/lib/netaddr"
)

// CheckWay refuses http:// to another machine: the keys of a provider and the
// contents of mails would go over the network in clear. To this machine it is for
// relays and for tests.
func CheckWay(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && netaddr.IsLoopback(u.Hostname()) {
		return nil
	}
	return errors.New("is not https://, so keys and mails would go over the network in clear; http:// is possible to 127.0.0.1, [::1] and localhost only")
}
