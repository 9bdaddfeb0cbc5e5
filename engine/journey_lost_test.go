package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice/config"
	"sluice/flow"
	"sluice/mail"
	"sluice/test/servers"
	"sluice/test/sink"
	"sluice/user"
)

const lostJourney = `
id: lost
entry: {when: {event: signup}}
steps:
  - {id: first, message: {template: hello, tags: first}, next: pause}
  - {id: pause, delay: {for: 45s}, next: second}
  - {id: second, message: {template: hello, tags: second}, next: end}
  - {id: end, delay: {for: 1h}}
`

// TestRedisIsEmptiedInAWave: Redis loses all in the middle of a wave. Nobody loses the
// place in the journey, everybody goes one way once, and no mail is sent twice.
func TestRedisIsEmptiedInAWave(t *testing.T) {
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "redis"), AppendFsync: "everysec"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop(context.Background()) })
	relay, err := sink.Start(sink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Close() })
	database := "sqlite:" + filepath.Join(t.TempDir(), "sluice.db")
	e := open(t, redis.URL(), database, 2, func(cfg *config.Config) {
		cfg.Sending, cfg.Domains.Check, cfg.AcceptGaps = "on", false, true
		cfg.Routes = []config.Route{{Name: "relay", SMTP: config.SMTPRoute{URL: config.URL("smtp://" + relay.Addr()), Plain: true, Connections: 1, Window: 4}}}
	})
	db := databaseOf(t, database)
	err = db.AddTemplate(t.Context(), mail.Template{ID: "hello", Name: "hello", Current: 1, Latest: 1}, mail.TemplateVersion{Template: "hello", Version: 1, Class: mail.ClassTransactional, Subject: "Hello", Text: "Hello", From: "us@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, db, lostJourney)
	const people = 300
	var attributes, events []string
	now := time.Now().UTC().Format(time.RFC3339)
	for n := range people {
		attributes = append(attributes, fmt.Sprintf(`{"external_id":"p%d","email":"p%d@example.com"}`, n, n))
		events = append(events, fmt.Sprintf(`{"external_id":"p%d","name":"signup","time":%q}`, n, now))
	}
	for from := 0; from < people; from += 50 {
		track(t, e, `{"attributes":[`+strings.Join(attributes[from:from+50], ",")+`]}`)
	}
	for from := 0; from < people; from += 50 {
		track(t, e, `{"events":[`+strings.Join(events[from:from+50], ",")+`]}`)
	}
	await(t, "all have the first mail, and the database where they are", func() bool {
		all, err := db.Checkpoints(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		saved := 0
		for i := range all {
			if strings.Contains(all[i].Notes, flow.FactsNote) {
				saved++
			}
		}
		return relay.Received() >= people && saved == 2
	})
	await(t, "the second wave is in its middle", func() bool { return relay.Received() >= people+people/4 })
	option, err := rueidis.ParseURL(redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Do(t.Context(), client.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	await(t, "everybody has gone on", func() bool {
		keys := make([]user.Key, people)
		for n := range people {
			keys[n] = user.Key{Kind: user.KeyExternal, Name: fmt.Sprintf("p%d", n)}
		}
		a, err := db.Users(t.Context(), user.Query{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		done := 0
		for id := range a.Users {
			places, err := e.Services().Journeys.PlacesOf(t.Context(), id)
			if err == nil && len(places) == 1 && places[0].Step == "end" && places[0].Occurrence == 0 {
				done++
			}
		}
		return done == people
	})
	await(t, "each mail is sent, or in doubt", func() bool {
		ended := 0
		for n := range people {
			rows := sendsOf(t, db, fmt.Sprintf("p%d", n))
			if len(rows) > 2 {
				t.Fatalf("p%d has %d mails", n, len(rows))
			}
			for i := range rows {
				if rows[i].State == mail.SendSent || rows[i].State == mail.SendInDoubt {
					ended++
				}
			}
		}
		return ended == 2*people
	})
	t.Logf("%d mails were sent", relay.Received())
	if n := relay.Duplicates(); n > 0 {
		t.Errorf("%d mails were sent twice", n)
	}
}
