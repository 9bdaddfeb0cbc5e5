package ingest_test

import (
	"fmt"
	"strconv"
	"testing"

	"sluice"
	"sluice/ingest"
	"sluice/lib/faults"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/users"
)

// counted returns how often a user did something, and from when to when.
func counted(u *profile.Profile, name string) (count, first, last int64) {
	if u == nil {
		return 0, 0, 0
	}
	for _, e := range u.Events {
		if e.Name == name {
			return e.Count, e.FirstMillis, e.LastMillis
		}
	}
	return 0, 0, 0
}

func (p *people) post(items ...string) {
	p.Helper()
	done, err := p.intake.Accept(p.Context(), &ingest.Request{Items: items, Sender: "s"})
	p.must(err)
	if done.Items != len(items) {
		p.Fatalf("%d of %d items are accepted: %v", done.Items, len(items), done.Refused)
	}
}

// Events of lists and of requests count for the profile of an existing user whom
// they name, once, in whatever partition the user lives. They make no user. An
// address alone, a mail event and a list that is left out count for no profile.
func TestEventsCountForProfiles(t *testing.T) {
	onEach(t, func(b *bed) {
		apart := eventList("id")
		apart.name, apart.apart = "apart", true
		p := startPeopleWith(b, setup{lists: []listSetup{eventList("id"), apart}})
		stays, goes := external(0), external(1)
		for i := 2; goes.Partition(testPartitions) == stays.Partition(testPartitions); i++ {
			goes = external(i)
		}
		p.send(attributes(stays, `{"email":"stays@example.com"}`), attributes(goes, `{"n":1}`))
		for _, k := range []user.Key{stays, goes} {
			p.awaitUser("the user is there", k, func(*profile.Profile) bool { return true })
		}
		one := func(user, id string, at int64) string {
			return fmt.Sprintf(`{"event":"visit","event_id":%q,"id":%q,"time":%d,"user_id":%q,"email":"stays@example.com"}`, id, id, at, user)
		}
		b.push("q", one(stays.Name, "a", 1_700_000_100), one(stays.Name, "a", 1_700_000_100), one(stays.Name, "b", 1_700_000_000), one(goes.Name, "c", 1_700_000_050), one("nobody", "d", 1_700_000_000))
		b.push("apart", one(stays.Name, "e", 1_700_000_300))
		p.post(one(stays.Name, "f", 1_700_000_200), `{"event":"visit","time":1700000000,"email":"stays@example.com"}`, `{"event":"open","time":1700000000,"user_id":"`+stays.Name+`"}`)
		b.awaitSum("events", 8)
		b.push("q", one(stays.Name, "b", 1_700_000_000)) // by another transaction
		p.post(one(stays.Name, "f", 1_700_000_200))
		b.eventually("the repeats are known", func() bool { return p.e.stats.Duplicates.Load() == 3 })
		if n, first, last := counted(p.who(stays), "visit"); n != 3 || first != 1_700_000_000_000 || last != 1_700_000_200_000 {
			b.Errorf("counted %d from %d to %d", n, first, last)
		}
		if n, _, _ := counted(p.who(stays), "opened"); n != 0 {
			b.Errorf("a mail event is counted %d times", n)
		}
		if n, _, _ := counted(p.who(goes), "visit"); n != 1 {
			b.Errorf("counted %d for the other", n)
		}
		if p.who(user.Key{Kind: user.KeyExternal, Name: "nobody"}) != nil || b.count("users") != 2 {
			b.Error("an event has made a user")
		}

		p.send(user.Update{Op: user.OpMerge, Key: goes, Name: users.MergeName(stays)})
		p.awaitUser("the user has taken the other over", goes, func(u *profile.Profile) bool { return u.ExternalID == stays.Name && u.Custom.Get("n") == "1" })
		b.push("q", one(goes.Name, "g", 1_700_000_400), one(goes.Name, "h", 1_700_000_400)) // from the partition of the key to that of the user who stays
		p.awaitUser("both are forwarded", stays, func(u *profile.Profile) bool { n, _, _ := counted(u, "visit"); return n == 6 })
		b.awaitSum("events", 10)
		p.e.stop()
		b.checkCounts("events", 10, 0)
	})
}

