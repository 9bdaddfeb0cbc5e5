package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/users"
)

// benchFacts stores events of people as the store follower does: 20,000 a transaction,
// of 16,384 people and seven names, in 16 partitions.
type benchFacts struct {
	*testing.B
	s    *sqlstore.Store
	next uint64 // of the moves
}

const benchFactPeople = 16_384

func (b *benchFacts) apply(registered *journey.Registered, events []store.StoredEvent, updates []users.Update, upTo map[int]sluice.Place) {
	b.Helper()
	done, err := users.Apply(b.Context(), b.s, registered, 16, 1_760_000_000_000, updates)
	must(b, err)
	b.next++
	e := effectTo(b.next, events)
	e.Users, e.Counts, e.JourneyFacts, e.Published, e.FactsUpTo = done.Changes, done.Counts, done.Facts, registered.Published(), upTo
	must(b, apply(b.Context(), b.s, e))
}

func benchPerson(i int) user.Key {
	return user.Key{Kind: user.KeyExternal, Name: fmt.Sprintf("user-%d", i)}
}

func (b *benchFacts) makePeople() {
	b.Helper()
	var updates []users.Update
	for i := range benchFactPeople {
		body, err := profile.Check(fmt.Sprintf(`{"email":"user%d@example.com","first_name":"First","country":"AT","language":"de","time_zone":"Europe/Vienna","plan":"gold","score":%d.5,"visits":%d,"tags":["t%d"]}`, i, i%100, i, i%20))
		must(b, err)
		k := benchPerson(i)
		updates = append(updates, users.Update{Update: user.Update{Op: user.OpAttributes, Key: k, TimeMillis: 1_760_000_000_000, Body: body}, Place: sluice.Place{Partition: k.Partition(16), Position: sluice.Position{Major: 1}, Index: i}})
	}
	b.apply(nil, nil, updates, nil)
}

// round are the events of a transaction.
func (b *benchFacts) round(n int) (events []store.StoredEvent, updates []users.Update) {
	at := sluice.Position{Major: 1_760_000_000_000 + uint64(n)}
	for i := range effectRows {
		k := benchPerson(int(uint32(n*effectRows+i) * 2654435761 % benchFactPeople))
		e := store.StoredEvent{Place: sluice.Place{Partition: k.Partition(16), Position: at, Index: i}, Event: sluice.Event{
			Kind: sluice.KindCustom, Name: fmt.Sprint("event-", i%7), TimeMillis: 1_760_000_000_000 + int64(n)*1000 + int64(i/20), User: k.Name, Properties: `{"items":3,"total":29.5,"sku":"A-17"}`,
		}}
		events = append(events, e)
		updates = append(updates, users.Update{Place: e.Place, Update: user.Update{Op: user.OpSeen, Key: k, TimeMillis: e.TimeMillis, Name: e.Name, Body: e.Properties}})
	}
	return events, updates
}

// benchmarkFacts compares a store without journeys with one that writes two sevenths of
// the events as facts, one that is also read from, and one that also deletes what was
// read. They take turns on one database, so that the machine's load is the same for all.
func benchmarkFacts(tb *testing.B, s *sqlstore.Store) {
	b := &benchFacts{B: tb, s: s}
	b.makePeople()
	now, err := s.Registered(b.Context())
	must(b, err)
	number := now.Published()
	asked := journey.NewRegistered(number, []journey.Names{{Events: []string{"event-1", "event-4"}}})
	cases := []struct {
		unit          string
		registered    *journey.Registered
		reads, delete bool
	}{{"none", journey.NewRegistered(number, nil), false, false}, {"written", asked, false, false}, {"read", asked, true, false}, {"deleted", asked, true, true}}
	took := make([]time.Duration, len(cases))
	after := make(map[int]sluice.Place)
	read := 0
	b.ResetTimer()
	for n := range b.N * len(cases) {
		c := cases[n%len(cases)]
		events, updates := b.round(n)
		began := time.Now()
		var upTo map[int]sluice.Place
		if c.delete {
			upTo = after
		}
		b.apply(c.registered, events, updates, upTo)
		for part := 0; c.reads && part < 16; part++ {
			facts, err := s.Facts(b.Context(), part, after[part], 4096)
			must(b, err)
			if read += len(facts); len(facts) > 0 {
				after[part] = facts[len(facts)-1].Place
			}
		}
		took[n%len(cases)] += time.Since(began)
	}
	for i, c := range cases {
		b.ReportMetric(float64(b.N*effectRows)/took[i].Seconds(), c.unit+"-events/s")
	}
	if b.N > 1 && read == 0 {
		b.Fatal("nothing was read")
	}
}

func BenchmarkSQLiteFacts(b *testing.B) {
	s, _ := sqliteStore(b)
	benchmarkFacts(b, s)
}

func BenchmarkMariaDBFacts(b *testing.B) { benchmarkFacts(b, mariadbStore(b)) }

func BenchmarkPostgresFacts(b *testing.B) {
	s, _ := postgresStore(b)
	benchmarkFacts(b, s)
}
