package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// journeyMail is a mail of a journey: what the ledger says of it, and when the receiver took it.
type journeyMail struct {
	who, step, id, state, life string
	taken                      []time.Time
}

// journeyMails are the mails of a journey.
func (r *round) journeyMails(journey string) (all []journeyMail) {
	r.t.Helper()
	taken := make(map[string][]time.Time)
	for _, m := range r.relay.Mails() {
		taken[m.ID] = append(taken[m.ID], m.Taken)
	}
	rows, err := r.db.QueryContext(r.ctx, "SELECT user_ref, step, message, state, life FROM sends WHERE journey = '"+journey+"'")
	r.do(err)
	defer rows.Close()
	for rows.Next() {
		var m journeyMail
		r.do(rows.Scan(&m.who, &m.step, &m.id, &m.state, &m.life))
		m.taken = taken["<"+m.id+".0@example.com>"]
		all = append(all, m)
	}
	r.do(rows.Err())
	return all
}

// checkTaken wants a mail at the receiver as often as its row says. A transactional one that
// was in doubt is attempted once more.
func (r *round) checkTaken(m journeyMail, transactional bool) {
	r.t.Helper()
	most := 1
	if transactional && strings.Contains(m.life, `"in_doubt"`) {
		most = 2
	}
	n := len(m.taken)
	switch {
	case n > most,
		m.state == "sent" && n == 0,
		m.state == "cancelled" && n > 0,
		!slices.Contains([]string{"sent", "in_doubt", "cancelled"}, m.state):
		r.t.Errorf("%s: the mail %s of step %s is %s and was taken %d times:\n%s", m.who, m.id, m.step, m.state, n, m.life)
	}
}

// publishJourney makes a journey, or gives one that is there another draft, and publishes it.
func (r *round) publishJourney(p *peer, id, text string) {
	r.t.Helper()
	status, said := 0, []byte(nil)
	r.awaitOr("the journey "+id+" has its draft", func() bool {
		// What is there is asked each time: an attempt without an answer may be in.
		status, said = r.sendYAML(p, http.MethodGet, "/v1/journeys/"+id, "")
		var draft struct{ Revision int64 }
		switch {
		case status == http.StatusNotFound:
			status, said = r.sendYAML(p, http.MethodPost, "/v1/journeys", text)
			return status == http.StatusCreated
		case status == http.StatusOK && json.Unmarshal(said, &draft) == nil:
			status, said = r.sendYAML(p, http.MethodPut, fmt.Sprintf("/v1/journeys/%s?revision=%d", id, draft.Revision), text)
			return status == http.StatusOK
		}
		return false
	}, func() string { return fmt.Sprintf("It is answered %d: %.300s", status, said) })
	r.ask(p, "/v1/journeys/"+id+"/publish", "", http.StatusOK)
}

// handIn makes people known, and hands in something that all of them do.
func (r *round) handIn(p *peer, what string, names []string) {
	r.t.Helper()
	var people, events []string
	for _, name := range names {
		people = append(people, fmt.Sprintf(`{"external_id":%q,"email":"%s@example.net"}`, name, name))
		events = append(events, fmt.Sprintf(`{"external_id":%q,"name":%q,"time":%q}`, name, what, time.Now().UTC().Format(time.RFC3339)))
	}
	r.ask(p, "/users/track", `{"attributes":[`+strings.Join(people, ",")+`]}`, http.StatusCreated)
	r.ask(p, "/users/track", `{"events":[`+strings.Join(events, ",")+`]}`, http.StatusCreated)
}

// strikeNames are names of people whom the check of a strike looks at.
func strikeNames(group string, count int) []string {
	names := make([]string, count)
	for n := range names {
		names[n] = fmt.Sprintf("%s%s%d", peoplePrefix, group, n)
	}
	return names
}

// awaitThrough waits until none of these people is inside a journey. must: each has been in.
func (r *round) awaitThrough(names []string, journey string, must bool) {
	r.t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	last, through := "", 0
	r.awaitOr("all who were in the journey "+journey+" are through", func() bool {
		for ; through < len(names); through++ {
			if last = r.insideOf(client, names[through], journey, must); last != "" {
				last = names[through] + ": " + last
				return false
			}
		}
		return true
	}, func() string { return last + strings.Join(r.saidOfJourneys(), "\n") })
}
