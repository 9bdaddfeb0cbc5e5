package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/config"
	"sluice/flow"
	"sluice/journey"
	"sluice/mail"
	"sluice/store/sqlstore"
	"sluice/test/servers"
)

const leavingJourney = `
id: %s
entry: {when: {event: %s}}
steps:
  - {id: remind, message: {template: remind, tags: %s}, next: %s}
  - {id: wait, delay: {for: 30d}}
exit_when: {purchase: "*"}
`

// TestMailOfWhoHasLeftIsCancelled: while mail of journeys waits behind a route that is
// stopped, people buy, or are deleted, or the journey is stopped or paused. What waits is
// cancelled, or held until the journey goes on; who is still inside, or has finished,
// gets it.
func TestMailOfWhoHasLeftIsCancelled(t *testing.T) {
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "redis"), AppendFsync: "everysec"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop(context.Background()) })
	database := "sqlite:" + filepath.Join(t.TempDir(), "sluice.db")
	e := open(t, redis.URL(), database, 2)
	db := databaseOf(t, database, "remind")
	for _, id := range []string{"inside", "finished", "paused", "stopped"} {
		next := "wait"
		if id == "finished" {
			next = "exit"
		}
		text := fmt.Sprintf(leavingJourney, id, id, id, next)
		if id == "finished" {
			text = strings.Replace(text, "  - {id: wait, delay: {for: 30d}}\n", "", 1)
		}
		publish(t, db, text)
	}
	route := mail.Selector{By: mail.SelectRoute, Value: config.SinkRoute}
	if err := e.Services().Operator.Stop(t.Context(), route, "test"); err != nil {
		t.Fatal(err)
	}
	await(t, "the sender knows of the stop", func() bool {
		routes := e.Stats().Routes
		return len(routes) > 0 && routes[len(routes)-1].Stopped
	})
	const people = 6
	for _, id := range []string{"inside", "finished", "paused", "stopped"} {
		all(t, e, people, id)
	}
	states := func(id string) (all string) {
		of := make([]string, people)
		for n := range people {
			of[n] = "none"
			for _, row := range sendsOf(t, db, fmt.Sprintf("p%d", n)) {
				if row.Tags == id {
					of[n] = row.State.String() + row.Reason
				}
			}
		}
		return strings.Join(of, " ")
	}
	each := func(state string) string { return strings.TrimSpace(strings.Repeat(state+" ", people)) }
	for _, id := range []string{"inside", "finished", "paused", "stopped"} {
		await(t, "mail waits of "+id, func() bool { return !strings.Contains(states(id), "none") })
		if got := states(id); got != each("waiting") {
			t.Fatalf("mail of %s: %s", id, got)
		}
	}

	setStatus(t, db, "paused", journey.StatusPaused)
	setStatus(t, db, "stopped", journey.StatusStopped)
	changed := time.Now()
	track(t, e, `{"purchases":[{"external_id":"p0","product_id":"shoe","currency":"EUR","price":10,"time":"2026-11-01T00:00:00Z"}]}`)
	await(t, "who has bought is out", func() bool { return counts(t, e, "journey/inside/wait/exited") == 1 })
	await(t, "what the sender knows of journeys is newer: it is half a second old at most", func() bool { return time.Since(changed) > time.Second })
	if _, err := e.Services().Operator.Resume(t.Context(), route); err != nil {
		t.Fatal(err)
	}
	gone := "cancelledexited inside/remind"
	await(t, "mail leaves to those who are inside", func() bool {
		return states("inside") == gone+strings.TrimSuffix(" "+each("sent"), " sent")
	})
	await(t, "mail leaves to those who have finished", func() bool { return states("finished") == each("sent") })
	await(t, "mail of the stopped journey is cancelled", func() bool { return states("stopped") == each("cancelledexited stopped/remind") })
	asked := flowRedis(t, redis.URL())
	await(t, "mail of the paused journey waits apart", func() bool { return waitingIn(t, asked, "journey:paused") == people })
	if got := states("paused"); got != each("waiting") {
		t.Errorf("mail of the paused journey: %s", got)
	}
	setStatus(t, db, "paused", journey.StatusLive)
	await(t, "mail of the paused journey leaves when it goes on", func() bool {
		return states("paused") == "cancelledexited paused/remind"+strings.TrimSuffix(" "+each("sent"), " sent")
	})
}

// setStatus changes the status of a journey as the desk does.
func setStatus(t *testing.T, db *sqlstore.Store, id, status string) {
	t.Helper()
	j, err := db.Journey(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	j.Status = status
	if _, err := db.PutStatus(t.Context(), j); err != nil {
		t.Fatal(err)
	}
}

// flowRedis is a connection of a test's own.
func flowRedis(t *testing.T, url string) []*flow.Lanes {
	t.Helper()
	r, err := flow.Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	var lanes []*flow.Lanes
	for _, p := range flow.Partitions(2) {
		lanes = append(lanes, flow.NewLog(r, p).Lanes())
	}
	return lanes
}

// waitingIn is how many mails wait in the sublanes of a name.
func waitingIn(t *testing.T, lanes []*flow.Lanes, name string) (n int64) {
	t.Helper()
	for _, l := range lanes {
		waiting, err := l.Waiting(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for lane, of := range waiting {
			if strings.HasSuffix(lane, "@"+name) {
				n += of
			}
		}
	}
	return n
}
