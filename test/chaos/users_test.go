package chaos

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/user/profile"
)

const (
	// trackedUsers have an alias each. Of the first mergedUsers, each with an
	// even number is merged into the next one in the middle of the run.
	trackedUsers = 24
	mergedUsers  = 12
)

// tracked is what was sent for a user, or for two merged users.
type tracked struct{ accepted, unanswered int64 }

// TestRandomKillsWithUsers kills the program, Redis and the database while
// calls come. Each call increments an attribute of a user and reports an event
// and a purchase of that user, by external id or alias. Meanwhile users of
// different partitions are merged. A call that got no answer may be in or not,
// as a whole. Afterwards the increments, the counts in the profiles, the rows
// in events and the series are the same number. It lies between the calls
// accepted and the calls sent.
func TestRandomKillsWithUsers(t *testing.T) {
	t.Parallel()
	for _, base := range []string{onMariaDB, onPostgres} {
		t.Run(base, func(t *testing.T) {
			random := seeded(t)
			w := newWorldOn(t, base)
			w.writeConfig("root_key: " + httpRoot + "\n")
			w.start("")
			c := &clients{at: w.awaitListen()}
			w.makeTracked()
			sums := make([]tracked, trackedUsers)
			c.track(sums)
			done := w.killBeside(random, *kills/2, c)
			w.mergeTracked()
			done += w.killBeside(random, *kills-*kills/2, c)
			c.finish()
			t.Logf("%d kills, %d calls accepted, %d not answered with 201", done, c.accepted(), c.repeats)
			w.checkTracked(sums)
		})
	}
}

func (w *world) makeTracked() {
	w.t.Helper()
	for i := range trackedUsers {
		w.ask("/users/track", fmt.Sprintf(`{"attributes":[{"external_id":"u-%d","n":0}]}`, i), "", http.StatusCreated)
		w.ask("/users/alias/new", fmt.Sprintf(`{"user_aliases":[{"external_id":"u-%d","alias_label":"l","alias_name":"%d"}]}`, i, i), "", http.StatusCreated)
	}
	w.eventually("all have their aliases", func() bool { return w.highest("SELECT COUNT(*) FROM user_keys WHERE kind = 2") == trackedUsers })
}

func (w *world) mergeTracked() {
	w.t.Helper()
	for i := 0; i < mergedUsers; i += 2 {
		w.ask("/users/merge", fmt.Sprintf(`{"merge_updates":[{"identifier_to_merge":{"external_id":"u-%d"},"identifier_to_keep":{"external_id":"u-%d"}}]}`, i, i+1), "", http.StatusAccepted)
	}
}

// track has calls of one user each sent, and notes what became of them.
func (c *clients) track(sums []tracked) {
	random := make([]*rand.Rand, sendersAtOnce)
	for who := range random {
		random[who] = rand.New(rand.NewPCG(uint64(who), 2))
	}
	c.run(sendersAtOnce, func(client *http.Client, who, _ int) bool { return c.call(client, random[who], sums) })
}

// call sends one call, and reports whether to go on.
func (c *clients) call(client *http.Client, random *rand.Rand, sums []tracked) bool {
	user := random.IntN(trackedUsers)
	key := fmt.Sprintf(`"external_id":"u-%d"`, user)
	if random.IntN(2) == 0 {
		key = fmt.Sprintf(`"user_alias":{"alias_label":"l","alias_name":"%d"},"_update_existing_only":true`, user)
	}
	at := someHour(random).Format(time.RFC3339)
	body := fmt.Sprintf(`{"attributes":[{%s,"n":{"inc":1}}],"events":[{%s,"name":"e","app_id":"shop","time":%q}],"purchases":[{%s,"product_id":"p","currency":"EUR","price":1.5,"time":%q}]}`, key, key, at, key, at)
	to, _ := c.now()
	if post(client, to+"/users/track", body, "") == http.StatusCreated {
		return c.took(1, func() { sums[user].accepted++ })
	}
	return c.missed(func() { sums[user].unanswered++ }) // also what is refused as unavailable may be in
}

