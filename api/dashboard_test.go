package api

import (
	"mime"
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
