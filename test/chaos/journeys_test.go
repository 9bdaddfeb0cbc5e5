package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tourJourney is what people go through in rounds of journeys: a mail, a wait of two
// seconds for one of two things, two choices, and a last mail. All mails say by their
// step which way it was.
const tourJourney = `
id: tour
entry: {when: {event: begins}, again_after: 0s}
steps:
  - {id: hello, message: {from: shop@example.com, content: {subject: hello, text: hello}, class: transactional}, next: read}
  - id: read
    wait_for:
      within: 2s
      paths:
        - {name: asked, when: {event: asks}, next: thanks}
        - {name: clicked, when: {mail: clicked, step: hello}, next: thanks}
      otherwise: nudge
  - {id: thanks, message: {from: shop@example.com, content: {subject: thanks, text: thanks}}, next: rest}
  - {id: nudge, message: {from: shop@example.com, content: {subject: nudge, text: nudge}}, next: rest}
  - {id: rest, delay: {for: 1s}, next: plan}
  - {id: plan, split: {if: {attribute: plan, is: equals, value: gold}, then: gold, else: draw}}
  - {id: gold, message: {from: shop@example.com, content: {subject: gold, text: gold}}, next: last}
  - id: draw
    random:
      paths:
        - {name: a, weight: 40, next: a}
        - {name: b, weight: 30, next: b}
        - {name: c, weight: 30, next: c}
  - {id: a, message: {from: shop@example.com, content: {subject: a, text: a}}, next: last}
  - {id: b, message: {from: shop@example.com, content: {subject: b, text: b}}, next: last}
  - {id: c, message: {from: shop@example.com, content: {subject: c, text: c}}, next: last}
  - {id: last, message: {from: shop@example.com, content: {subject: last, text: last}}}
exit_when: {event: quits}
conversions: {name: bought, when: {purchase: "*"}, within: 1d}
`

// callJourney is entered at a time, by all who are there then.
const callJourney = `
id: call
entry: {when: {at: %q, zone: UTC}, who: {attribute: early, is: equals, value: true}}
steps:
  - {id: wait, delay: {for: 1s}, next: call}
  - {id: call, message: {from: shop@example.com, content: {subject: call, text: call}}}
`

// What the number of a person says about it.
const (
	journeyQuits  = 7 // a multiple of it: quits a moment later
	journeyAgain  = 5 // is let in again and again
	journeyBuys   = 3
	journeyAsks   = 2
	journeyEarly  = 40 // people who are there before a scan
	journeyPerAsk = 4  // people a request
)

// journeyLoad is people who go through a journey while the round's fault strikes. Each
// is handed in again until it is accepted: who is inside is not let in, so a repeat
// changes nothing but for those of journeyAgain.
type journeyLoad struct {
	begun, quit, bought []accepted // by name; guarded by load.mu
	again               []string   // who may enter again
	scan                time.Time  // when the scan is; zero: there is none

	// Who came between the two may have come during a pause: nobody is let in then.
	pausedFrom, pausedTo time.Time
}

// prepareJourneys publishes journeys, and makes the people whom a scan finds.
func (r *round) prepareJourneys() {
	r.t.Helper()
	if !r.kind.journey {
		return
	}
	r.journeys = &journeyLoad{}
	all := []string{tourJourney}
	if next := time.Now().Truncate(time.Minute).Add(time.Minute); time.Until(next) > 5*time.Second && time.Until(next) < 35*time.Second {
		r.journeys.scan = next
		all = append(all, fmt.Sprintf(callJourney, next.UTC().Format("2006-01-02 15:04")))
		var people []string
		for n := range journeyEarly {
			people = append(people, fmt.Sprintf(`{"external_id":"early%d","email":"early%[1]d@example.net","early":true}`, n))
		}
		r.ask(r.peers[0], "/users/track", `{"attributes":[`+strings.Join(people, ",")+`]}`, http.StatusCreated)
	}
	for _, text := range all {
		id, _, _ := strings.Cut(strings.TrimPrefix(text, "\nid: "), "\n")
		r.publishJourney(r.peers[0], id, text)
	}
}

// sendYAML returns the status, 0 without an answer, and the answer.
func (r *round) sendYAML(p *peer, method, path, text string) (status int, answer []byte) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, requestWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.at+path, strings.NewReader(text))
	r.do(err)
	req.Header.Set("Authorization", "Bearer "+httpRoot)
	req.Header.Set("Content-Type", "application/yaml")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	answer, _ = io.ReadAll(res.Body)
	return res.StatusCode, answer
}

