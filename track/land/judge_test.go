package land

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// Requests as the proxies and filters of mail providers make them, each with where its
// form is described.
func TestJudge(t *testing.T) {
	const chrome = browser
	for _, tt := range []struct {
		what, source string
		method       string
		agent        string
		ip           string
		headers      string // NAME: VALUE
		want         Verdict
	}{
		{"Apple Mail Privacy Protection", "help.socketlabs.com, Identifying Apple MPP opens", "GET", "Mozilla/5.0", "17.58.98.7", "", Verdict{true, "apple_privacy", ""}},
		{"Apple's relay by another network", "the same", "GET", "Mozilla/5.0", "172.226.140.9", "", Verdict{true, "apple_privacy", ""}},
		{"Apple Mail without it", "developer.apple.com, Mail", "GET", "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)", "203.0.113.5", "", Verdict{}},
		{"Gmail's image proxy", "support.google.com/mail/answer/145919", "GET", "Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)", "66.249.84.1", "", Verdict{false, "", "google"}},
		{"Gmail loads ahead", "gmass.co, False opens in Gmail; mautic/mautic#10245", "GET", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/42.0.2311.135 Safari/537.36 Edge/12.246 Mozilla/5.0", "66.249.84.1", "", Verdict{true, "gmail_prefetch", ""}},
		{"Yahoo's image proxy", "help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html", "GET", "YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html", "209.73.183.9", "", Verdict{false, "", "yahoo"}},
		{"Microsoft, outside of what it publishes for filters", "Microsoft 365 endpoints", "GET", chrome, "40.94.35.5", "", Verdict{}},
		{"Safe Links from Exchange Online Protection, IPv4", "the same", "GET", chrome, "40.107.22.83", "", Verdict{true, "scanner", ""}},
		{"Safe Links from Exchange Online Protection, IPv6", "the same", "GET", chrome, "2a01:111:f400:7e1b::1", "", Verdict{true, "scanner", ""}},
		{"Safe Links asks by HEAD first", "mautic/mautic#16263", "HEAD", chrome, "203.0.113.5", "", Verdict{true, "head", ""}},
		{"Office looks whether a link exists", "learn.microsoft.com, Office Existence Discovery", "GET", "Microsoft Office Existence Discovery", "203.0.113.5", "", Verdict{true, "scanner", ""}},
		{"Outlook on Windows shows a mail", "caniemail.com", "GET", "Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 10.0; WOW64; Trident/7.0; Microsoft Outlook 16.0.16327; ms-office; MSOffice 16)", "203.0.113.5", "", Verdict{}},
		{"Barracuda Sentinel", "braze.com/docs, Bot filtering", "GET", "Barracuda Sentinel (EE)", "203.0.113.5", "", Verdict{true, "scanner", ""}},
		{"Barracuda Email Gateway Defense", "campus.barracuda.com, IP ranges", "GET", chrome, "209.222.82.17", "", Verdict{true, "scanner", ""}},
		{"Proofpoint, a browser by its agent", "the operator names its network", "GET", chrome, "198.51.100.77", "", Verdict{true, "scanner", ""}},
		{"Proofpoint by its agent", "bot lists", "GET", "Mozilla/5.0 (compatible; Proofpoint URL Defense)", "203.0.113.5", "", Verdict{true, "scanner", ""}},
		{"Mimecast by its agent", "bot lists", "GET", "Mozilla/5.0 Mimecast/1.0", "203.0.113.5", "", Verdict{true, "scanner", ""}},
		{"a browser that prefetches", "Fetch Standard, 3.7", "GET", chrome, "203.0.113.5", "Sec-Purpose: prefetch;prerender", Verdict{true, "prefetch", ""}},
		{"an older browser that prefetches", "X-Moz", "GET", chrome, "203.0.113.5", "X-Moz: prefetch", Verdict{true, "prefetch", ""}},
		{"Safari shows a top site", "X-Purpose", "GET", chrome, "203.0.113.5", "X-Purpose: preview", Verdict{true, "prefetch", ""}},
		{"a script", "requests.readthedocs.io", "GET", "python-requests/2.32.3", "203.0.113.5", "", Verdict{true, "program", ""}},
		{"a crawler", "developers.google.com/search/docs/crawling-indexing", "GET", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "203.0.113.5", "", Verdict{true, "program", ""}},
		{"no agent", "", "GET", "", "203.0.113.5", "", Verdict{true, "no_agent", ""}},
		{"a person", "", "GET", chrome, "203.0.113.5", "", Verdict{}},
		{"a person of whom nothing is known", "", "GET", chrome, "", "", Verdict{}},
		{"a very long agent", "", "GET", chrome + strings.Repeat("x", 8<<10) + "python", "203.0.113.5", "", Verdict{}},
	} {
		r := request(tt.method, "/t/o/x.gif", tt.agent)
		if name, value, ok := strings.Cut(tt.headers, ": "); ok {
			r.Header.Set(name, value)
		}
		ip, _ := netip.ParseAddr(tt.ip)
		judge := NewJudge([]netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")})
		for _, when := range []string{"at first", "again"} {
			if got := judge.judge(r, ip); got != tt.want {
				t.Errorf("%s (%s), %s: %+v, want %+v", tt.what, tt.source, when, got, tt.want)
			}
		}
	}
	if prefetches(http.Header{"Purpose": {"navigate"}}) {
		t.Error("somebody who navigates prefetches")
	}
}
