package api

import (
	"mime"
	"net/http"
	"strings"
	"testing"
)

// The files of the dashboard have the kinds that a browser wants, whatever the tables of the
// machine say of their names.
func TestKindsOfAssets(t *testing.T) {
	if err := mime.AddExtensionType(".js", "text/plain"); err != nil { // as /etc/mime.types may
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mime.AddExtensionType(".js", "text/javascript; charset=utf-8") })
	all, err := assets()
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for path, a := range all {
		if a.kind == "" || a.kind == "text/plain; charset=utf-8" {
			t.Errorf("%s is %q", path, a.kind)
		}
		if a.kind == "text/javascript; charset=utf-8" {
			scripts++
		}
	}
	if scripts == 0 {
		t.Errorf("no script among %d files", len(all))
	}
}

// A browser that is led to a path where nothing is gets the page of the dashboard, which says
// so; a program gets an error that it can read.
func TestUnknownPathsInABrowser(t *testing.T) {
	x := startMails(t)
	server := strings.TrimSuffix(x.url, messagesPath)
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, tt := range []struct{ path, accept, kind string }{
		{"/nothing", browser, "text/html; charset=utf-8"},
		{"//nothing", browser, "text/html; charset=utf-8"},
		{"/nothing", "*/*", "application/json"},
		{"/nothing", "", "application/json"},
		{"/v1/nothing", browser, "application/json"},
		{"/assets/nothing.js", browser, "application/json"},
		{"/t/nothing", browser, "application/json"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+tt.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", tt.accept)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusNotFound || kind != tt.kind {
			t.Errorf("%s for %q: %d %s, want 404 %s", tt.path, tt.accept, res.StatusCode, kind, tt.kind)
		}
	}
}
