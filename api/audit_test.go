package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice"
	"sluice/ops/account"
	"sluice/store"
	"sluice/store/sqlstore"
)

// signIn makes an account with a role, and returns the headers of its requests of JSON.
func signIn(t *testing.T, url string, db *sqlstore.Store, role string) []string {
	t.Helper()
	const password = "correct horse battery"
	if _, err := account.New(db, sluice.SystemClock{}).Add(t.Context(), "ann", role, password); err != nil {
		t.Fatal(err)
	}
	header := []string{"Content-Type", "application/json", "Origin", url}
	signedIn := callBraze(t, url+sessionPath, "POST", "", `{"name":"ann","password":"`+password+`"}`, header...)
	cookie, _, _ := strings.Cut(signedIn.header.Get("Set-Cookie"), ";")
	return append(header, "Cookie", cookie)
}

// The audit log says of each change by a session what differed before and after, and never
// a secret.
func TestAuditHasBeforeAndAfter(t *testing.T) {
	s, url, p, _ := startBraze(t, Options{})
	db := p.keys.(*sqlstore.Store)
	p.groups = db
	header := signIn(t, url, db, "admin")
	bob, err := account.New(db, sluice.SystemClock{}).Add(t.Context(), "bob", "viewer", "a horse that is wrong")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("<p>ä</p>", 200)
	const news, post, people = groupsPath + "/news", templatesPath, accountsPath
	steps := []struct {
		method, path, body string
		status             int
		before, after      string // members that the entry has, with their values
	}{
		{"PUT", news, `{"name":"News"}`, 200, "", `{"description":"","name":"News","public":false}`},
		{"PUT", news, `{"name":"News","public":true}`, 200, `{"public":false}`, `{"public":true}`},
		{"PUT", news, `{"name":"News","public":true}`, 200, "", ""}, // nothing differs
		{"PUT", news, `{"name":""}`, 400, "", ""},
		{"DELETE", news, "", 204, `{"name":"News","public":true}`, ""},
		{"DELETE", news, "", 404, "", ""},
		{"PUT", people + "/" + bob.ID, `{"role":"editor"}`, 204, `{"role":"viewer"}`, `{"role":"editor"}`},
		{"PUT", people + "/" + bob.ID, `{"password":"battery staple hidden"}`, 204, "", ""},
		{"POST", people, `{"name":"eve","role":"viewer","password":"battery staple hidden"}`, 201, "", `{"name":"eve","role":"viewer"}`},
		{"DELETE", people + "/" + bob.ID, "", 204, `{"name":"bob","role":"editor"}`, ""},
		{"POST", keysPath, `{"name":"shop","permissions":"events:write"}`, 201, "", `{"name":"shop","permissions":["events:write"]}`},
		{"POST", post, `{"id":"t","subject":"Hi","from":"a@example.com","html":"` + long + `one"}`, 201, "", `{"current":1,"subject":"Hi"}`},
		{"PUT", post + "/t", `{"subject":"Hi","from":"a@example.com","html":"` + long + `two"}`, 200, `{"current":1}`, `{"current":2}`},
		{"DELETE", post + "/t", "", 204, "", "{}"}, // archived, at some time
	}
	for _, x := range steps {
		if got := callBraze(t, url+x.path, x.method, "", x.body, header...); got.status != x.status {
			t.Fatalf("%s %s %.60s: %d %s, want %d", x.method, x.path, x.body, got.status, got.body, x.status)
		}
	}
	stop(t, s) // it has noted all that it has answered
	entries, err := db.Audit(t.Context(), "", 100)
	if err != nil || len(entries) != len(steps) {
		t.Fatalf("%d entries, want %d: %v", len(entries), len(steps), err)
	}
	for i, x := range steps {
		e := &entries[len(entries)-1-i]
		name := fmt.Sprintf("%s %s %.40s", x.method, x.path, x.body)
		for what, text := range map[string][2]string{"before": {e.Before, x.before}, "after": {e.After, x.after}} {
			holds(t, name+", "+what, text[0], text[1])
		}
		if e.Status != x.status || strings.Contains(fmt.Sprint(e), "hidden") || strings.Contains(fmt.Sprint(e), "sk_") {
			t.Errorf("%s: %+v", name, e)
		}
	}
	put := &entries[len(entries)-13]
	if !strings.Contains(put.Before, `"…</p><p>ä</p><p>ä</p><p>ä</p><p>ä</p>one"`) || !strings.Contains(put.After, `<p>ä</p>two"`) || len(put.Before) > 200 {
		t.Errorf("what differs of a long text: %s, %s", put.Before, put.After)
	}
}

// holds checks that an object of the log has members with their values; want empty: there
// is no object.
func holds(t *testing.T, name, text, want string) {
	t.Helper()
	var has, wanted map[string]json.RawMessage
	if want == "" {
		if text != "" {
			t.Errorf("%s: %s, want nothing", name, text)
		}
		return
	}
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &has); err != nil {
		t.Errorf("%s: %q: %v", name, text, err)
	}
	for member, value := range wanted {
		if string(has[member]) != string(value) {
			t.Errorf("%s: %s is %s, want %s", name, member, has[member], value)
		}
	}
}

