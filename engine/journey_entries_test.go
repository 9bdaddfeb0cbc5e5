package engine_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/engine"
	"sluice/journey"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
)

// withJourney is an engine in which a journey is live.
func withJourney(t *testing.T, partitions int, text string, templates ...string) (*engine.Engine, *sqlstore.Store, store.Journey) {
	t.Helper()
	database := "sqlite:" + filepath.Join(t.TempDir(), "sluice.db")
	e := open(t, "embedded", database, partitions)
	db := databaseOf(t, database, templates...)
	return e, db, publish(t, db, text)
}

// idOf is the user of a key.
func idOf(t *testing.T, db *sqlstore.Store, key user.Key) (user.ID, bool) {
	t.Helper()
	a, err := db.Users(t.Context(), user.Query{Keys: []user.Key{key}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range a.ByKey[key] {
		row, ok := a.Owner(id)
		return row.ID, ok
	}
	return user.ID{}, false
}

const unknownCart = `
id: unknown
entry: {when: {event: cart}}
steps:
  - {id: wait, wait_for: {within: 1d, paths: [{name: back, when: {event: back}, next: remind}], otherwise: exit}}
  - {id: remind, message: {template: remind, tags: remind}}
`

// TestACartOfSomebodyUnknown: visitors who are known by an alias alone leave a cart, and
// sign in while they wait. Each is merged into a known user, of the same partition or of
// another, who goes on in their place and gets the mail once.
func TestACartOfSomebodyUnknown(t *testing.T) {
	const people = 16
	e, db, _ := withJourney(t, 4, unknownCart, "remind")
	now := time.Now().UTC().Format(time.RFC3339)
	list := func(format string) string {
		all := make([]string, people)
		for n := range all {
			all[n] = strings.ReplaceAll(strings.ReplaceAll(format, "NOW", now), "#", fmt.Sprint(n))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	const alias = `"user_alias":{"alias_label":"visitor","alias_name":"#"}`
	track(t, e, `{"attributes":`+list(`{"external_id":"k#","email":"k#@example.com"}`)+`}`)
	track(t, e, `{"attributes":`+list(`{`+alias+`,"seen":true,"_update_existing_only":false}`)+`}`)
	track(t, e, `{"events":`+list(`{`+alias+`,"name":"cart","time":"NOW"}`)+`}`)
	await(t, "the visitors wait", func() bool { return counts(t, e, "journey/unknown/wait/entered") == people })
	same := 0
	for n := range people {
		known, ok := idOf(t, db, user.Key{Kind: user.KeyExternal, Name: fmt.Sprint("k", n)})
		visitor, found := idOf(t, db, user.AliasKey("visitor", fmt.Sprint(n)))
		if !ok || !found {
			t.Fatalf("user %d is not there", n)
		}
		if known.Partition == visitor.Partition {
			same++
		}
	}
	if same == 0 || same == people {
		t.Fatalf("%d of %d live where the known user does: the test does not see both cases", same, people)
	}
	call(t, e, "/users/identify", `{"aliases_to_identify":`+list(`{"external_id":"k#",`+alias+`}`)+`}`)
	places := e.Services().Journeys
	await(t, "the known users have the places", func() bool {
		for n := range people {
			id, _ := idOf(t, db, user.Key{Kind: user.KeyExternal, Name: fmt.Sprint("k", n)})
			all, err := places.PlacesOf(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if len(all) != 1 || all[0].State != journey.StateInside || all[0].Step != "wait" {
				return false
			}
		}
		return true
	})
	track(t, e, `{"events":`+list(`{"external_id":"k#","name":"back","time":"NOW"}`)+`}`)
	await(t, "each has a mail", func() bool {
		for n := range people {
			rows := sendsOf(t, db, fmt.Sprint("k", n))
			if len(rows) > 1 {
				t.Fatalf("k%d has %d mails", n, len(rows))
			}
			if len(rows) == 0 {
				return false
			}
		}
		return true
	})
	for name, want := range map[string]int64{"wait/entered": people, "wait/exited": 0, "remind/passed": people} {
		await(t, name, func() bool { return counts(t, e, "journey/unknown/"+name) == want })
	}
}

const calledJourney = `
id: called
entry: {when: {api: true}}
steps:
  - {id: split, split: {if: {context: size, is: equals, value: big}, then: big, else: exit}}
  - {id: big, message: {template: big, tags: big}}
`

// TestEntriesByCalls: a call lets people in whatever they are called by, also after they
// were merged into a user of another partition; a repeat under its Idempotency-Key lets
// nobody in again; nobody is made.
func TestEntriesByCalls(t *testing.T) {
	e, db, _ := withJourney(t, 4, strings.Replace(calledJourney, "{when: {api: true}}", "{when: {api: true}, again_after: 0s}", 1), "big")
	var attributes, merges, entries []string
	const people = 12
	for n := range people {
		attributes = append(attributes, fmt.Sprintf(`{"external_id":"k%d","email":"k%d@example.com"},{"external_id":"old%d"}`, n, n, n))
		merges = append(merges, fmt.Sprintf(`{"identifier_to_merge":{"external_id":"old%d"},"identifier_to_keep":{"external_id":"k%d"}}`, n, n))
		entries = append(entries, fmt.Sprintf(`{"external_id":"old%d","context":{"size":"big"}}`, n))
	}
	track(t, e, `{"attributes":[`+strings.Join(attributes, ",")+`]}`)
	await(t, "the users are there", func() bool {
		_, ok := idOf(t, db, user.Key{Kind: user.KeyExternal, Name: fmt.Sprint("old", people-1)})
		return ok
	})
	call(t, e, "/users/merge", `{"merge_updates":[`+strings.Join(merges, ",")+`]}`)
	entries = append(entries, `{"external_id":"nobody"}`, `{"context":{}}`)
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+e.Address()+"/v1/journeys/called/enter", strings.NewReader("["+strings.Join(entries, ",")+"]"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+rootKey)
		req.Header.Set("Idempotency-Key", "one")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusAccepted {
			t.Fatal(res.Status)
		}
	}
	await(t, "all have entered", func() bool { return counts(t, e, "journey/called/split/entered") >= people })
	await(t, "each has a mail", func() bool {
		for n := range people {
			if len(sendsOf(t, db, fmt.Sprint("k", n))) == 0 {
				return false
			}
		}
		return true
	})
	if n := counts(t, e, "journey/called/split/entered"); n != people {
		t.Errorf("%d have entered, want %d", n, people)
	}
	if _, ok := idOf(t, db, user.Key{Kind: user.KeyExternal, Name: "nobody"}); ok {
		t.Error("an entry has made a user")
	}
}
