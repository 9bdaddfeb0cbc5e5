package connlimit

import (
	"net/http"
	"net/netip"
	"testing"
)

// What a proxy says is believed; what a stranger says is not, wherever it
// stands.
func TestSender(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for _, tt := range []struct {
		remote string
		said   []string
		want   string
	}{
		{"192.0.2.1:5", nil, "192.0.2.1"},
		{"192.0.2.1:5", []string{"203.0.113.7"}, "192.0.2.1"},
		{"10.0.0.1:5", nil, "10.0.0.1"},
		{"10.0.0.1:5", []string{"203.0.113.7"}, "203.0.113.7"},
		{"[::ffff:10.0.0.1]:5", []string{"6.6.6.6, 203.0.113.7"}, "203.0.113.7"},
		{"10.0.0.1:5", []string{"6.6.6.6,203.0.113.7, 10.1.1.1"}, "203.0.113.7"},
		{"10.0.0.1:5", []string{"6.6.6.6", "203.0.113.7"}, "203.0.113.7"},
		{"[::1]:5", []string{"2001:db8::7"}, "2001:db8::7"},
		{"10.0.0.1:5", []string{"6.6.6.6, nonsense"}, "10.0.0.1"},
		{"10.0.0.1:5", []string{"10.0.0.2"}, "10.0.0.2"},
		{"@", []string{"6.6.6.6"}, "invalid IP"},
	} {
		r := &http.Request{RemoteAddr: tt.remote, Header: http.Header{"X-Forwarded-For": tt.said}}
		if got := Sender(r, proxies).String(); got != tt.want {
			t.Errorf("%s %q: %s, want %s", tt.remote, tt.said, got, tt.want)
		}
	}
}

// All addresses of one network of IPv6 count as one; an address of IPv4 is one, however
// it is written.
func TestNetwork(t *testing.T) {
	for _, tt := range []struct {
		from string
		bits int
		want string
	}{
		{"203.0.113.7", 64, "203.0.113.7"},
		{"::ffff:203.0.113.7", 64, "203.0.113.7"},
		{"2001:db8:1:2:3::4", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:3::4", 48, "2001:db8:1::/48"},
	} {
		if got := Network(netip.MustParseAddr(tt.from), tt.bits); got != tt.want {
			t.Errorf("%s counts as %s, want %s", tt.from, got, tt.want)
		}
	}
}
