package chaos

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// People of strikeJourneyPeople: who is merged, into whom, and who is deleted.
const (
	peoplePrefix = "strike-"
	peopleEach   = 12
)

// strikeJourneyPeople merges and deletes people who are inside, at instants at which they
// wait, are in a lane or are being mailed, and kills a process meanwhile. The way of who
// was merged goes on as the survivor's: it is whole, and has each step once. Who was
// deleted gets nothing twice.
func strikeJourneyPeople(r *round) {
	for n := range peopleEach {
		var people, begins []string
		for _, kind := range []string{"merged", "kept", "deleted"} {
			name := fmt.Sprintf("%s%s%d", peoplePrefix, kind, n)
			people = append(people, fmt.Sprintf(`{"external_id":%q,"email":"%s@example.net","plan":"gold"}`, name, name))
			if kind != "kept" {
				begins = append(begins, fmt.Sprintf(`{"external_id":%q,"name":"begins","time":%q}`, name, time.Now().UTC().Format(time.RFC3339)))
			}
		}
		p := r.peers[r.random.IntN(len(r.peers))]
		r.ask(p, "/users/track", `{"attributes":[`+strings.Join(people, ",")+`]}`, http.StatusCreated)
		r.ask(p, "/users/track", `{"events":[`+strings.Join(begins, ",")+`]}`, http.StatusCreated)
		if n%4 == 0 {
			p.kill()
			r.start(p, "")
		}
		r.rest(0, 1500*time.Millisecond)
		r.ask(r.peers[n%len(r.peers)], "/users/merge", fmt.Sprintf(`{"merge_updates":[{"identifier_to_merge":{"external_id":"%[1]smerged%[2]d"},"identifier_to_keep":{"external_id":"%[1]skept%[2]d"}}]}`, peoplePrefix, n), http.StatusAccepted)
		r.ask(r.peers[n%len(r.peers)], "/users/delete", fmt.Sprintf(`{"external_ids":["%sdeleted%d"]}`, peoplePrefix, n), http.StatusCreated)
	}
	r.checks = append(r.checks, r.checkJourneyPeople)
}

func (r *round) checkJourneyPeople() {
	r.t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	last := ""
	r.awaitOr("all who were kept are through", func() bool {
		for n := range peopleEach {
			if last = r.insideOf(client, fmt.Sprintf("%skept%d", peoplePrefix, n), "tour", true); last != "" {
				return false
			}
		}
		return true
	}, func() string { return last + strings.Join(r.saidOfJourneys(), "\n") })
	r.drained()
	taken := r.relay.Counts()
	for n := range peopleEach {
		for _, of := range []string{"deleted", "merged"} {
			steps := map[string]int{}
			names := fmt.Sprintf("('%[1]s%[2]s%[3]d', '%[1]skept%[3]d')", peoplePrefix, of, n)
			if of == "deleted" {
				names = fmt.Sprintf("('%sdeleted%d')", peoplePrefix, n)
			}
			for _, text := range r.texts("SELECT CONCAT(step, ' ', message, ' ', state) FROM sends WHERE journey = 'tour' AND user_ref IN " + names) {
				row := strings.Fields(text)
				steps[row[0]]++
				if times := taken["<"+row[1]+".0@example.com>"]; times > 1 && row[0] != "hello" || times > 2 {
					r.t.Errorf("%s%s%d: the mail of step %s is %s and was taken %d times", peoplePrefix, of, n, row[0], row[2], times)
				}
			}
			if wrong := r.wrongWay(occurrence{journey: "tour", who: "j0"}, steps, of == "deleted"); wrong != "" {
				r.t.Errorf("%s%s%d went %v, which %s", peoplePrefix, of, n, steps, wrong)
			}
		}
	}
}
