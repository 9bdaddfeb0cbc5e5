package engine_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/engine"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
)

// everything is there, as far as a document asks.
type everything struct{}

func (everything) Template(string, int) (mail.Class, bool, error) {
	return mail.ClassMarketing, true, nil
}
func (everything) Segment(string) (string, bool, error) { return "", false, nil }
func (everything) Journey(string) (bool, error)         { return true, nil }

// cartJourney holds people for longer than a busy machine takes to hand in their purchases.
const cartJourney = `
id: cart
entry: {when: {event: cart, where: {property: items, is: greater_than, value: 0}}}
steps:
  - {id: pause, delay: {for: 15s}, next: gold}
  - {id: gold, split: {if: {attribute: plan, is: equals, value: gold}, then: thanks, else: remind}}
  - {id: thanks, message: {template: thanks, tags: thanks}, next: note}
  - {id: remind, message: {template: remind, tags: remind}}
  - {id: note, update: {attributes: {thanked: true}}}
exit_when: {purchase: "*"}
`

// TestAJourney: an event that comes in by HTTP lets its user into a journey that was
// published; the user waits, goes one of two ways and gets one mail; one who buys
// meanwhile gets none.
func TestAJourney(t *testing.T) {
	e, db, _ := withJourney(t, 4, cartJourney, "thanks", "remind")
	const people = 60
	var attributes []string
	for n := range people {
		attributes = append(attributes, fmt.Sprintf(`{"external_id":"p%d","email":"p%d@example.com","plan":%q}`, n, n, []string{"gold", "free"}[n%2]))
	}
	track(t, e, `{"attributes":[`+strings.Join(attributes, ",")+`]}`)
	now := time.Now().UTC().Format(time.RFC3339)
	var events, purchases []string
	for n := range people {
		events = append(events, fmt.Sprintf(`{"external_id":"p%d","name":"cart","time":%q,"properties":{"items":%d}}`, n, now, n%5))
		if n%3 == 0 {
			purchases = append(purchases, fmt.Sprintf(`{"external_id":"p%d","product_id":"shoe","currency":"EUR","price":10,"time":%q}`, n, now))
		}
	}
	track(t, e, `{"events":[`+strings.Join(events, ",")+`]}`)
	track(t, e, `{"purchases":[`+strings.Join(purchases, ",")+`]}`)

	want := make(map[string]string)
	for n := range people {
		if n%5 > 0 && n%3 > 0 {
			want[fmt.Sprintf("p%d", n)] = []string{"thanks", "remind"}[n%2]
		}
	}
	got := func() map[string]string {
		found := make(map[string]string)
		for n := range people {
			name := fmt.Sprintf("p%d", n)
			for _, row := range sendsOf(t, db, name) {
				if found[name] != "" {
					t.Fatalf("%s has two mails", name)
				}
				found[name] = row.Tags
			}
		}
		return found
	}
	await(t, "everybody has a mail who is to get one", func() bool { return len(got()) >= len(want) })
	await(t, "those who have bought are out", func() bool {
		return counts(t, e, "journey/cart/pause/exited")+counts(t, e, "journey/cart/pause/passed") == 48
	})
	for name, template := range got() {
		if want[name] != template {
			t.Errorf("%s has the mail %q, want %q", name, template, want[name])
		}
	}
	await(t, "those who were thanked have it in their profile", func() bool {
		a, err := db.Users(t.Context(), user.Query{Keys: []user.Key{{Kind: user.KeyExternal, Name: "p2"}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range a.Users {
			return strings.Contains(row.Profile, `"thanked":true`)
		}
		return false
	})
}

// track calls /users/track.
func track(t *testing.T, e *engine.Engine, body string) {
	t.Helper()
	call(t, e, "/users/track", body)
}

// call calls the API and wants it taken in.
func call(t *testing.T, e *engine.Engine, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+e.Address()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+rootKey)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		t.Fatalf("%s answers %s", path, res.Status)
	}
}

// sendsOf are the mails of a user.
func sendsOf(t *testing.T, db *sqlstore.Store, name string) []mail.SendRow {
	t.Helper()
	a, err := db.Users(t.Context(), user.Query{Keys: []user.Key{{Kind: user.KeyExternal, Name: name}}})
	if err != nil {
		t.Fatal(err)
	}
	for id := range a.Users {
		rows, err := db.UserSends(t.Context(), id, mail.SendKey{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	return nil
}

// counts is a count of the series.
func counts(t *testing.T, e *engine.Engine, name string) (n int64) {
	t.Helper()
	now := time.Now()
	rows, err := e.Services().Series.Series(t.Context(), store.SeriesQuery{
		FromMillis: now.Add(-2 * time.Hour).UnixMilli(), ToMillis: now.Add(2 * time.Hour).UnixMilli(), Name: &name, Limit: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		n += r.Count
	}
	return n
}
