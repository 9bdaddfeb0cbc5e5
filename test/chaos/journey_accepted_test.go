package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// acceptedJourney has people wait for one of two things that they tell, and for nothing.
const acceptedJourney = `
id: accepted
entry: {when: {event: starts}}
steps:
  - id: react
    wait_for:
      within: 40s
      paths: [{name: told, when: {event: tells}, next: thanks}]
      otherwise: remind
  - {id: thanks, message: {from: shop@example.com, content: {subject: thanks, text: thanks}}}
  - {id: remind, message: {from: shop@example.com, content: {subject: remind, text: remind}}}
exit_when: {event: leaves}
`

const (
	acceptedPeople = 36
	acceptedAtOnce = 3 // of them, by one request

	// acceptedAway is for how long the database is away, and acceptedBefore how long before
	// the first of them is due it goes.
	acceptedAway   = 4 * time.Second
	acceptedBefore = 2500 * time.Millisecond
)

// strikeJourneyAccepted takes the database away from all three processes for four seconds in
// which people are due. Before that, and after the database has gone, they do something that
// decides which mail they get. It is accepted, and stored when they are late.
func strikeJourneyAccepted(r *round) {
	r.publishJourney(r.peers[0], "accepted", acceptedJourney)
	names := make([]string, acceptedPeople)
	var people []string
	for n := range names {
		names[n] = fmt.Sprintf("%saccepted%d", peoplePrefix, n)
		people = append(people, fmt.Sprintf(`{"external_id":%q,"email":"%s@example.net"}`, names[n], names[n]))
	}
	event := func(name, what string) string {
		return fmt.Sprintf(`{"external_id":%q,"name":%q,"time":%q}`, name, what, time.Now().UTC().Format(time.RFC3339))
	}
	hand := func(n int, what string, some []string) {
		for i := range some {
			some[i] = event(some[i], what)
		}
		r.ask(r.peers[n%len(r.peers)], "/users/track", `{"events":[`+strings.Join(some, ",")+`]}`, http.StatusCreated)
	}
	r.ask(r.peers[0], "/users/track", `{"attributes":[`+strings.Join(people, ",")+`]}`, http.StatusCreated)
	// Each process knows some of them. Few requests: all are in long before the first is due.
	for n := range acceptedPeople / acceptedAtOnce {
		first := n/len(r.peers)*len(r.peers)*acceptedAtOnce + n%len(r.peers)
		var some []string
		for i := range acceptedAtOnce {
			some = append(some, names[first+i*len(r.peers)])
		}
		hand(n, "starts", some)
	}
	dues := r.awaitDues(names)
	first := dues[names[0]]
	for _, due := range dues {
		if due.Before(first) {
			first = due
		}
	}
	pause(r.ctx, time.Until(first.Add(-acceptedBefore)))
	gone := time.Now()
	for _, p := range r.peers {
		p.base.Refuse(true)
		p.base.Cut()
	}
	told := make(map[string]time.Time)
	for n, name := range names {
		if what := []string{"tells", "leaves", ""}[n%3]; what != "" {
			hand(n/3, what, []string{name})
			told[name] = time.Now()
		}
	}
	pause(r.ctx, time.Until(gone.Add(acceptedAway)))
	for _, p := range r.peers {
		p.base.Refuse(false)
	}
	back, inTime, within := time.Now(), 0, 0
	for name, due := range dues {
		if at, does := told[name]; does && at.Before(due) {
			inTime++
		}
		if due.After(gone) && due.Before(back) {
			within++
		}
	}
	r.t.Logf("the database was away for %s; %d of %d were due meanwhile, and of %d who did something %d did it before", back.Sub(gone).Round(time.Millisecond), within, len(names), len(told), inTime)
	r.checks = append(r.checks, func() { r.checkAccepted(names, dues, told) })
}

// awaitDues waits until people are inside the journey, and returns when they are due.
func (r *round) awaitDues(names []string) map[string]time.Time {
	r.t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	dues := make(map[string]time.Time)
	r.await("all are in the journey", func() bool {
		for _, name := range names {
			if !dues[name].IsZero() {
				continue
			}
			req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.peers[0].at+"/v1/users/"+name+"/journeys", nil)
			r.do(err)
			req.Header.Set("Authorization", "Bearer "+httpRoot)
			res, err := client.Do(req)
			if err != nil {
				return false
			}
			text, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			var answer struct {
				Journeys []struct {
					Journey string
					Due     time.Time
				}
			}
			if json.Unmarshal(text, &answer) != nil {
				return false
			}
			for _, j := range answer.Journeys {
				if j.Journey == "accepted" {
					dues[name] = j.Due
				}
			}
			if dues[name].IsZero() {
				return false
			}
		}
		return true
	})
	return dues
}

// checkAccepted wants of each person the one mail that is decided by what was accepted before
// the person was due, once at the receiver. Who did something later may have either.
func (r *round) checkAccepted(names []string, dues, told map[string]time.Time) {
	r.t.Helper()
	r.awaitThrough(names, "accepted", true)
	r.drained()
	taken := r.relay.Counts()
	for n, name := range names {
		got := map[string]int{}
		for _, text := range r.texts("SELECT CONCAT(step, ' ', message, ' ', state) FROM sends WHERE journey = 'accepted' AND user_ref = '" + name + "'") {
			row := strings.Fields(text)
			got[row[0]] += taken["<"+row[1]+".0@example.com>"]
			if row[2] != "sent" {
				r.t.Errorf("%s: the mail of step %s is %s", name, row[0], row[2])
			}
		}
		want := map[string]int{"thanks": 1}
		switch at, does := told[name]; {
		case n%3 == 1:
			want = map[string]int{}
			if !at.Before(dues[name]) && got["remind"] == 1 {
				continue
			}
		case !does, !at.Before(dues[name]) && got["remind"] == 1:
			want = map[string]int{"remind": 1}
		}
		if !maps.Equal(got, want) {
			r.t.Errorf("%s, %s, was due at %s and did something at %s: got %v, want %v", name, []string{"tells", "leaves", "does nothing"}[n%3], dues[name], told[name], got, want)
		}
	}
}
