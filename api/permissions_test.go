package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"sluice"
	"sluice/lib/key"
	"sluice/user/consent"
)

// documentedPermission is how openapi.json says what a call needs.
var documentedPermission = regexp.MustCompile("[Pp]ermission:? `([a-z:._]+)`")

// door is what openapi.json says of who may make a call.
type door struct {
	method, path string
	permission   string // empty: none opens it, for it is open
	optional     bool   // open without a key, but not with one that may not
	beyond       bool   // open where the server listens on loopback only
	basic        bool   // a key may be a password
}

// doors reads openapi.json. Parameters in paths are their examples.
func doors(t *testing.T) (all []door) {
	t.Helper()
	_, c := checked(t)
	for path, item := range c.Document.Paths.Map() {
		for method, op := range item.Operations() {
			d := door{method: method, path: path, beyond: strings.Contains(op.Description, "Open while the server listens on loopback only,")}
			for _, p := range append(append(openapi3.Parameters{}, item.Parameters...), op.Parameters...) {
				if p.Value.In == openapi3.ParameterInPath {
					d.path = strings.Replace(d.path, "{"+p.Value.Name+"}", fmt.Sprint(p.Value.Example), 1)
				}
			}
			if found := documentedPermission.FindStringSubmatch(op.Description); found != nil {
				d.permission = found[1]
			}
			secured := false
			if op.Security != nil {
				for _, one := range *op.Security {
					_, basic := one["keyAsPassword"]
					d.basic = d.basic || basic
					d.optional = d.optional || len(one) == 0
					secured = true
				}
			}
			if d.optional = d.optional && !d.beyond; secured != (d.permission != "") {
				t.Errorf("%s %s: the document's security and its description do not say the same of keys", method, path)
			}
			all = append(all, d)
		}
	}
	return all
}

// Of every call that openapi.json describes, the permission that stands there
// opens it. No other one does, nor a revoked key, nor none. The root key opens
// all.
func TestEveryPermissionOpensWhatIsDocumented(t *testing.T) {
	store := openKeys(t)
	p := &program{keys: store, users: store, series: store, segments: store, templates: store, schedules: store, sends: store, journeys: deskOn(store), stats: fullStats(),
		forms: consent.New([]consent.Form{{Name: "newsletter"}}, "", nil, sluice.SystemClock{})}
	s := New("", p, slog.New(slog.DiscardHandler), Options{RootKey: testRoot})

	var every []string
	for _, row := range key.Permissions {
		every = append(every, string(row.Word))
	}
	// A key with each permission alone, and one with all others. Permissions only open:
	// where that one is refused, none of the others opens.
	alone, others := map[string]string{}, map[string]string{}
	for i, word := range every {
		_, alone[word] = addKey(t, store, word)
		_, others[word] = addKey(t, store, slices.Delete(slices.Clone(every), i, i+1)...)
	}
	_, none := addKey(t, store)
	revokedID, revoked := addKey(t, store, every...)
	if err := store.RevokeKey(t.Context(), revokedID); err != nil {
		t.Fatal(err)
	}
	_, unknown := key.New()

	call := func(d door, authorize func(r *http.Request)) int {
		r := httptest.NewRequestWithContext(t.Context(), d.method, d.path, strings.NewReader("{}"))
		r.Host = "localhost"
		r.Header.Set("Content-Type", "application/json")
		authorize(r)
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, r)
		return w.Code
	}
	bearer := func(text string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+text) }
	}
	nobody := func(*http.Request) {}
	isOpen := func(status int) bool {
		return status != http.StatusUnauthorized && status != http.StatusForbidden
	}
	used := map[string]bool{
		string(key.ConsentWrite): true, // it opens nothing: it says how much of what comes to /v1/events counts
	}
	for _, d := range doors(t) {
		used[d.permission] = true
		if got := call(d, nobody); isOpen(got) != (d.permission == "" || d.optional) || !isOpen(got) && got != http.StatusUnauthorized {
			t.Errorf("%s %s without a key: %d", d.method, d.path, got)
		}
		if got := call(d, bearer(testRoot)); !isOpen(got) {
			t.Errorf("%s %s with the root key: %d", d.method, d.path, got)
		}
		if d.permission == "" {
			continue
		}
		for name, text := range map[string]string{"a revoked key": revoked, "a key that there is not": unknown, "an empty one": "", "its id alone": revokedID} {
			if got := call(d, bearer(text)); got != http.StatusUnauthorized {
				t.Errorf("%s %s with %s: %d", d.method, d.path, name, got)
			}
		}
		for name, text := range map[string]string{"no permission": none, "all others": others[d.permission]} {
			if got := call(d, bearer(text)); got != http.StatusForbidden {
				t.Errorf("%s %s with a key that has %s: %d, and it wants %s", d.method, d.path, name, got, d.permission)
			}
		}
		if got := call(d, bearer(alone[d.permission])); !isOpen(got) {
			t.Errorf("%s %s with a key that has %s: %d", d.method, d.path, d.permission, got)
		}
		asPassword := call(d, func(r *http.Request) { r.SetBasicAuth("ann", alone[d.permission]) })
		if isOpen(asPassword) != d.basic {
			t.Errorf("%s %s with a key for a password: %d", d.method, d.path, asPassword)
		}
	}
	for _, row := range key.Permissions {
		if !used[string(row.Word)] {
			t.Errorf("%s opens nothing that is documented", row.Word)
		}
	}
	s.exposure.loopback = true
	for _, d := range doors(t) {
		if got := call(d, nobody); isOpen(got) != (d.permission == "" || d.optional || d.beyond) {
			t.Errorf("%s %s without a key, where only this machine reaches the server: %d", d.method, d.path, got)
		}
	}
}
