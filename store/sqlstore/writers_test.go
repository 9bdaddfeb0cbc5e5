package sqlstore_test

import (
	"fmt"
	"testing"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/proxy"
)

// manyOf is an effect of some partitions: in each an event far from its time, and
// addresses that are suppressed.
func manyOf(partitions, addresses int, to uint64) *store.Effect {
	e := &store.Effect{}
	for p := range partitions {
		e.Moves = append(e.Moves, store.Move{Follower: "store", Partition: p, To: sluice.Position{Major: to}})
		e.Events = append(e.Events, store.StoredEvent{Event: sluice.Event{Kind: sluice.KindMail, Name: "bounced", TimeMillis: 1_500_000_000_000},
			Place: sluice.Place{Partition: p, Position: sluice.Position{Major: to}}})
	}
	for i := range addresses {
		e.Suppress = append(e.Suppress, mail.Suppression{Entry: fmt.Sprintf("a%d-%d@example.com", to, i), Reason: mail.SuppressHardBounce, Source: "event", TimeMillis: 1})
	}
	return e
}

// TestRoundTripsOfATransaction: with a database that is far, each is time in which nothing
// is stored, and some are under locks that all wait for. There are not more of them for
// more partitions or addresses.
func TestRoundTripsOfATransaction(t *testing.T) {
	const partitions, most, pieces = 64, 16, 2 // the proxy may see a long message in pieces
	for name, through := range map[string]func() (*proxy.Proxy, string){
		"mariadb": func() (*proxy.Proxy, string) {
			p := newProxy(t)
			return p, "mysql://root@" + p.Addr() + "/" + newDatabase(t)
		},
		"postgres": func() (*proxy.Proxy, string) {
			p, err := proxy.New("unix", postgres.Socket())
			must(t, err)
			t.Cleanup(func() { _ = p.Close() })
			return p, "postgres://postgres@" + p.Addr() + "/" + newPostgresDatabase(t) + "?sslmode=disable"
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, url := through()
			s := migrated(t, url, sqlstore.Options{})
			all := make([]int, partitions)
			for i := range all {
				all[i] = i
			}
			_, err := s.Cursors(t.Context(), "store", all)
			must(t, err)
			var turns []int64
			from := make([]uint64, partitions)
			for i, size := range []struct{ partitions, addresses int }{{1, 1}, {2, 5}, {partitions, 3000}} { // the first finds out what is there
				e := manyOf(size.partitions, size.addresses, uint64(i+1))
				for j := range e.Moves {
					e.Moves[j].From.Major, from[j] = from[j], uint64(i+1)
				}
				prepared, err := s.Prepare(e)
				must(t, err)
				before := p.Turns()
				_, err = s.Apply(t.Context(), prepared)
				must(t, err)
				turns = append(turns, p.Turns()-before)
			}
			if turns[2] > turns[1]+pieces || turns[2] > most {
				t.Errorf("round trips: %d of 2 partitions and 5 addresses, %d of %d and 3,000; want no more, and at most %d", turns[1], turns[2], partitions, most)
			}
		})
	}
}

// TestConnectionsOfWriters: what the doctor counts for a process is what it may take.
func TestConnectionsOfWriters(t *testing.T) {
	for name, url := range map[string]string{"mariadb": mariadb.URL(newDatabase(t)), "postgres": postgres.URL(newPostgresDatabase(t))} {
		first, more := migrated(t, url, sqlstore.Options{}), migrated(t, url, sqlstore.Options{Writer: true})
		for writers, want := range map[int]int64{1: sqlstore.MostConns(first), 3: sqlstore.MostConns(first) + 2*sqlstore.MostConns(more)} {
			if got := sqlstore.ConnsOf(writers); got != want {
				t.Errorf("%s: %d connections are counted for %d writers, which may take %d", name, got, writers, want)
			}
		}
	}
}