// An event of a producer whose clock is ahead counts as one of now, and is known by its own
// time. Otherwise the user would be active on no day until that time has come.
func TestEventsOfATimeToComeCountNow(t *testing.T) {
	onEach(t, func(b *bed) {
		p := startPeople(b)
		p.send(attributes(external(1), `{"n":1}`))
		p.awaitUser("the user is there", external(1), func(*profile.Profile) bool { return true })
		clock := func() int64 { // of Redis, in seconds
			at, ok := b.do("TIME").([]any)
			if !ok || len(at) == 0 {
				b.Fatalf("Redis has no time: %v", at)
			}
			seconds, err := strconv.ParseInt(fmt.Sprint(at[0]), 10, 64)
			b.must(err)
			return seconds
		}
		began := clock()
		ahead := fmt.Sprintf(`{"event":"visit","event_id":"a","time":%d,"user_id":"u-1"}`, began+400*24*60*60)
		p.post(ahead)
		b.awaitSum("events", 1)
		p.post(ahead) // by another transaction
		b.eventually("the repeat is known", func() bool { return p.e.stats.Duplicates.Load() == 1 })
		p.post(fmt.Sprintf(`{"event":"visit","time":%d,"user_id":"u-1"}`, began))
		p.awaitUser("both are counted", external(1), func(u *profile.Profile) bool { n, _, _ := counted(u, "visit"); return n == 2 })
		ended, u := clock(), p.who(external(1))
		if _, first, last := counted(u, "visit"); first != 1000*began || last < 1000*began || last >= 1000*(ended+1) {
			b.Errorf("counted from %d to %d, and the events came from %d s to %d s", first, last, began, ended)
		}
		const day = 24 * 60 * 60
		if u.ActiveDay < began/day || u.ActiveDay > ended/day {
			b.Errorf("the last active day is %d, and the events came from day %d to day %d", u.ActiveDay, began/day, ended/day)
		}
		days := fmt.Sprintf("%d", ended/day-began/day+1)
		if got := b.query("SELECT SUM(count) FROM series_days WHERE name = 'dau'"); got[0] != "1" && got[0] != days {
			b.Errorf("%s days of activity are counted", got[0])
		}
	})
}

// However often the store is killed, before and after its commit, each event counts
// once.
func TestEventsCountOnceForProfiles(t *testing.T) {
	const n, each, rounds = 20, 25, 3
	onEachAlone(t, func(b *bed) {
		p := startPeople(b)
		for i := range n {
			p.send(attributes(external(i), `{"x":1}`))
		}
		p.awaitUser("the last one is there", external(n-1), func(*profile.Profile) bool { return true })
		b.eventually("all are there", func() bool { return b.count("users") == n })
		p.e.stop()
		s := setup{lists: []listSetup{eventList("")}}
		total := 0
		for range rounds {
			for _, point := range []string{"commit=error,1", "committed=error,1", "load=error,2"} {
				disarm, err := faults.Arm(point)
				b.must(err)
				var some []string
				for i := range n * each {
					some = append(some, fmt.Sprintf(`{"event":"visit","time":1700000000,"user_id":%q}`, external(i%n).Name))
				}
				before := b.count("events")
				e := start(b, s)
				b.push("q", some...)
				total += len(some)
				b.eventually("some are stored", func() bool { return b.count("events") > before })
				e.abort()
				disarm()
			}
		}
		e := start(b, s)
		b.awaitSum("events", total)
		e.stop()
		b.checkCounts("events", total, 0)
		p = startPeople(b)
		for i := range n {
			if got, _, _ := counted(p.who(external(i)), "visit"); got != int64(total/n) {
				b.Errorf("user %d: %d of %d events are counted", i, got, total/n)
			}
		}
	})
}

// What is brought back from a spill file counts, what an operator imports does not.
func TestImportsCountForNoProfile(t *testing.T) {
	b := newBed(t, "sqlite")
	p := startPeople(b)
	p.send(attributes(external(1), `{"x":1}`))
	p.awaitUser("the user is there", external(1), func(*profile.Profile) bool { return true })
	logs := p.e.logs
	for source, counts := range map[string]bool{"import:a": false, "spill:b": true} {
		im := ingest.Import{Logs: logs, Source: source, Clock: sluice.SystemClock{}, Counts: counts, Reject: func(_ store.Line, reason error) error { return reason }}
		_, err := im.Run(b.Context(), linesOf(`{"event":"visit `+source+`","time":1700000000,"user_id":"u-1"}`), func(ingest.Imported) {})
		b.must(err)
	}
	b.awaitSum("events", 2)
	for source, want := range map[string]int64{"import:a": 0, "spill:b": 1} {
		if n, _, _ := counted(p.who(external(1)), "visit "+source); n != want {
			b.Errorf("%s: counted %d, want %d", source, n, want)
		}
	}
}
