package ingest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/lib/faults"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/users"
)

// people sends updates as the API does and looks users up.
type people struct {
	*bed
	e      *engine
	intake *ingest.Intake
}

func startPeople(b *bed) *people {
	b.Helper()
	return startPeopleWith(b, setup{writers: 2}) // people of one partition meet those of the other writer
}

func startPeopleWith(b *bed, s setup) *people {
	b.Helper()
	e := start(b, s)
	p := &people{bed: b, e: e}
	p.intake = &ingest.Intake{Writer: flow.NewWriter(e.logs, "test", 1<<28), Redis: e.redis, Partitions: len(e.logs), Clock: sluice.SystemClock{}, Stats: e.stats}
	return p
}

func (p *people) send(updates ...user.Update) {
	p.Helper()
	for i := range updates {
		if updates[i].TimeMillis == 0 {
			updates[i].TimeMillis = 1_700_000_000_000
		}
	}
	p.must(p.intake.Update(p.Context(), updates))
}

// who returns the user behind a key, following merges; nil: no user has it.
func (p *people) who(k user.Key) *profile.Profile {
	p.Helper()
	store := p.e.store.(user.Store)
	a, err := store.Users(p.Context(), user.Query{Keys: []user.Key{k}})
	p.must(err)
	if len(a.ByKey[k]) == 0 {
		return nil
	}
	row, ok := a.Owner(a.ByKey[k][0])
	if !ok {
		return nil
	}
	got, err := profile.Parse(row.Profile)
	p.must(err)
	return got
}

// awaitUser waits until a user is as wanted.
func (p *people) awaitUser(what string, k user.Key, ok func(*profile.Profile) bool) {
	p.Helper()
	p.eventually(what, func() bool {
		got := p.who(k)
		return got != nil && ok(got)
	})
}

func external(n int) user.Key {
	return user.Key{Kind: user.KeyExternal, Name: fmt.Sprint("u-", n)}
}

func attributes(k user.Key, body string) user.Update {
	return user.Update{Op: user.OpAttributes, Key: k, Body: body}
}

// A database goes back, under a process whose clock is behind. The logs have
// seen higher numbers of forwards than the next ones would get. They arrive.
func TestForwardsAfterAClockWasAhead(t *testing.T) {
	onEach(t, func(b *bed) {
		e := start(b, setup{})
		ahead := fmt.Sprint(time.Now().Add(time.Hour).UnixMilli() << 10)
		for from := range e.logs {
			for _, to := range e.logs {
				_, err := to.Append(b.Context(), fmt.Sprint("forward:", from), "", ahead, sluice.NewBatch(0), true)
				b.must(err)
			}
		}
		e.stop()
		p := startPeople(b)
		const n = 12
		for i := range n {
			p.send(attributes(external(i), fmt.Sprintf(`{"email":"u%d@example.com","n":1}`, i)))
		}
		for i := range n {
			mail := user.Key{Kind: user.KeyEmail, Name: fmt.Sprintf("u%d@example.com", i)}
			p.awaitUser("the user is found by the address", mail, func(*profile.Profile) bool { return true })
			p.send(attributes(mail, `{"n":{"inc":1}}`)) // from the partition of the address to that of the user
		}
		for i := range n {
			p.awaitUser("it has arrived", external(i), func(u *profile.Profile) bool { return u.Custom.Get("n") == "2" })
		}
	})
}

// Users are made, changed by every key that they have in whatever partition it
// lies, merged and erased.
func TestUsers(t *testing.T) {
	onEach(t, func(b *bed) {
		p := startPeople(b)
		const n = 12
		for i := range n {
			p.send(attributes(external(i), fmt.Sprintf(`{"email":"u%d@example.com","n":1}`, i)),
				user.Update{Op: user.OpAlias, Key: external(i), Body: user.AliasKey("l", fmt.Sprint(i)).Name})
		}
		for i := range n {
			p.awaitUser("the user has the alias", user.AliasKey("l", fmt.Sprint(i)), func(u *profile.Profile) bool { return u.ExternalID == external(i).Name })
		}
		for i := range n {
			mail := user.Key{Kind: user.KeyEmail, Name: fmt.Sprintf("u%d@example.com", i)}
			for _, k := range []user.Key{external(i), user.AliasKey("l", fmt.Sprint(i)), mail} {
				p.send(attributes(k, `{"n":{"inc":1}}`), user.Update{Op: user.OpEvent, Key: k, Name: "came", App: "shop"})
			}
		}
		for i := range n {
			p.awaitUser("all three have arrived", external(i), func(u *profile.Profile) bool { return u.Custom.Get("n") == "4" && u.Events[0].Count == 3 })
		}
		for i := range n / 2 {
			p.send(user.Update{Op: user.OpMerge, Key: external(i), Name: users.MergeName(external(n - 1 - i))})
		}
		for i := range n / 2 {
			p.awaitUser("both are one", external(i), func(u *profile.Profile) bool { return u.Events[0].Count == 6 && len(u.Aliases) == 2 })
		}
		for i := range n / 2 {
			p.send(user.Update{Op: user.OpDelete, Key: user.AliasKey("l", fmt.Sprint(n-1-i))})
		}
		p.eventually("nobody is left", func() bool { return b.count("user_keys") == 0 && b.count("forwards") == 0 })
		for _, table := range []string{"user_keys", "user_addresses", "forwards"} {
			if got := b.count(table); got != 0 {
				t.Errorf("%d rows in %s: %q", got, table, b.query("SELECT * FROM "+table))
			}
		}
		if got := b.query("SELECT COUNT(*) FROM users WHERE to_number = 0"); got[0] != "0" {
			t.Errorf("%s users are left", got[0])
		}
		b.checkCounts("events", 3*n, 0)
		if got := b.query("SELECT SUM(count) FROM series_hours WHERE name = 'came' AND kind = 'custom' AND app_id = 'shop'"); got[0] != fmt.Sprint(3*n) {
			t.Errorf("%s came", got[0])
		}
	})
}

