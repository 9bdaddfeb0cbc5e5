package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
)

// reactionTime is when the mails of the test were sent.
var reactionTime = time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC)

// reacted fills a store: ten mails of a campaign, of which one was refused and one came
// back, and two of a step. Machines open four, people two of those, and click one.
func reacted(t *testing.T, p *program) {
	t.Helper()
	db := p.series.(store.Store)
	if _, err := db.Cursors(t.Context(), "store", []int{0}); err != nil {
		t.Fatal(err)
	}
	var e store.Effect
	key := func(n int) mail.SendKey {
		return mail.SendKey{Message: fmt.Sprintf("%012x%020x", reactionTime.UnixMilli(), n)}
	}
	for n := range 12 {
		s := mail.Send{Message: key(n).Message, Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, AcceptedMillis: reactionTime.UnixMilli(), To: "a@example.com", Tags: "spring"}
		if n >= 10 {
			s.Tags, s.Journey, s.Step, s.Variant = "", "welcome", "hello", "b"
		}
		o := mail.StoredOutcome{Outcome: mail.Outcome{Message: s.Message, Recipients: 1, Was: mail.SendWaiting, State: mail.SendSent, TimeMillis: s.AcceptedMillis, Attempts: 1, Tags: s.Tags}}
		if n == 0 {
			o.State, o.Bounced = mail.SendFailed, mail.ReactionBouncedBlock
		}
		e.Sends, e.Outcomes = append(e.Sends, mail.StoredSend{Send: s}), append(e.Outcomes, o)
	}
	react := func(n int, kind mail.ReactionKind, machine bool, link int) {
		place := sluice.Place{Position: sluice.Position{Major: 1}, Index: len(e.Reactions)}
		e.Reactions = append(e.Reactions, mail.Reaction{SendKey: key(n), Kind: kind, Machine: machine, Link: link, Own: link != 0, Judged: link != 0, First: link != 0,
			TimeMillis: reactionTime.Add(time.Hour).UnixMilli(), Place: place})
	}
	react(1, mail.ReactionBouncedHard, false, 0)
	for n := 2; n < 6; n++ {
		react(n, mail.ReactionOpened, true, 0)
	}
	react(2, mail.ReactionOpened, false, 0)
	react(3, mail.ReactionOpened, false, 0)
	react(3, mail.ReactionOpened, false, 0)
	react(2, mail.ReactionClicked, false, 7)
	react(4, mail.ReactionComplained, false, 0)
	react(4, mail.ReactionDelivered, false, 0)
	react(4, mail.ReactionUnsubscribed, false, 0)
	e.Moves = []store.Move{{Follower: "store", To: sluice.Position{Major: 1}}}
	prepared, err := db.Prepare(&e)
	if err == nil {
		_, err = db.Apply(t.Context(), prepared)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Counts of people and of anybody stand side by side, with rates of what was delivered,
// told apart as is asked for.
func TestReactions(t *testing.T) {
	_, at, p, _ := startBraze(t, Options{RootKey: testRoot})
	reacted(t, p)
	get := func(query string) (status int, a reactionsAnswer, text string) {
		t.Helper()
		got := callBraze(t, at+"/v1/reactions?"+query, http.MethodGet, "Bearer "+testRoot, "")
		if got.status == http.StatusOK {
			if err := json.Unmarshal([]byte(got.body), &a); err != nil {
				t.Fatal(err)
			}
		}
		return got.status, a, got.body
	}
	const march = "from=2026-03-01&to=2026-03-03"
	_, a, text := get(march + "&by=campaign&campaign=spring")
	if len(a.Reactions) != 1 {
		t.Fatal(text)
	}
	const spring = `{"campaign":"spring","sent":9,"refused":1,"delivered":8,"confirmed":1,"bounced":{"hard":1,"soft":0,"block":1,"other":0},"complained":1,"unsubscribed":1,` +
		`"bounce_rate":0.2,"complaint_rate":0.125,"unsubscribe_rate":0.125,` +
		`"raw":{"opened":4,"opens":7,"clicked":1,"clicks":1,"open_rate":0.5,"click_rate":0.125,"click_to_open_rate":0.25},` +
		`"human":{"opened":2,"opens":3,"clicked":1,"clicks":1,"open_rate":0.25,"click_rate":0.125,"click_to_open_rate":0.5}}`
	if !strings.Contains(text, "["+spring+"]") {
		t.Errorf("got %s\nwant %s", text, spring)
	}
	for query, want := range map[string]string{
		march:                                       "sent 11 opened 4/2 clicked 1/1",
		march + "&by=journey,step,variant":          " .  .  sent 9 opened 4/2 clicked 1/1; welcome . hello . b sent 2 opened 0/0 clicked 0/0",
		march + "&by=link&campaign=spring":          "#0 sent 9 opened 4/2 clicked 0/0; #7 sent 0 opened 0/0 clicked 1/1",
		march + "&by=machine&link=0&step=":          "false sent 9 opened 0/2 clicked 0/0; true sent 0 opened 4/0 clicked 0/0",
		march + "&by=hour":                          "2026-03-01T23:00:00Z sent 11 opened 0/0 clicked 0/0; 2026-03-02T00:00:00Z sent 0 opened 4/2 clicked 1/1",
		march + "&by=day":                           "2026-03-01T00:00:00Z sent 11 opened 0/0 clicked 0/0; 2026-03-02T00:00:00Z sent 0 opened 4/2 clicked 1/1",
		march + "&by=day&tz=Europe/Berlin":          "2026-03-02T00:00:00+01:00 sent 11 opened 4/2 clicked 1/1",
		"from=2026-03-02&to=2026-03-03":             "sent 0 opened 4/2 clicked 1/1",
		march + "&journey=":                         "sent 9 opened 4/2 clicked 1/1",
		march + "&campaign=autumn":                  "",
		march + "&campaign=spring&variant=b":        "",
		march + "&by=campaign&journey=welcome":      " sent 2 opened 0/0 clicked 0/0",
		march + "&link=7":                           "sent 0 opened 0/0 clicked 1/1",
		march + "&by=hour,campaign&step=" + "hello": "2026-03-01T23:00:00Z  sent 2 opened 0/0 clicked 0/0",
	} {
		status, a, text := get(query)
		var got []string
		for _, r := range a.Reactions {
			got = append(got, groupText(&r.reactionGroup)+fmt.Sprintf("sent %d opened %d/%d clicked %d/%d", r.Sent, r.Raw.Opened, r.Human.Opened, r.Raw.Clicked, r.Human.Clicked))
		}
		if status != http.StatusOK || strings.Join(got, "; ") != want {
			t.Errorf("%s: %d %.200s\n%q, want\n%q", query, status, text, strings.Join(got, "; "), want)
		}
	}
	for query, want := range map[string]string{
		"by=moon":                              "by has",
		"by=hour,day":                          "beside a day",
		"link=-1":                              "link is",
		"app_id=x":                             "not known",
		"campaign=" + strings.Repeat("x", 129): "campaign has more than 128 bytes",
		"campaign=" + url.QueryEscape("\xff"):  "not UTF-8",
		"tz=Moon":                              "tz is",
		"from=2026-03-03&to=2026-03-01":        "from is not before to",
	} {
		if status, _, text := get(query); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want 400 with %q", query, status, text, want)
		}
	}
}

// groupText is what a row is of.
func groupText(g *reactionGroup) string {
	text := g.Time
	if text != "" {
		text += " "
	}
	for _, part := range []*string{g.Campaign, g.Journey, g.Step, g.Variant} {
		if part != nil {
			text += *part + " "
			if part != g.Campaign && part != g.Variant {
				text += ". "
			}
		}
	}
	if g.Link != nil {
		text += fmt.Sprint("#", *g.Link, " ")
	}
	if g.Machine != nil {
		text += fmt.Sprint(*g.Machine, " ")
	}
	return text
}
