package land

import (
	"net/url"

	"sluice/track/link"
)

// locationOf returns a target as the header Location has it; false: a click does
// not lead there (link.Redirects), or browsers would read another host in it.
// Spaces and bytes beyond ASCII are escaped (RFC 3986, 2.1; RFC 3987, 3.1).
func locationOf(target string) (string, bool) {
	if !link.Redirects(target) {
		return "", false
	}
	escaped := make([]byte, 0, len(target)+16)
	const hex = "0123456789ABCDEF"
	for i := range len(target) {
		if b := target[i]; b <= ' ' || b >= 0x7f {
			escaped = append(escaped, '%', hex[b>>4], hex[b&15])
		} else {
			escaped = append(escaped, b)
		}
	}
	u, err := url.Parse(string(escaped))
	return string(escaped), err == nil && u.Host != ""
}
