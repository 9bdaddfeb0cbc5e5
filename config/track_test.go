package config

import (
	"strings"
	"testing"
)

func TestTrack(t *testing.T) {
	for _, tt := range []struct{ text, wrong string }{
		{"track: {opens: false}", ""},
		{"track: {url: 'https://t.example.com/', clicks: false}", ""},
		{"track: {url: 'http://127.0.0.1:8020/mail'}", ""},
		{"track: {url: 't.example.com'}", "track.url is t.example.com; want https://HOST"},
		{"track: {url: 'https://t.example.com/?a=b'}", "track.url has a query"},
		{"track: {url: 'javascript:alert(1)'}", "track.url"},
		{"track: {url: 'https://t.example.com', listen: '127.0.0.1:8020', scanners: [198.51.100.0/24, '2001:db8::1']}", ""},
		{"track: {listen: '127.0.0.1:8020'}", "track.listen is set, and there is no track.url"},
		{"track: {url: 'https://t.example.com', listen: '8020'}", "track.listen is \"8020\", want HOST:PORT"},
		{"track: {tls_certificate: a.pem}", "track.tls_certificate and track.tls_key belong together"},
		{"track: {scanners: [mimecast.com]}", "track.scanners has \"mimecast.com\", want an address or a network"},
		{"track: {except_apps: [intranet, '']}", "track.except_apps has an empty entry"},
	} {
		c, err := load(t, tt.text, nil, nil)
		switch {
		case tt.wrong == "" && err != nil:
			t.Errorf("%s: %v", tt.text, err)
		case tt.wrong == "" && strings.HasSuffix(c.Track.URL, "/"):
			t.Errorf("%s: links would begin with %s/", tt.text, c.Track.URL)
		case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)):
			t.Errorf("%s: %v, want %s", tt.text, err, tt.wrong)
		}
	}
}

// A list that is set, and empty, in the environment or on the command line has no entries:
// of track.except_apps an empty one would mean all mail without an app.
func TestEmptyListsAreEmpty(t *testing.T) {
	environ := []string{"SLUICE_TRACK_EXCEPT_APPS=", "SLUICE_TRACK_SCANNERS=", "SLUICE_PROXIES="}
	for _, c := range []*Config{
		mustLoad(t, "track: {except_apps: [intranet]}", environ, nil),
		mustLoad(t, "track: {except_apps: [intranet]}", nil, map[string]string{"track-except-apps": "", "track-scanners": "", "proxies": ""}),
	} {
		if len(c.Track.ExceptApps)+len(c.Track.Scanners)+len(c.Proxies) != 0 {
			t.Errorf("track.except_apps %q, track.scanners %q, proxies %q", c.Track.ExceptApps, c.Track.Scanners, c.Proxies)
		}
	}
	for _, text := range []string{"a,", ",a", "a,,b", ","} {
		if _, err := load(t, "", []string{"SLUICE_TRACK_EXCEPT_APPS=" + text}, nil); err == nil || !strings.Contains(err.Error(), "has an empty entry") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
