package engine_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/config"
	"sluice/engine"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/servers"
)

// databaseOf opens a database beside engines that run on it: it may wait for what they write.
func databaseOf(t *testing.T, url string, templates ...string) *sqlstore.Store {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), url, sqlstore.Options{SessionTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, id := range templates {
		err := db.AddTemplate(t.Context(), mail.Template{ID: id, Name: id, Current: 1, Latest: 1}, mail.TemplateVersion{Template: id, Version: 1, Class: mail.ClassMarketing, Subject: id, Text: "Hello", From: "us@example.org"})
		if err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// publish publishes a journey.
func publish(t *testing.T, db *sqlstore.Store, text string) store.Journey {
	t.Helper()
	_, p, err := plan.LoadYAML(text, everything{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := db.AddJourney(t.Context(), store.Journey{ID: p.ID, Status: journey.StatusDraft, Draft: p.Canonical()})
	if err != nil {
		t.Fatal(err)
	}
	j.Status = journey.StatusLive
	if _, _, err := db.Publish(t.Context(), j, p.Canonical(), p.Names()); err != nil {
		t.Fatal(err)
	}
	return j
}

const readJourney = `
id: first-steps
entry: {when: {event: signup}}
steps:
  - {id: welcome, message: {template: welcome, tags: welcome}, next: read}
  - id: read
    wait_for: {within: 3d, paths: [{name: opened, when: {mail: opened, step: welcome}, next: tour}], otherwise: again}
  - {id: tour, message: {template: tour, tags: tour}}
  - {id: again, message: {template: again, tags: again}}
conversions: {name: read, when: {mail: clicked, journey: first-steps}, within: 7d}
`

const askJourney = `
id: ask
entry: {when: {event: asked}}
steps:
  - {id: read, split: {if: {mail: opened, journey: first-steps, step: welcome, is: less_than_x_days_ago, value: 3}, then: reader, else: other}}
  - {id: reader, message: {template: tour, tags: reader}}
  - {id: other, message: {template: again, tags: other}}
`

// TestWelcomeMailIsOpened: who opens the welcome mail goes another way than who does
// not, at once where it is waited for, and later where a rule asks. The events name the
// message and the address; a process is replaced in between.
func TestWelcomeMailIsOpened(t *testing.T) {
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "redis"), AppendFsync: "everysec"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop(context.Background()) })
	database := "sqlite:" + filepath.Join(t.TempDir(), "sluice.db")
	e := open(t, redis.URL(), database, 4)
	db := databaseOf(t, database, "welcome", "tour", "again")
	publish(t, db, readJourney)
	publish(t, db, askJourney)
	const people = 30
	all(t, e, people, "signup")
	tagged := func(tag string) (to map[int]mail.SendRow) {
		to = make(map[int]mail.SendRow)
		for n := range people {
			for _, row := range sendsOf(t, db, fmt.Sprintf("p%d", n)) {
				if row.Tags == tag && row.State == mail.SendSent {
					to[n] = row
				}
			}
		}
		return to
	}
	await(t, "everybody has the welcome mail", func() bool { return len(tagged("welcome")) == people })
	var events []string
	for n, row := range tagged("welcome") {
		if n%3 > 0 {
			events = append(events, fmt.Sprintf(`{"event": "open", "event_id": "o-%d", "email": %q, "message_id": %q, "time": %d}`, n, row.To, row.Message, time.Now().Unix()))
			events = append(events, events[len(events)-1]) // a repeat
		}
		if n%3 == 2 {
			events = append(events, fmt.Sprintf(`{"event": "click", "event_id": "c-%d", "user_id": "p%d", "message_id": "%s.0", "time": %d}`, n, n, row.Message, time.Now().Unix()))
		}
	}
	postAll(t, e, events)
	await(t, "those who have opened it have the tour", func() bool { return len(tagged("tour")) == people*2/3 })
	await(t, "clicks are conversions", func() bool { return counts(t, e, "journey/first-steps/converted/read") == people/3 })
	if err := e.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	e = open(t, redis.URL(), database, 4)
	all(t, e, people, "asked")
	await(t, "everybody has a mail by the rule", func() bool { return len(tagged("reader"))+len(tagged("other")) == people })
	for n := range people {
		for tag, want := range map[string]bool{"tour": n%3 > 0, "again": false, "reader": n%3 > 0, "other": n%3 == 0} {
			if _, got := tagged(tag)[n]; got != want {
				t.Errorf("person %d has the mail %s: %v, want %v", n, tag, got, want)
			}
		}
	}
}

// all has everybody do something.
func all(t *testing.T, e *engine.Engine, people int, event string) {
	t.Helper()
	var attributes, events []string
	now := time.Now().UTC().Format(time.RFC3339)
	for n := range people {
		attributes = append(attributes, fmt.Sprintf(`{"external_id":"p%d","email":"p%d@example.com"}`, n, n))
		events = append(events, fmt.Sprintf(`{"external_id":"p%d","name":%q,"time":%q}`, n, event, now))
	}
	track(t, e, `{"attributes":[`+strings.Join(attributes, ",")+`]}`)
	track(t, e, `{"events":[`+strings.Join(events, ",")+`]}`)
}

// postAll hands in events by /v1/events.
func postAll(t *testing.T, e *engine.Engine, events []string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+e.Address()+"/v1/events", strings.NewReader("["+strings.Join(events, ",")+"]"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+rootKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		answer, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		t.Fatalf("events are answered %s: %s", res.Status, answer)
	}
}

// TestCapsOfThreeProcesses: three processes share the partitions, one of them is stopped
// and replaced while two journeys send. Everybody gets as many
// mails as the cap allows: no more, and no fewer.
func TestCapsOfThreeProcesses(t *testing.T) {
	redis, url := sharedServers(t)
	capped := func(c *config.Config) {
		c.Caps = []config.Cap{{Name: "day", Messages: 3, Within: "1d", Class: "marketing"}}
	}
	const partitions, people = 6, 60
	engines := []*engine.Engine{open(t, redis, url, partitions, capped), open(t, redis, url, partitions, capped), open(t, redis, url, partitions, capped)}
	db := databaseOf(t, url, "x")
	for _, id := range []string{"a", "b"} {
		publish(t, db, fmt.Sprintf("\nid: %s\nentry: {when: {event: signup}, again_after: 0s}\nsteps:\n  - {id: one, message: {template: x}, next: wait}\n  - {id: wait, delay: {for: 1s}, next: two}\n  - {id: two, message: {template: x}}\n", id))
	}
	await(t, "all share the journeys", func() bool {
		for _, e := range engines {
			if e.Stats().Leases["journey"] != partitions/3 {
				return false
			}
		}
		return true
	})
	all(t, engines[0], people, "signup")
	if err := engines[2].Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	engines[2] = open(t, redis, url, partitions, capped)
	ended := func(rounds int64) bool {
		n := int64(0)
		for _, step := range []string{"a/two", "b/two"} {
			n += counts(t, engines[0], "journey/"+step+"/passed")
		}
		return n >= 2*people*rounds
	}
	await(t, "all have gone their ways", func() bool { return ended(1) })
	wantMails(t, db, people, 3)
	all(t, engines[1], people, "signup") // once more: the cap is reached
	await(t, "all have gone their ways again", func() bool { return ended(2) })
	wantMails(t, db, people, 3)
}

// wantMails waits until everybody's mail is stored, and checks how much it is.
func wantMails(t *testing.T, db *sqlstore.Store, people, want int) {
	t.Helper()
	for n := range people {
		name := fmt.Sprintf("p%d", n)
		await(t, "the mails are stored", func() bool { return len(sendsOf(t, db, name)) >= want })
		if got := len(sendsOf(t, db, name)); got != want {
			t.Errorf("%s has %d mails, want %d", name, got, want)
		}
	}
}