// One call of Braze's API says several things of an address that it has just
// given to somebody, or that nobody has. They make one user. A state in a group
// of an address that nobody has waits for the user that gets the address.
func TestUsersByNewAddresses(t *testing.T) {
	onEach(t, func(b *bed) {
		p := startPeople(b)
		const n = 12
		mail := func(i int) user.Key {
			return user.Key{Kind: user.KeyEmail, Name: fmt.Sprintf("u%d@example.com", i)}
		}
		came := func(k, address user.Key) user.Update {
			return user.Update{Op: user.OpEvent, Key: k, Address: address, Name: "came"}
		}
		for i := range n {
			p.send(attributes(external(i), `{"email":"`+mail(i).Name+`"}`), came(external(i), mail(i)), came(external(i), mail(n+i)))
		}
		p.send(user.Update{Op: user.OpGroup, Key: mail(3 * n), Name: "g", Body: "unsubscribed"})
		for i := range 2 * n {
			p.awaitUser("the event is the user's", mail(i), func(u *profile.Profile) bool {
				return len(u.Events) == 1 && u.Events[0].Count == 1 && (u.ExternalID != "") == (i < n)
			})
		}
		p.eventually("it is remembered", func() bool { return p.who(mail(3*n)) != nil })
		if got := b.count("users"); got != 2*n+1 {
			b.Errorf("%d users, want %d", got, 2*n+1)
		}
		p.send(attributes(external(n), `{"email":"`+mail(3*n).Name+`"}`))
		p.awaitUser("the user has the state", external(n), func(u *profile.Profile) bool { return len(u.Groups) == 1 && !u.Groups[0].Subscribed })
	})
}

// Sessions that end anywhere apply each increment once, also those that were
// forwarded, and keep every event.
func TestUsersSurviveFailures(t *testing.T) {
	points := []string{"appended", "transaction", "committed", "forwarded"}
	onEachAlone(t, func(b *bed) {
		p := startPeople(b)
		const n, rounds = 8, 2
		alias := func(i int) user.Key { return user.AliasKey("l", fmt.Sprint(i)) }
		for i := range n {
			p.send(attributes(external(i), `{"n":0}`), user.Update{Op: user.OpAlias, Key: external(i), Body: alias(i).Name})
		}
		for i := range n {
			p.awaitUser("the user has the alias", alias(i), func(u *profile.Profile) bool { return true })
		}
		for round := range rounds {
			var spec []string
			for _, point := range points {
				spec = append(spec, fmt.Sprintf("%s=error,%d", point, round%3+1))
			}
			disarm, err := faults.Arm(strings.Join(spec, ";"))
			b.must(err)
			for i := range n {
				for _, k := range []user.Key{external(i), alias(i)} {
					p.insist(attributes(k, `{"n":{"inc":1}}`))
				}
			}
			for i := range n {
				p.awaitUser("each is counted once", external(i), func(u *profile.Profile) bool { return u.Custom.Get("n") == fmt.Sprint(2*(round+1)) })
			}
			disarm()
		}
		p.eventually("nothing is on its way", func() bool { return b.count("forwards") == 0 })
		for i := range n {
			if got := p.who(external(i)).Custom.Get("n"); got != fmt.Sprint(2*rounds) {
				t.Errorf("user %d has %s, want %d", i, got, 2*rounds)
			}
		}
		if !p.e.log.has("injected failure") {
			b.Error("nothing failed: this test shows nothing")
		}
	})
}

// insist sends an update until it is surely in. The writer repeats what has no
// answer by itself; what it refuses has not been written.
func (p *people) insist(u user.Update) {
	p.Helper()
	u.TimeMillis = 1_700_000_000_000
	for {
		err := p.intake.Update(p.Context(), []user.Update{u})
		if err == nil || !errors.Is(err, sluice.ErrFull) {
			p.must(err)
			return
		}
	}
}
