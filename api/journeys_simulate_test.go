package api

import (
	"strings"
	"testing"

	"sluice/store"
	"sluice/user"
)

// A document, or the draft, is carried out in memory over made-up people, or over one user
// with the profile that there is.
func TestJourneySimulate(t *testing.T) {
	x := startJourneys(t)
	x.ask(t, "POST", "", welcomeJourney, 201, nil)
	type simulated struct {
		From, To       string
		People         int
		Entered, Mails int
		Steps          []struct{ ID string }
		Ways           []struct {
			Name  string
			Moves []struct{ What string }
		}
	}
	run := func(path, document string) (o simulated) {
		t.Helper()
		x.ask(t, "POST", path, document, 200, &o)
		return o
	}
	const month = "/welcome/simulate?from=2026-12-01T00:00:00Z"
	draft := run(month, "")
	if draft.People != 1000 || draft.Entered == 0 || draft.Mails == 0 || draft.To != "2026-12-31T00:00:00Z" || len(draft.Steps) == 0 || len(draft.Ways) == 0 || len(draft.Ways) > maxSimulatedWays {
		t.Errorf("%+v", draft)
	}
	if sent := run(month, welcomeJourney); sent.Entered != draft.Entered || sent.Mails != draft.Mails {
		t.Errorf("the document comes to %+v, the draft to %+v", sent, draft)
	}
	if more := run(month+"&people=2000&seed=2&opens=0&clicks=100", ""); more.People != 2000 || more.Entered <= draft.Entered {
		t.Errorf("%+v", more)
	}

	changes := &user.Changes{
		Put:     []user.Row{{ID: user.ID{Number: 77}, Profile: `{"external_id":"ann","fields":{"email":"ann@example.com"}}`}},
		AddKeys: []user.KeyRow{{Key: user.Key{Kind: user.KeyExternal, Name: "ann"}, ID: user.ID{Number: 77}}},
	}
	p, err := x.store.Prepare(&store.Effect{Users: changes})
	if err == nil {
		_, err = x.store.Apply(t.Context(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
	if one := run(month+"&user=ann&days=300", ""); one.People != 1 || one.Mails == 0 || len(one.Ways) != 1 || one.Ways[0].Name != "ann" {
		t.Errorf("%+v", one)
	}
	if none := run(month+"&user=ann&days=300&often=signup=0", ""); none.Entered != 0 || len(none.Ways) != 0 {
		t.Errorf("%+v", none)
	}
}

// A simulation is bounded, and what is wrong with what is asked for is said.
func TestJourneySimulateIsBounded(t *testing.T) {
	x := startJourneys(t)
	x.ask(t, "POST", "", welcomeJourney, 201, nil)
	for query, want := range map[string]string{
		"people=10001": "want 1 to 10000", "days=367": "want 1 to 366", "opens=101": "want 0 to 100", "from=tomorrow": "2026-12-01T00:00:00Z",
		"from=9999-12-31T00:00:00Z": "1970 to 2100", "from=0001-01-01T00:00:00Z": "1970 to 2100",
		"often=nothing=1": "asks for no event", "people=10000&often=signup=3000": "take fewer people", "user=nobody": "no such user", "by=email&user=a": "external_id or braze_id",
	} {
		status := 400
		if query == "user=nobody" {
			status = 404
		}
		var e struct{ Error struct{ Message string } }
		if x.ask(t, "POST", "/welcome/simulate?"+query, "", status, &e); !strings.Contains(e.Error.Message, want) {
			t.Errorf("%s: %q, want %q", query, e.Error.Message, want)
		}
	}
	x.ask(t, "POST", "/other/simulate", welcomeJourney, 400, nil)
	x.ask(t, "POST", "/other/simulate", "", 404, nil)
	x.ask(t, "POST", "/welcome/simulate", strings.Replace(welcomeJourney, `"steps"`, `"stepz"`, 1), 400, nil)
	long := `{"property":"a","is":"equals","value":"` + strings.Repeat("x", 60_000) + `"}` // people would have 366 MB of it
	large := strings.Replace(welcomeJourney, `"signup"`, `"signup","where":`+long, 1)
	x.ask(t, "POST", "/welcome/simulate?days=366", large, 400, nil)
	x.ask(t, "POST", "/welcome/simulate?people=100", large, 200, nil)
	x.s.simulations <- struct{}{}
	x.ask(t, "POST", "/welcome/simulate", "", 503, nil)
	<-x.s.simulations
	x.ask(t, "POST", "/welcome/simulate?people=1", "", 200, nil)
}