// enterJourney hands in people who enter, and what they do then.
func (l *load) enterJourney(random *rand.Rand, client *http.Client, name string) {
	_, count, _ := strings.Cut(name, "-")
	n, _ := strconv.Atoi(count)
	var attributes, begins, quits, buys, asks []string
	at := time.Now().UTC().Format(time.RFC3339)
	event := func(who, what string) string {
		return fmt.Sprintf(`{"external_id":%q,"name":%q,"time":%q}`, who, what, at)
	}
	var who, quit, bought []string
	for i := range journeyPerAsk {
		number := n*journeyPerAsk + i
		p := fmt.Sprintf("j%d", number)
		who = append(who, p)
		attributes = append(attributes, fmt.Sprintf(`{"external_id":%q,"email":"%s@example.net","plan":%q}`, p, p, journeyPlan(p)))
		begins = append(begins, event(p, "begins"))
		switch {
		case number%journeyQuits == 0:
			quits, quit = append(quits, event(p, "quits")), append(quit, p)
		case number%journeyAgain == 0:
			l.mu.Lock()
			l.r.journeys.again = append(l.r.journeys.again, p)
			l.mu.Unlock()
		case number%journeyBuys == 0:
			buys = append(buys, fmt.Sprintf(`{"external_id":%q,"product_id":"shoe","currency":"EUR","price":1,"time":%q}`, p, at))
			bought = append(bought, p)
		}
		if number%journeyAsks == 0 {
			asks = append(asks, event(p, "asks"))
		}
	}
	l.mu.Lock()
	if again := l.r.journeys.again; len(again) > 0 {
		begins = append(begins, event(again[random.IntN(len(again))], "begins"))
	}
	l.mu.Unlock()
	hand := func(body string, all *[]accepted, people []string) {
		if from, to, ok := l.deliver(random, client, "/users/track", body, "", http.StatusCreated, func([]byte) {}); ok {
			for _, p := range people {
				l.note(all, accepted{p, from, to})
			}
		}
	}
	l.handInEntries(random, client, who, attributes, begins)
	pause(l.ctx, time.Duration(random.IntN(500))*time.Millisecond)
	if len(asks) > 0 {
		hand(`{"events":[`+strings.Join(asks, ",")+`]}`, new([]accepted), nil)
	}
	if len(buys) > 0 {
		hand(`{"purchases":[`+strings.Join(buys, ",")+`]}`, &l.r.journeys.bought, bought)
	}
	if len(quits) > 0 {
		hand(`{"events":[`+strings.Join(quits, ",")+`]}`, &l.r.journeys.quit, quit)
	}
}

// handInEntries hands in people, and what has them enter. Who was accepted by a Redis that lost
// it enters without an address, and gets no mail. So the entry counts from the address on.
func (l *load) handInEntries(random *rand.Rand, client *http.Client, who, attributes, begins []string) {
	hand := func(kind string, all []string) (from, to time.Time, ok bool) {
		return l.deliver(random, client, "/users/track", `{"`+kind+`":[`+strings.Join(all, ",")+`]}`, "", http.StatusCreated, func([]byte) {})
	}
	from, _, ok := hand("attributes", attributes)
	if !ok {
		return
	}
	if _, to, ok := hand("events", begins); ok {
		for _, p := range who {
			l.note(&l.r.journeys.begun, accepted{p, from, to})
		}
	}
}

// journeyPlan is the plan of a person, by its name.
func journeyPlan(name string) string {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "j"))
	return []string{"gold", "free", "free"}[n%3]
}

// clickInJourney pushes clicks on mails that people have got to the list.
func (l *load) clickInJourney(_ *rand.Rand, _ *http.Client, name string) {
	ctx, cancel := context.WithTimeout(l.r.ctx, time.Second)
	defer cancel()
	rows, err := l.r.db.QueryContext(ctx, "SELECT message, to_address FROM sends WHERE journey = 'tour' AND step = 'hello' AND state = 'sent' ORDER BY accepted DESC LIMIT 5")
	if err != nil {
		return // the database is away
	}
	defer rows.Close()
	words := []string{"q_events"}
	for rows.Next() {
		var id, to string
		if rows.Scan(&id, &to) == nil {
			words = append(words, fmt.Sprintf(`{"event":"clicked","event_id":"%s","email":%q,"message_id":%q,"ts":%d}`, id+name, to, id, time.Now().Unix()))
		}
	}
	if len(words) > 1 {
		_ = l.r.client.Do(ctx, l.r.client.B().Arbitrary("RPUSH").Args(words...).Build()).Error()
	}
}

