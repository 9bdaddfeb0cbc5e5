package api

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/ops/account"
	"sluice/store/sqlstore"
)

// Who signs in through a proxy that is not among the proxies is warned of.
func TestAProxyThatIsNotNamed(t *testing.T) {
	const password = "correct horse battery"
	for name, proxies := range map[string][]netip.Prefix{"none": nil, "another": {netip.MustParsePrefix("10.0.0.7/32")}, "this": {netip.MustParsePrefix("127.0.0.0/8")}} {
		s, url, p, log := startBraze(t, Options{Proxies: proxies})
		if _, err := account.New(p.keys.(*sqlstore.Store), sluice.SystemClock{}).Add(t.Context(), "ann", "admin", password); err != nil {
			t.Fatal(err)
		}
		direct := callBraze(t, url+sessionPath, "POST", "", `{"name":"ann","password":"wrong horse battery"}`, "Content-Type", "application/json", "Origin", url)
		if warned := s.warnings(); direct.status != 403 || len(warned) != 0 {
			t.Errorf("%s, without a proxy: %d, warned %q", name, direct.status, warned)
		}
		for range 2 {
			callBraze(t, url+sessionPath, "POST", "", `{"name":"ann","password":"wrong horse battery"}`, "Content-Type", "application/json", "Origin", url, "X-Forwarded-For", "203.0.113.9")
		}
		warned := strings.Join(s.warnings(), "; ")
		if (name != "this") != strings.Contains(warned, "through 127.0.0.1") {
			t.Errorf("proxies: %s: warned %q", name, warned)
		}
		if _, _, body := do(t, "GET", url+"/readyz"); name == "none" && !strings.Contains(body, "the setting proxies") {
			t.Errorf("/readyz says %s", body)
		}
		stop(t, s)
		if n := strings.Count(log.String(), "is not in the setting proxies"); (n == 1) != (name != "this") || n > 1 {
			t.Errorf("proxies: %s: logged %d times", name, n)
		}
	}
	// A stranger can say anything in a header.
	var u unnamed
	r := httptest.NewRequest("POST", sessionPath, nil)
	r.RemoteAddr = "198.51.100.7:1234"
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	now := time.UnixMilli(1_700_000_000_000)
	if u.note(r, nil, false, now); len(u.warnings(now)) != 0 {
		t.Error("a stranger makes a warning")
	}
	if u.note(r, nil, true, now); len(u.warnings(now)) != 1 || len(u.warnings(now.Add(proxyWarned))) != 0 {
		t.Error("who has signed in makes none, or one for ever")
	}
}
