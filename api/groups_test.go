package api

import (
	"net/http"
	"strings"
	"testing"

	"sluice/lib/key"
	"sluice/store"
	"sluice/store/sqlstore"
)

// Groups are made, listed in their order, changed and deleted; a key that reads changes
// none, and what a session changes is in the audit log.
func TestGroups(t *testing.T) {
	s, url, p, _ := startBraze(t, Options{})
	db := p.keys.(*sqlstore.Store)
	p.groups = db
	bearer := func(permissions ...string) string {
		_, text := addKey(t, db, permissions...)
		return "Bearer " + text
	}
	write, read := bearer(string(key.GroupsRead), string(key.GroupsWrite)), bearer(string(key.GroupsRead))
	var made groupShown
	callJSON(t, url+groupsPath+"/a%3Fb%20%C3%A4", "PUT", write, `{"name":"Weekly <news>","description":"Each Monday.","public":true,"order":7}`, http.StatusOK, &made)
	if made.ID != "a?b ä" || made.Name != "Weekly <news>" || made.Description != "Each Monday." || !made.Public || made.Order != 7 || made.Created == "" {
		t.Errorf("made %+v", made)
	}
	callJSON(t, url+groupsPath+"/offers", "PUT", write, `{"name":"Offers"}`, http.StatusOK, &made)
	if made.Public || made.Order != store.DefaultGroupOrder {
		t.Errorf("defaults: %+v", made)
	}
	for _, x := range []struct {
		method, path, key, body string
		status                  int
	}{
		{"PUT", "/offers", read, `{"name":"x"}`, 403}, {"DELETE", "/offers", read, "", 403}, {"GET", "", "", "", 401},
		{"PUT", "/offers", write, `{}`, 400}, {"PUT", "/offers", write, `{"name":"a\nb"}`, 400}, {"PUT", "/offers", write, `{"name":"x","order":0}`, 400},
		{"PUT", "/offers", write, `{"name":"x","public":"yes"}`, 400}, {"PUT", "/offers", write, `{"name":"x","more":1}`, 400},
		{"PUT", "/" + strings.Repeat("x", 256), write, `{"name":"x"}`, 400}, {"PUT", "/x", write, `{"name":"` + strings.Repeat("x", maxGroupBytes) + `"}`, 413},
		{"DELETE", "/none", write, "", 404},
	} {
		if got := callBraze(t, url+groupsPath+x.path, x.method, x.key, x.body, "Content-Type", "application/json"); got.status != x.status {
			t.Errorf("%s %.20s %.40s: %d %s, want %d", x.method, x.path, x.body, got.status, got.body, x.status)
		}
	}
	var all struct{ Groups []groupShown }
	callJSON(t, url+groupsPath, "GET", read, "", http.StatusOK, &all)
	if len(all.Groups) != 2 || all.Groups[0].Name != "Weekly <news>" || all.Groups[1].Name != "Offers" {
		t.Errorf("%+v", all)
	}

	json := signIn(t, url, db, "editor")
	for method, body := range map[string]string{"PUT": `{"name":"Offers"}`, "DELETE": ""} {
		if got := callBraze(t, url+groupsPath+"/offers", method, "", body, json...); got.status >= 300 && got.status != 404 {
			t.Errorf("%s by a session: %d %s", method, got.status, got.body)
		}
	}
	stop(t, s) // it has noted all that it has answered
	entries, err := db.Audit(t.Context(), "", 10)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%+v, %v", entries, err)
	}
	for _, e := range entries {
		if e.Path != groupsPath+"/offers" || e.Name != "ann" || e.Method == "PUT" && e.Detail != `{"name":"Offers"}` {
			t.Errorf("%+v", e)
		}
	}
}

// An id may have all characters that are escaped in its path, slashes and dots as well.
func TestEscapedIDs(t *testing.T) {
	s, base, p, _ := startBraze(t, Options{})
	defer stop(t, s)
	db := p.keys.(*sqlstore.Store)
	p.groups = db
	_, text := addKey(t, db, string(key.GroupsWrite))
	for path, id := range map[string]string{
		"https%3A%2F%2Fexample.com%2Fu%2F7": "https://example.com/u/7", "%2Fa%2F": "/a/", "a%2F.%2Fb": "a/./b", "%2E": ".", "%2E%2E": "..", "a%2F..": "a/..", "%2F%2F": "//",
	} {
		var made groupShown
		callJSON(t, base+groupsPath+"/"+path, "PUT", "Bearer "+text, `{"name":"n"}`, http.StatusOK, &made)
		if made.ID != id {
			t.Errorf("%s: %q", path, made.ID)
		}
		callJSON(t, base+groupsPath+"/"+path, "DELETE", "Bearer "+text, "", http.StatusNoContent, nil)
	}
}

// An id that PostgreSQL cannot be asked for is none, wherever a path has one: no store is
// asked, of which there is none here.
func TestUnstorableIDs(t *testing.T) {
	const root = "0123456789abcdef0123456789abcdef"
	s, url, _, _ := startBraze(t, Options{RootKey: root})
	defer stop(t, s)
	paths := []call{{method: "POST", path: importPath + "/pieces?offset=0"}}
	for _, c := range append(paths, calls...) {
		for _, id := range []string{"%00", "a%0Ab", "%FF"} {
			path := strings.Replace(c.path, "{id}", id, 1)
			if path == c.path {
				continue
			}
			if got := callBraze(t, url+path, c.method, "Bearer "+root, `{}`, "Content-Type", "application/json"); got.status != http.StatusNotFound {
				t.Errorf("%s %s: %d %s", c.method, path, got.status, got.body)
			}
		}
	}
}