// pauseKnown is how long after a pause begins or ends all processes know of it and what
// was accepted before it has come to journeys.
const pauseKnown = 10 * time.Second

// mustEnter reports whether somebody whose entry was accepted must have been let in.
func (r *round) mustEnter(a accepted) bool {
	j := r.journeys
	return r.must(a) && (j.pausedFrom.IsZero() || a.to.Before(j.pausedFrom.Add(-pauseKnown)) || a.from.After(j.pausedTo.Add(pauseKnown)))
}

// restJourneys waits until nobody is inside who was let in, and all who were accepted
// have been in.
func (r *round) restJourneys() {
	r.t.Helper()
	if r.journeys == nil {
		return
	}
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	left := map[string]string{}
	all := map[string]bool{}
	for _, a := range r.journeys.begun {
		all[a.what] = all[a.what] || r.mustEnter(a)
	}
	for name := range all {
		left[name] = "tour"
	}
	if !r.journeys.scan.IsZero() {
		for n := range journeyEarly {
			name := fmt.Sprintf("early%d", n)
			left[name], all[name] = "call", true
		}
	}
	last := ""
	r.awaitOr("nobody is inside a journey any more", func() bool {
		for name := range left {
			if last = r.insideOf(client, name, left[name], all[name]); last != "" {
				last = name + ": " + last
				return false
			}
			delete(left, name)
		}
		return true
	}, func() string {
		return fmt.Sprintf("%d of %d are, or were never let in, such as %s\n%s", len(left), len(all), last, strings.Join(r.saidOfJourneys(), "\n"))
	})
	r.drained()
}

// insideOf says where somebody is who is to be through with a journey; "": through.
func (r *round) insideOf(client *http.Client, name, journey string, must bool) string {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.peers[0].at+"/v1/users/"+name+"/journeys", nil)
	r.do(err)
	req.Header.Set("Authorization", "Bearer "+httpRoot)
	res, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	var answer struct {
		Journeys []struct{ Journey, State string }
	}
	if res.StatusCode == http.StatusNotFound && !must {
		return ""
	}
	if res.StatusCode != http.StatusOK || json.Unmarshal(text, &answer) != nil {
		return fmt.Sprintf("answered %d: %.200s", res.StatusCode, text)
	}
	was := false
	for _, j := range answer.Journeys {
		if j.State == "inside" {
			return string(text)
		}
		was = was || j.Journey == journey
	}
	if !was && must {
		return "never let in; " + string(text)
	}
	return ""
}

// why is what a process says of somebody's way through the tour.
func (r *round) why(who string) string {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.peers[0].at+"/v1/journeys/tour/why?user="+who, nil)
	r.do(err)
	req.Header.Set("Authorization", "Bearer "+httpRoot)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return string(text)
}

// occurrence is one time that somebody was in a journey.
type occurrence struct {
	journey, who string
	times        int
}

// checkJourneys wants one whole way for each occurrence of each person, and each mail
// of it once, in the ledger and at the receiver.
func (r *round) checkJourneys() {
	r.t.Helper()
	if r.journeys == nil {
		return
	}
	taken, ways := r.relay.Counts(), map[occurrence]map[string]int{}
	rows, err := r.db.QueryContext(r.ctx, "SELECT journey, user_ref, occurrence, step, message, state, life FROM sends WHERE journey <> ''")
	r.do(err)
	defer rows.Close()
	for rows.Next() {
		var o occurrence
		var step, id, state, life string
		r.do(rows.Scan(&o.journey, &o.who, &o.times, &step, &id, &state, &life))
		if strings.HasPrefix(o.who, peoplePrefix) || o.who == "" {
			continue // strikeJourneyPeople looks at these, but for whom it has deleted
		}
		if ways[o] == nil {
			ways[o] = map[string]int{}
		}
		ways[o][step]++
		n := taken["<"+id+".0@example.com>"]
		doubted, repeatable := strings.Contains(life, `"in_doubt"`), r.ended != nil
		if again := r.forgot(id, accepted{}); n > 1 && n <= 1+again { // when it was made is not known
			r.doubled++
			repeatable = true
		}
		if n > 1 && !repeatable && (step != "hello" || !doubted || n > 2) || n == 0 && state == "sent" || !r.mayBe(state, o.who, n) {
			r.t.Errorf("%s: the mail %s of step %s is %s and was taken %d times:\n%s", o.who, id, step, state, n, life)
		}
	}
	r.do(rows.Err())
	quit, begun, must := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, a := range r.journeys.quit {
		quit[a.what] = true
	}
	for _, a := range r.journeys.begun {
		begun[a.what] = true
		must[a.what] = must[a.what] || r.mustEnter(a)
	}
	for o, steps := range ways {
		if wrong := r.wrongWay(o, steps, quit[o.who]); wrong != "" {
			r.t.Errorf("%s went %s for the %d. time, which %s", o.who, strings.Join(slices.Sorted(maps.Keys(steps)), ", "), o.times+1, wrong+": "+r.why(o.who))
		}
	}
	for name := range must {
		if must[name] && ways[occurrence{"tour", name, 0}]["hello"] != 1 && !quit[name] {
			r.t.Errorf("%s got %d first mails: %s", name, ways[occurrence{"tour", name, 0}]["hello"], r.why(name))
		}
	}
	if !r.journeys.scan.IsZero() {
		for n := range journeyEarly {
			if o := (occurrence{"call", fmt.Sprintf("early%d", n), 0}); ways[o]["call"] != 1 {
				r.t.Errorf("%s got %d calls", o.who, ways[o]["call"])
			}
		}
	}
	r.checkConversions()
	r.t.Logf("%d people, %d ways through journeys, a scan: %v", len(begun), len(ways), !r.journeys.scan.IsZero())
}

