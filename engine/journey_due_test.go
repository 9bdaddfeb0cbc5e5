package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/config"
	"sluice/user"
)

const dueJourney = `
id: due
entry: {when: {event: cart}}
steps:
  - {id: react, wait_for: {within: %ds, paths: [{name: bought, when: {purchase: "*"}, next: thanks}], otherwise: remind}}
  - {id: thanks, message: {template: thanks, tags: thanks}}
  - {id: remind, message: {template: remind, tags: remind}}
exit_when: {event: quit}
`

// TestWhatWasAcceptedBeforeTheDueTime: the process that stores is gone while people buy, or
// quit, and until they are due. Nobody moves before another process stores what was
// accepted; then they thank who has bought, and remind who has done nothing.
func TestWhatWasAcceptedBeforeTheDueTime(t *testing.T) {
	for _, within := range []time.Duration{15 * time.Second, 2 * time.Minute} {
		if acceptedBeforeDue(t, within) {
			return
		}
		t.Logf("%s were not enough to hand all in", within) // as on a busy machine
	}
	t.Error("all attempts were too late: this test shows nothing")
}

// acceptedBeforeDue lets people be due after a time. It reports false if that was over before
// all was accepted.
func acceptedBeforeDue(t *testing.T, within time.Duration) bool {
	t.Helper()
	redis, database := sharedServers(t)
	roles := func(names ...string) func(*config.Config) { return func(c *config.Config) { c.Roles = names } }
	stores := open(t, redis, database, 2, roles(config.RoleStore))
	moves := open(t, redis, database, 2, roles(config.RoleIntake, config.RoleSend, config.RoleJourney))
	db := databaseOf(t, database, "thanks", "remind")
	publish(t, db, fmt.Sprintf(dueJourney, int(within.Seconds())))
	const people = 30
	began := time.Now()
	all(t, moves, people, "cart")
	await(t, "all are in the journey", func() bool { return counts(t, moves, "journey/due/react/entered") == people })
	if err := stores.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Format(time.RFC3339)
	want := make(map[string]string)
	var purchases, events []string
	for n := range people {
		name := fmt.Sprint("p", n)
		switch want[name] = "remind"; n % 3 {
		case 0:
			purchases = append(purchases, fmt.Sprintf(`{"external_id":%q,"product_id":"shoe","currency":"EUR","price":10,"time":%q}`, name, now))
			want[name] = "thanks"
		case 1:
			events = append(events, fmt.Sprintf(`{"external_id":%q,"name":"quit","time":%q}`, name, now))
			want[name] = ""
		}
	}
	track(t, moves, `{"purchases":[`+strings.Join(purchases, ",")+`],"events":[`+strings.Join(events, ",")+`]}`)
	if time.Since(began) > within {
		return false
	}
	id, _ := idOf(t, db, user.Key{Kind: user.KeyExternal, Name: "p2"})
	places, err := moves.Services().Journeys.PlacesOf(t.Context(), id)
	if err != nil || len(places) != 1 || places[0].Step != "react" {
		t.Fatalf("places are %+v, %v: somebody has moved", places, err)
	}
	due := time.UnixMilli(places[0].DueMillis)
	await(t, "they were due a while ago", func() bool { return time.Since(due) > 3*time.Second })
	if places, err = moves.Services().Journeys.PlacesOf(t.Context(), id); err != nil || len(places) != 1 || places[0].Step != "react" {
		t.Errorf("somebody moves while nobody stores: places are %+v, %v", places, err)
	}
	open(t, redis, database, 2, roles(config.RoleStore))
	await(t, "everybody has left the step", func() bool {
		const step = "journey/due/react/"
		return counts(t, moves, step+"passed")+counts(t, moves, step+"passed/bought")+counts(t, moves, step+"exited") == people
	})
	await(t, "all mail is stored", func() bool {
		return counts(t, moves, "journey/due/thanks/passed")+counts(t, moves, "journey/due/remind/passed") == people*2/3
	})
	for name, tags := range want {
		got := ""
		for _, row := range sendsOf(t, db, name) {
			got += row.Tags
		}
		if got != tags {
			t.Errorf("%s has the mail %q, want %q", name, got, tags)
		}
	}
	return true
}