// drained waits until the store has applied all that is in the logs. An update
// that is forwarded is in no log for a moment, but then it is in forwards. So
// the logs are looked at again after that table was empty. No user is merged
// twice, so nothing is forwarded twice. To compare the numbers of stored and
// accepted calls would say too little: of the calls without an answer, many are
// stored as well.
func (w *world) drained() {
	w.t.Helper()
	r, err := flow.Dial(w.t.Context(), w.redis.URL())
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	w.eventually("the logs are applied", func() bool { return w.applied(r) })
	w.eventually("nothing is forwarded any more", func() bool { return w.highest("SELECT COUNT(*) FROM forwards") == 0 })
	w.eventually("what was forwarded is applied", func() bool { return w.applied(r) })
}

// applied reports whether the store's cursors are at the ends of the logs.
func (w *world) applied(r *flow.Redis) bool {
	for _, p := range flow.Partitions(partitions) {
		last, err := flow.NewLog(r, p).Last(w.t.Context())
		if err != nil {
			return false
		}
		query := "SELECT pos_major FROM cursors WHERE follower = 'store' AND part = " + strconv.Itoa(p.Number)
		at := sluice.Position{Major: uint64(w.highest(query)), Minor: uint64(w.highest(strings.Replace(query, "pos_major", "pos_minor", 1)))}
		if at != last {
			return false
		}
	}
	return true
}

// checkTracked waits until all is applied, and compares.
func (w *world) checkTracked(sums []tracked) {
	w.t.Helper()
	w.drained()
	for i := 1; i < mergedUsers; i += 2 {
		sums[i].accepted += sums[i-1].accepted
		sums[i].unanswered += sums[i-1].unanswered
	}
	all := w.profiles()
	if len(all) != trackedUsers-mergedUsers/2 {
		w.t.Errorf("%d users are left of %d, of whom %d were merged into others", len(all), trackedUsers, mergedUsers/2)
	}
	var sum int64
	for i, p := range all {
		merged := i < mergedUsers
		events, purchases := countOf(p.Events), countOf(p.Purchases)
		sum += events
		if events != purchases || !merged && p.Custom.Get("n") != fmt.Sprint(events) || events < sums[i].accepted || events > sums[i].accepted+sums[i].unanswered {
			w.t.Errorf("user %d: %d events, %d purchases, n is %s; %d calls accepted, %d without an answer", i, events, purchases, p.Custom.Get("n"), sums[i].accepted, sums[i].unanswered)
		}
	}
	rows := w.highest("SELECT COUNT(*) FROM events WHERE kind = 'custom'")
	if rows != sum {
		w.t.Errorf("%d events in profiles, %d rows", sum, rows)
	}
	for _, query := range []string{
		"SELECT COUNT(*) FROM events WHERE kind = 'purchase'",
		"SELECT COALESCE(SUM(count), 0) FROM series_hours WHERE kind = 'custom' AND name = 'e'",
		"SELECT COALESCE(SUM(count), 0) FROM series_days WHERE kind = 'purchase' AND name = 'p'",
	} {
		if n := w.highest(query); n != rows {
			w.t.Errorf("%d events, and %d by %s", rows, n, query)
		}
	}
	if n := w.highest("SELECT COUNT(*) FROM dead_letters"); n != 0 {
		w.t.Errorf("%d dead letters, want none", n)
	}
}

func countOf(all []profile.Tally) (n int64) {
	for _, t := range all {
		n += t.Count
	}
	return n
}

// profiles returns the remaining users by their number.
func (w *world) profiles() map[int]*profile.Profile {
	w.t.Helper()
	all := map[int]*profile.Profile{}
	for name, p := range profilesOf(w.t, w.db) {
		i, err := strconv.Atoi(name[len("u-"):])
		if err != nil {
			w.t.Fatal(err)
		}
		all[i] = p
	}
	return all
}

// profilesOf returns all users by their external ids.
func profilesOf(t *testing.T, db *sql.DB) map[string]*profile.Profile {
	t.Helper()
	all := map[string]*profile.Profile{}
	rows, err := db.QueryContext(t.Context(), "SELECT profile FROM users WHERE to_number = 0")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		p, err := profile.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all[p.ExternalID] = p
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