// mayBe reports whether a mail of a person may have ended so. What waits is cancelled
// when its person quits. A database that has gone back lacks somebody for a moment, and
// marketing mail for somebody unknown does not leave.
func (r *round) mayBe(state, who string, taken int) bool {
	switch n, err := strconv.Atoi(strings.TrimPrefix(who, "j")); state {
	case "sent", "in_doubt":
		return true
	case "cancelled":
		// A Redis that has gone back may have forgotten that it left.
		return (taken == 0 || r.putsBack()) && err == nil && n%journeyQuits == 0
	case "suppressed":
		return taken == 0 && !r.bodiesFrom.IsZero()
	}
	return false
}

// wrongWay says what is wrong with a way; "": nothing. If Redis goes back, somebody may
// go the other way out of a wait: what was clicked then comes to it at another time.
func (r *round) wrongWay(o occurrence, steps map[string]int, quit bool) string {
	for step, n := range steps {
		if n > 1 {
			return fmt.Sprintf("has the step %s %d times", step, n)
		}
	}
	if o.journey != "tour" {
		return ""
	}
	reads, chosen := steps["thanks"]+steps["nudge"], steps["gold"]+steps["a"]+steps["b"]+steps["c"]
	switch {
	case reads > 1 && !r.putsBack(), chosen > 1:
		return "are two ways"
	case (steps["gold"] > 0) != (journeyPlan(o.who) == "gold") && chosen > 0:
		return "is not the way of the plan " + journeyPlan(o.who)
	case chosen > 0 && reads == 0, reads > 0 && steps["hello"] == 0, steps["last"] > 0 && chosen == 0:
		return "lacks a step"
	case !quit && steps["last"] == 0:
		return "is not whole"
	}
	return ""
}

// checkConversions wants each purchase to count once: facts that are lost or told twice
// are seen by it. People leave steps as often as they come.
func (r *round) checkConversions() {
	r.t.Helper()
	if r.putsBack() {
		return // counts that Redis lost are lost
	}
	count := func(name string) int64 { return r.counted("tour/" + name) }
	buyers := map[string]bool{}
	for _, a := range r.journeys.bought {
		buyers[a.what] = true
	}
	if n := count("converted/bought"); n != int64(len(buyers)) && (r.journeys.pausedFrom.IsZero() || n > int64(len(buyers))) {
		r.t.Errorf("%d conversions are counted, %d people have bought", n, len(buyers))
	}
	for _, step := range []string{"hello", "read", "thanks", "nudge", "rest", "plan", "gold", "draw", "a", "b", "c", "last"} {
		if in, out := count(step+"/entered"), count(step+"/passed%")+count(step+"/exited"); in != out {
			r.t.Errorf("%d people came to %s, %d have left it", in, step, out)
		}
	}
}

// counted is how often something is counted of a journey, by its name and what it is.
func (r *round) counted(name string) int64 {
	return r.number("SELECT COALESCE(SUM(count), 0) FROM series_days WHERE kind = 'system' AND name LIKE 'journey/" + name + "'")
}