// What differs is JSON, of a bounded length, whatever is shown.
func TestAuditDifferencesAreBounded(t *testing.T) {
	many := func(value string) map[string]string {
		all := make(map[string]string)
		for i := range 100 {
			all[fmt.Sprintf("member \"%d\" \u202e", i)] = value
		}
		return all
	}
	rare := strings.Repeat("\"\\\x01\u2028𐍈", 1000)
	for _, x := range []struct{ before, after any }{
		{many("a"), many("b")}, {many(rare), many(rare + "b")}, {nil, many(rare)}, {many(rare), nil}, {nil, nil}, {[]int{1}, []int{2}}, {"a", "b"},
		{map[string]string{rare: rare}, map[string]string{rare: ""}},
		{map[string]any{"a": strings.Repeat("x", 5000) + "one"}, map[string]any{"a": strings.Repeat("x", 5000) + "two"}},
	} {
		before, after := differences(x.before, x.after)
		for _, text := range []string{before, after} {
			if len(text) > store.MaxAuditView || text != "" && !json.Valid([]byte(text)) {
				t.Errorf("%d bytes: %.300s", len(text), text)
			}
		}
	}
	address := "ann.who.has.a.long.name.indeed.it.is@example.com"
	before, after := differences(map[string]string{"a": strings.Repeat("x ", 300) + address + " one"}, map[string]string{"a": strings.Repeat("x ", 300) + address + " two " + strings.Repeat("x", 319) + " " + address})
	if want := `{"a":"… ` + address + ` one"}`; before != want || strings.Count(after, address) != 1 || strings.Count(after, "@") != 1 {
		t.Errorf("no word is cut: %s, %s", before, after)
	}
	if before, after := differences(map[string]int{"a": 1, "b": 2, "updated": 3}, map[string]int{"b": 2, "c": 3, "updated": 4}); before != `{"a":1}` || after != `{"c":3}` {
		t.Errorf("%s, %s", before, after)
	}
}

// A change is not made if how it looked cannot be noted.
func TestAuditLooksBeforeItChanges(t *testing.T) {
	_, url, p, _ := startBraze(t, Options{})
	db := p.keys.(*sqlstore.Store)
	header := signIn(t, url, db, "admin")
	p.groups = &failingGroups{db, true}
	if got := callBraze(t, url+groupsPath+"/x", "PUT", "", `{"name":"X"}`, header...); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "audit log") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if all, err := db.Groups(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v %v", all, err)
	}
}

// uncounted is series that cannot be added up.
type uncounted struct{ store.SeriesStore }

// Series implements store.SeriesStore.
func (uncounted) Series(context.Context, store.SeriesQuery) ([]store.SeriesRow, error) {
	return nil, errors.New("it takes too long")
}

// A journey is changed and stopped while what it has counted cannot be added up.
func TestAuditOfJourneysNeedsNoCounts(t *testing.T) {
	_, url, p, _ := startBraze(t, Options{})
	db := p.keys.(*sqlstore.Store)
	header := signIn(t, url, db, "admin")
	p.journeys.Series = uncounted{db}
	draft := strings.Replace(welcomeJourney, `"message":{"template":"welcome"}`, `"delay":{"for":"2d"}`, 1)
	for _, x := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "", draft, 201},
		{"PUT", "/welcome?revision=0", strings.Replace(draft, "Wel", "Fare", 1), 200},
		{"POST", "/welcome/archive", "", 200},
	} {
		if got := callBraze(t, url+journeysPath+x.path, x.method, "", x.body, header...); got.status != x.status {
			t.Errorf("%s %s: %d %s, want %d", x.method, x.path, got.status, got.body, x.status)
		}
	}
	if entries, err := db.Audit(t.Context(), "", 9); err != nil || len(entries) != 3 || !strings.Contains(entries[1].Before, "Wel") || !strings.Contains(entries[1].After, "Fare") {
		t.Errorf("%+v %v", entries, err)
	}
}

// puzzling is groups of whose changes the caller does not learn whether they were made.
type puzzling struct {
	store.GroupStore
	hangUp func() // nil: the store does not know
}

// PutGroup implements store.GroupStore.
func (p *puzzling) PutGroup(ctx context.Context, g store.Group) error {
	if err := p.GroupStore.PutGroup(ctx, g); err != nil {
		return err
	}
	if p.hangUp == nil {
		return errors.New("the connection was lost")
	}
	p.hangUp()
	<-ctx.Done()
	return nil
}

// The log shows what was changed, also of a client that hangs up at that moment, and of a
// change that may not have been made.
func TestAuditOfChangesInDoubt(t *testing.T) {
	for name, hangsUp := range map[string]bool{"the client hangs up": true, "the store does not know": false} {
		t.Run(name, func(t *testing.T) {
			s, url, p, _ := startBraze(t, Options{})
			db := p.keys.(*sqlstore.Store)
			header := signIn(t, url, db, "admin")
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			doubt := &puzzling{GroupStore: db}
			if hangsUp {
				doubt.hangUp = hangUp
			}
			p.groups = doubt
			r, err := http.NewRequestWithContext(ctx, "PUT", url+groupsPath+"/x", strings.NewReader(`{"name":"X"}`))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			if res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r); err == nil {
				_ = res.Body.Close()
			}
			stop(t, s) // it has noted all that it has answered
			entries, err := db.Audit(t.Context(), "", 9)
			if err != nil || len(entries) != 1 {
				t.Fatalf("%+v %v", entries, err)
			}
			holds(t, name, entries[0].After, `{"name":"X"}`)
		})
	}
}
