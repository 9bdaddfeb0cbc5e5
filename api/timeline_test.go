package api

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
)

// people are those of TestPeople: ann has much behind her.
func (x *journeys) people(t *testing.T) {
	t.Helper()
	const base = 1_772_440_000_000
	var changes user.Changes
	add := func(number int64, p *profile.Profile, address string) {
		id := user.ID{Partition: 1, Number: number}
		p.SetAttributes(fmt.Sprintf(`{"email":%q,"first_name":"N%d"}`, address, number), base)
		changes.Put = append(changes.Put, user.Row{ID: id, UpdatedMillis: base + 60_000, Profile: string(p.Append(nil))})
		changes.AddAddress = append(changes.AddAddress, user.KeyRow{Key: user.Key{Kind: user.KeyEmail, Name: address}, ID: id})
		for _, k := range append([]user.Key{{Kind: user.KeyExternal, Name: p.ExternalID}}, aliasKeys(p)...) {
			changes.AddKeys = append(changes.AddKeys, user.KeyRow{Key: k, ID: id})
		}
	}
	ann := &profile.Profile{ExternalID: "ann-1", CreatedMillis: base, Aliases: []profile.Alias{{Label: "shop", Name: "A 1"}}}
	ann.CountEvent("order", base+20_000)
	ann.SetGroup("news", true, base+30_000)
	add(2, ann, "ann@example.com")
	add(3, &profile.Profile{ExternalID: "ann-2", CreatedMillis: base}, "other@example.com")
	add(4, &profile.Profile{ExternalID: "annex@example.com", CreatedMillis: base}, "zoe@example.com")
	e := store.Effect{Users: &changes, Events: []store.StoredEvent{{
		Place: sluice.Place{Partition: 1, Position: sluice.Position{Major: base + 20_001, Minor: 1}},
		Event: sluice.Event{Kind: sluice.KindCustom, Name: "order", ID: "e1", User: "ann-1", TimeMillis: base + 20_000, Properties: `{"total":12.5}`},
	}}}
	e.Sends = []mail.StoredSend{{Send: mail.Send{Message: fmt.Sprintf("%012x%020x", base+40_000, 1), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, AcceptedMillis: base + 40_000, From: "s@example.com", To: "ann@example.com", User: "ann-1"}, Place: sluice.Place{Partition: 1, Position: sluice.Position{Major: 9}}}}
	e.Suppress = []mail.Suppression{{Entry: "ann@example.com", Reason: mail.SuppressManual, Source: "cli", TimeMillis: base + 50_000}}
	prepared, err := x.store.Prepare(&e)
	if err == nil {
		_, err = x.store.Apply(t.Context(), prepared)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func aliasKeys(p *profile.Profile) (keys []user.Key) {
	for _, a := range p.Aliases {
		keys = append(keys, user.AliasKey(a.Label, a.Name))
	}
	return keys
}

// A person's timeline has what is known of the person in one list, by kind if asked for,
// and only those see it who may see profiles.
func TestTimeline(t *testing.T) {
	x := startJourneys(t)
	x.people(t)
	x.ask(t, "POST", "", welcomeJourney, 201, nil)
	x.ask(t, "POST", "/welcome/publish", "", 200, nil)
	_, text := addKey(t, x.store, "people:read")
	bearer := "Bearer " + text
	at := strings.TrimSuffix(x.url, journeysPath) + usersPath
	type answer struct {
		Entries []entryShown
		Next    string
	}
	ask := func(query string, want int) (a answer) {
		t.Helper()
		callJSON(t, at+query, "GET", bearer, "", want, &a)
		return a
	}
	said := func(a answer) string {
		var words []string
		for _, e := range a.Entries {
			words = append(words, string(e.Kind)+" "+e.What)
		}
		return strings.Join(words, ", ")
	}
	const all = "journey Wel 🌍, consent manual, mail waiting, consent news, event order, change created"
	if got := said(ask("/ann-1/timeline", 200)); got != all {
		t.Errorf("got %s\nwant %s", got, all)
	}
	var paged []string
	for next, pages := "", 0; ; pages++ {
		a := ask("/ann-1/timeline?limit=1"+next, 200)
		if said(a) != "" {
			paged = append(paged, said(a))
		}
		if next = "&before=" + url.QueryEscape(a.Next); a.Next == "" || pages > 20 {
			break
		}
	}
	if got := strings.Join(paged, ", "); got != all {
		t.Errorf("in pages: %s", got)
	}
	if got := said(ask("/ann-1/timeline?kinds=mail,change", 200)); got != "mail waiting, change created" {
		t.Errorf("mail and changes: %s", got)
	}
	if e := ask("/ann-1/timeline?kinds=event", 200).Entries; len(e) != 1 || string(e[0].Event.Properties) != `{"total":12.5}` || e[0].Event.Kind != "custom" {
		t.Errorf("events: %+v", e)
	}
	for path, want := range map[string]int{"/ann-1/timeline?kinds=mails": 400, "/ann-1/timeline?before=x": 400, "/ann-1/timeline?limit=201": 400, "/nobody/timeline": 404, "/ann-1/timeline?by=email": 400} {
		ask(path, want)
	}
	callJSON(t, at+"/ann-1/timeline", "GET", x.read, "", 403, nil)
}

// People are found by what they are called, whole, and by how an id or an address begins.
func TestFindUsers(t *testing.T) {
	x := startJourneys(t)
	x.people(t)
	_, text := addKey(t, x.store, "people:read")
	at := strings.TrimSuffix(x.url, journeysPath) + usersPath
	for _, tt := range []struct {
		query, want string
		more        bool
	}{
		{"q=ann", "ann-1 by external_id, ann-2 by external_id, annex@example.com by external_id", false},
		{"q=ann-2", "ann-2 by external_id", false},
		{"q=ANN@Ex", "ann-1 by email", false},
		{"q=ann&limit=2", "ann-1 by external_id, ann-2 by external_id", true},
		{"q=zoe", "annex@example.com by email", false},
		{"q=shop:A 1", "ann-1 by alias", false},
		{"q=shop:a 1", "", false},
		{"q=000000010000000000000003", "ann-2 by braze_id", false},
		{"q=nn-", "", false},
		{"q=100%", "", false},
	} {
		var a struct {
			Users []foundShown
			More  bool
		}
		callJSON(t, at+"?"+strings.NewReplacer(" ", "%20", "%", "%25").Replace(tt.query), "GET", "Bearer "+text, "", 200, &a)
		var got []string
		for _, u := range a.Users {
			got = append(got, u.ExternalID+" by "+u.By)
		}
		if strings.Join(got, ", ") != tt.want || a.More != tt.more {
			t.Errorf("%s: %v, %v, want %s, %v", tt.query, got, a.More, tt.want, tt.more)
		}
	}
	for _, query := range []string{"", "?q=", "?q=%00", "?q=a&limit=101", "?q=" + strings.Repeat("a", 256)} {
		callJSON(t, at+query, "GET", "Bearer "+text, "", 400, nil)
	}
	callJSON(t, at+"?q=a", "GET", x.read, "", 403, nil)
}

// timed is users whose reads have to have an end.
type timed struct{ user.Store }

func (s timed) Users(ctx context.Context, q user.Query) (user.Answer, error) {
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > peopleReadTimeout {
		return user.Answer{}, errors.New("it may take for ever")
	}
	return s.Store.Users(ctx, q)
}

// A look for people ends, so that a database that hangs does not keep all looks.
func TestLooksForPeopleEnd(t *testing.T) {
	db := openKeys(t)
	_, text := addKey(t, db, "people:read")
	_, url := start(t, &program{keys: db, users: timed{db}})
	callJSON(t, url+usersPath+"?q=ann", "GET", "Bearer "+text, "", 200, &struct{ Users []foundShown }{})
}
