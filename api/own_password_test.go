package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/store/sqlstore"
)

// An account changes its own password, that of a viewer too. The browser gets a new session,
// the old one ends, and the audit log has who did it, without passwords.
func TestOwnPassword(t *testing.T) {
	s, url, p, _ := startBraze(t, Options{})
	db := p.keys.(*sqlstore.Store)
	header := signIn(t, url, db, "viewer")
	const old, next = "correct horse battery", "battery staple hidden"
	body := func(password, other string) string {
		return fmt.Sprintf(`{"password":%q,"new_password":%q}`, password, other)
	}
	put := func(body string, header ...string) called {
		t.Helper()
		return callBraze(t, url+sessionPath, http.MethodPut, "", body, header...)
	}
	elsewhere := append([]string{"Content-Type", "application/json", "Origin", "https://evil.example"}, header[4:]...)
	for _, tt := range []struct {
		name, body string
		header     []string
		want       int
	}{
		{"by another site", body(old, next), elsewhere, 403},
		{"without a session", body(old, next), header[:4], 401},
		{"a wrong password", body("wrong horse hidden", next), header, 403},
		{"a short one", body(old, "hidden"), header, 400},
		{"no new one", `{"password":"` + old + `"}`, header, 400},
	} {
		if got := put(tt.body, tt.header...); got.status != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.name, got.status, got.body, tt.want)
		}
	}
	got := put(body(old, next), header...)
	cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
	if got.status != 200 || cookie == "" || cookie == header[5] {
		t.Fatalf("%d %s %q", got.status, got.body, cookie)
	}
	for _, x := range []struct {
		cookie string
		want   int
	}{{header[5], 401}, {cookie, 200}} {
		if got := callBraze(t, url+overviewPath, http.MethodGet, "", "", "Cookie", x.cookie); got.status != x.want {
			t.Errorf("%q: %d %s, want %d", x.cookie, got.status, got.body, x.want)
		}
	}
	stop(t, s) // it has noted all that it has answered
	entries, err := db.Audit(t.Context(), "", 100)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%+v, %v", entries, err)
	}
	for i, want := range []int{200, 400, 403} {
		if e := &entries[i]; e.Status != want || e.Name != "ann" || e.Method+" "+e.Path != "PUT "+sessionPath || e.Detail == "" || strings.Contains(fmt.Sprint(e), "hidden") {
			t.Errorf("%+v, want %d", e, want)
		}
	}
}
