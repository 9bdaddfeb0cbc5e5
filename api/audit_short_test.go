package api

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/lib/key"
	"sluice/mail/suppress"
	"sluice/store"
	"sluice/store/sqlstore"
)

// What is shortened stays JSON, and says of a long value what differs.
func TestAuditShortens(t *testing.T) {
	long := strings.Repeat("word ", 100)
	users := func(n int, name string) string {
		return `["` + strings.Repeat(name+`","`, n) + `last one"]`
	}
	for _, x := range []struct{ value, other, want string }{
		{`{"a":"` + long + `","b":1,"c":{"d":"` + long + `x","e":2}}`, `{"a":"` + long + `","b":2,"c":{"d":"` + long + `y","e":2}}`, `{"b":1,"c":{"d":"… word word word word word word word word x"}}`},
		{`["` + long + `","u-1","` + long + `"]`, `["` + long + `","` + long + `"]`, `["…","u-1","…"]`},
		{`["` + long + `",1,"` + long + `",3]`, `["` + long + `",2,"` + long + `",4]`, `["…",1,"…",3]`},
		{`{"external_id":"` + strings.Repeat("ü", 300) + `","a":1}`, ``, `{"external_id":"…","a":1}`},
		{`{"field":"external_id","in":` + users(1, long) + `}`, ``, `{"field":"external_id","in":["…","last one"]}`},
		{`{"value":["` + long + `","ann"],"field":"external_id"}`, `{"value":["` + long + `","bob"],"field":"external_id"}`, `{"field":"external_id","value":["…","ann"]}`},
		{`{"a":` + strings.Repeat("7", 500) + `}`, ``, `{"a":"…"}`},
		{users(1000, "anton smith"), ``, ``},
		{`{"x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, ``, ``},
	} {
		got := shortened(x.value, x.other, "", 400)
		if x.want != "" && got != x.want || len(got) > 400 || !json.Valid([]byte(got)) {
			t.Errorf("%.60s: %s, want %s", x.value, got, x.want)
		}
	}
	if got := shortened(users(1000, "anton smith"), "", "", 400); !strings.HasSuffix(got, `,"anton smith","…"]`) {
		t.Errorf("a list: %s", got)
	}
	body := ` {"users":` + users(1000, "anton smith") + "}"
	if got := shortBody(body, 2000); len(got) < 1900 || !json.Valid([]byte(got)) {
		t.Errorf("a body: %s", got)
	}
	if got := shortBody(strings.Repeat("no json ", 999), 2000); len(got) != 1999 {
		t.Errorf("a body that is no JSON: %d bytes: %s", len(got), got)
	}
}

// Names of users that stand under their members stay whole, or go, whatever is shortened.
func TestAuditCutsNoNames(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"ann", "a b c", `quo"te`, strings.Repeat("long ", 90), "ü\u2028\x01", "\\"}
	var some func(level int) any
	some = func(level int) any {
		switch n := random.IntN(6); {
		case n < 2 && level < 5:
			all := map[string]any{}
			for range random.IntN(6) {
				member := []string{"a", "user", "external_ids", "text", "field"}[random.IntN(5)]
				all[member] = some(level + 1)
				if member == "field" {
					all[member] = []string{"external_id", "email"}[random.IntN(2)]
				}
			}
			return all
		case n < 4 && level < 5:
			all := []any{}
			for range random.IntN(8) {
				all = append(all, some(level+1))
			}
			return all
		case n == 4:
			return random.IntN(1000)
		}
		return names[random.IntN(len(names))]
	}
	var check func(value any, under string)
	check = func(value any, under string) {
		switch v := value.(type) {
		case string:
			if store.NamesUsers(under) && v != auditCut && !slices.Contains(names, v) {
				t.Errorf("under %s: %q", under, v)
			}
		case []any:
			for _, x := range v {
				check(x, under)
			}
		case map[string]any:
			for name, x := range v {
				if v["field"] == "external_id" && name != "field" && name != auditCut {
					name = "external_id"
				}
				check(x, name)
			}
		}
	}
	for range 3000 {
		value, other, most := string(plainJSON(some(0))), string(plainJSON(some(0))), 5+random.IntN(500)
		got := shortened(value, other, "", most)
		var read any
		if err := json.Unmarshal([]byte(got), &read); err != nil || len(got) > most {
			t.Fatalf("%s of %s, %d bytes: %v", got, value, most, err)
		}
		check(read, "")
	}
}

// Of a path the log has the query that changes take, and nothing that somebody else may be
// called.
func TestAuditPathNamesNobody(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/journeys/welcome/publish?revision=3":                 "/v1/journeys/welcome/publish?revision=3",
		"/v1/journeys/welcome/resume?overdue=skip":                "/v1/journeys/welcome/resume?overdue=skip",
		"/v1/journeys/welcome/resume?overdue=ann":                 "/v1/journeys/welcome/resume?…",
		"/v1/segments/x?email=ann%40example.com&revision=1&a&id=": "/v1/segments/x?revision=1&…",
		"/v1/imports/x/pieces?offset=1048576":                     "/v1/imports/x/pieces?offset=1048576",
		"/v1/segments/x?revision=ann":                             "/v1/segments/x?…",
		"/v1/segments/x?revision=1&revision=2&%zz=;":              "/v1/segments/x?revision=2&…",
		"/v1/segments/a%2Fb":                                      "/v1/segments/a%2Fb",
		"/v1/segments/" + strings.Repeat("x", 3000):               "/v1/segments/…",
	} {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := auditPathOf(u); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for _, c := range calls {
		for _, member := range strings.Fields(c.query) {
			if c.method != "GET" && !key.Reads(c.permission) && member != anyQuery && auditQuery[member] == nil {
				t.Errorf("%s %s takes %q: say in auditQuery which values the audit log keeps", c.method, c.path, member)
			}
		}
	}
}

// A user who is named in the midst of a long rule is erased from the log, and so is who is
// named in a query. Of a long list of suppressions the log says how many it has not
// compared.
func TestAuditForgetsWhoIsErased(t *testing.T) {
	s, address, p, _ := startBraze(t, Options{})
	db := p.keys.(*sqlstore.Store)
	p.suppressions = &suppress.Service{Store: db, List: suppress.NewList(sluice.SystemClock{}), Clock: sluice.SystemClock{}}
	header := signIn(t, address, db, "admin")
	rule := func(change string) string {
		var names []string
		for i := range 190 {
			names = append(names, fmt.Sprintf("person %03d", i))
		}
		names[150] = change
		return `{"field":"external_id","is":"is_one_of","value":["` + strings.Join(names, `","`) + `"]}`
	}
	var entries []string
	for i := range maxAuditEntries + 7 {
		entries = append(entries, fmt.Sprintf("p%d@example.com", i))
	}
	const gone = "a person who is gone"
	var made struct {
		ID string `json:"id"`
	}
	for _, x := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", segmentsPath, `{"name":"S","rule":` + rule("nobody") + `}`, 201},
		{"PUT", segmentsPath + "/ID", `{"name":"S","rule":` + rule(gone) + `}`, 200},
		{"DELETE", segmentsPath + "/ID?user=" + url.QueryEscape(gone) + "&email=gone%40example.com", "", 204},
		{"POST", suppressionsPath + "/remove", `{"entries":["` + strings.Join(entries, `","`) + `"]}`, 200},
	} {
		got := callBraze(t, address+strings.Replace(x.path, "ID", made.ID, 1), x.method, "", x.body, header...)
		if got.status != x.status {
			t.Fatalf("%s %s: %d %s", x.method, x.path, got.status, got.body)
		}
		if made.ID == "" {
			if err := json.Unmarshal([]byte(got.body), &made); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop(t, s) // it has noted all that it has answered
	was, err := db.Audit(t.Context(), "", 9)
	if err != nil || len(was) != 4 {
		t.Fatalf("%+v %v", was, err)
	}
	holds(t, "suppressions", was[0].After, fmt.Sprintf(`{"not_compared":%d}`, len(entries)-maxAuditEntries))
	if !strings.Contains(was[2].After, gone) || !strings.Contains(was[2].Before, `"nobody"`) {
		t.Errorf("the change is not in the log: %+v", was[2])
	}
	names := []store.Erasure{{Name: gone, CreatedMillis: was[0].TimeMillis}, {Name: store.AddressErasure("gone@example.com"), CreatedMillis: was[0].TimeMillis}}
	if _, _, err := db.EraseAudit(t.Context(), names, ""); err != nil {
		t.Fatal(err)
	}
	is, err := db.Audit(t.Context(), "", 9)
	if err != nil || len(is) != 4 {
		t.Fatalf("%+v %v", is, err)
	}
	for i := range is {
		if text := fmt.Sprintf("%+v", is[i]); strings.Contains(text, "gone") {
			t.Errorf("it is not forgotten: %s", text)
		}
	}
}
