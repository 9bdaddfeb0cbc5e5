package sqlstore_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
)

// The people of the benches below, and the events of a partition of many that name one of
// them rarely.
const (
	benchFound  = 1_000_000
	benchAround = 4 * effectRows
)

// scattered is another number for each number, all over the range.
func scattered(i int) uint64 {
	r := uint64(i+1) * 0x9e3779b97f4a7c15
	r ^= r >> 29
	return r * 0xbf58476d1ce4e5b9
}

// benchmarkFind looks for people among a million by how an id or an address begins.
func benchmarkFind(b *testing.B, s *sqlstore.Store) {
	began := time.Now()
	for from := 0; from < benchFound; from += effectRows {
		e := effectTo(uint64(from/effectRows)+1, nil)
		e.Users = &user.Changes{}
		for i := from; i < from+effectRows; i++ {
			id, r := user.ID{Partition: i % 16, Number: int64(i + 1)}, scattered(i)
			e.Users.Put = append(e.Users.Put, user.Row{ID: id, UpdatedMillis: 1, Profile: "{}"})
			e.Users.AddKeys = append(e.Users.AddKeys, user.KeyRow{Key: user.Key{Kind: user.KeyExternal, Name: fmt.Sprintf("%x", r)}, ID: id})
			e.Users.AddAddress = append(e.Users.AddAddress, user.KeyRow{Key: user.Key{Kind: user.KeyEmail, Name: fmt.Sprintf("first.%x@example.com", uint32(r>>32))}, ID: id})
		}
		must(b, apply(b.Context(), s, e))
	}
	made := time.Since(began)
	var took []time.Duration
	n := 0
	for b.Loop() {
		r := scattered(n)
		length := 1 + n%8
		n++
		for kind, prefix := range map[user.KeyKind]string{user.KeyExternal: fmt.Sprintf("%x", r)[:length], user.KeyEmail: "first." + fmt.Sprintf("%08x", uint32(r>>32))[:length]} {
			began := time.Now()
			_, err := s.KeysFrom(b.Context(), kind, prefix, 51)
			must(b, err)
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	b.ReportMetric(benchFound/made.Seconds(), "people-made/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
}

// benchmarkPerson loads events of many people, with and without an index by user, and
// looks for one of them among benchAround events of a partition.
func benchmarkPerson(b *testing.B, open func(*testing.B) (*sqlstore.Store, *sql.DB), index string) {
	made := func(n int) (list []store.StoredEvent) {
		for i := n; i < n+effectRows; i++ {
			at := 1_760_000_000_000 + int64(i)*10
			list = append(list, store.StoredEvent{
				Place: sluice.Place{Partition: i % 16, Position: sluice.Position{Major: uint64(at)}, Index: i},
				Event: sluice.Event{Kind: sluice.KindCustom, Name: fmt.Sprint("event-", i%7), User: fmt.Sprintf("%x", scattered(i%200_000)), TimeMillis: at, Properties: `{"items":3,"total":29.5,"sku":"A-17","x":"a text of some length"}`},
			})
		}
		return list
	}
	for _, with := range []string{"", index} {
		name := "load"
		if with != "" {
			name = "load with an index"
		}
		b.Run(name, func(b *testing.B) {
			s, db := open(b)
			if with != "" {
				exec(b, db, with)
			}
			var took time.Duration
			n := 0
			for b.Loop() {
				list := made(n * effectRows)
				n++
				began := time.Now()
				must(b, apply(b.Context(), s, effectTo(uint64(n), list)))
				took += time.Since(began)
			}
			b.ReportMetric(float64(n*effectRows)/took.Seconds(), "events/s")
		})
	}
	b.Run("look", func(b *testing.B) {
		s, _ := open(b)
		for n := range 16 * benchAround / effectRows {
			must(b, apply(b.Context(), s, effectTo(uint64(n)+1, made(n*effectRows))))
		}
		for b.Loop() {
			page, err := s.PersonEvents(b.Context(), store.PersonAsked{Partition: 3, Names: []string{"nobody"}, Before: sluice.Place{Position: sluice.Position{Major: 1_770_000_000_000}}, Limit: 51})
			if must(b, err); page.Done || len(page.Events) > 0 {
				b.Fatalf("%+v", page)
			}
		}
		b.ReportMetric(float64(b.N*store.PersonRows)/b.Elapsed().Seconds(), "rows/s")
	})
}

func BenchmarkMariaDBFind(b *testing.B) { benchmarkFind(b, mariadbStore(b)) }
func BenchmarkPostgresFind(b *testing.B) {
	s, _ := postgresStore(b)
	benchmarkFind(b, s)
}
func BenchmarkSQLiteFind(b *testing.B) {
	s, _ := sqliteStore(b)
	benchmarkFind(b, s)
}

const eventsByUser = "CREATE INDEX by_user ON events (user_ref, time)"

func BenchmarkMariaDBPerson(b *testing.B) {
	benchmarkPerson(b, func(b *testing.B) (*sqlstore.Store, *sql.DB) {
		name := newDatabase(b)
		return migrated(b, mariadb.SocketURL(name), sqlstore.Options{}), bypass(b, "mysql", mariadb.DSN(name))
	}, eventsByUser)
}

func BenchmarkPostgresPerson(b *testing.B) {
	benchmarkPerson(b, func(b *testing.B) (*sqlstore.Store, *sql.DB) { return postgresStore(b) }, eventsByUser)
}

func BenchmarkSQLitePerson(b *testing.B) {
	benchmarkPerson(b, func(b *testing.B) (*sqlstore.Store, *sql.DB) {
		s, file := sqliteStore(b)
		return s, bypass(b, "sqlite", file)
	}, eventsByUser)
}
