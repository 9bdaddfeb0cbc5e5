package sqlstore_test

import (
	"fmt"
	"maps"
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
		first := migrated(t, url, sqlstore.Options{})
		more := open(t, url, sqlstore.Options{Beside: first})
		for writers, want := range map[int]int64{1: sqlstore.MostConns(first), 3: sqlstore.MostConns(first) + 2*sqlstore.MostConns(more)} {
			if got := sqlstore.ConnsOf(writers); got != want {
				t.Errorf("%s: %d connections are counted for %d writers, which may take %d", name, got, writers, want)
			}
		}
	}
}

// TestNamesOfWriters: what one writer of a process counts by itself, or has no room for, is
// so for the others.
func TestNamesOfWriters(t *testing.T) {
	for name, url := range map[string]string{"mariadb": mariadb.URL(newDatabase(t)), "postgres": postgres.URL(newPostgresDatabase(t))} {
		t.Run(name, func(t *testing.T) {
			first := migrated(t, url, sqlstore.Options{SeriesNames: 2})
			writers := []*sqlstore.Store{first, open(t, url, sqlstore.Options{Beside: first})}
			_, err := first.Cursors(t.Context(), "store", []int{0, 1})
			must(t, err)
			count := func(writer int, name string, from, to uint64) {
				t.Helper()
				must(t, apply(t.Context(), writers[writer], &store.Effect{Stripe: writer,
					Moves:  []store.Move{{Follower: "store", Partition: writer, From: sluice.Position{Major: from}, To: sluice.Position{Major: to}}},
					Counts: []sluice.Count{{Kind: sluice.KindCustom, TimeMillis: 1_700_000_000_000, By: 1, App: "a", Name: name}}}))
			}
			count(0, "one", 0, 1)
			count(1, "two", 0, 1)
			count(0, "three", 1, 2)
			count(1, "three", 1, 2)
			got := make(map[string]int64)
			rows, err := first.Series(t.Context(), store.SeriesQuery{ToMillis: 2_000_000_000_000, ByName: true, Limit: 10})
			must(t, err)
			for _, r := range rows {
				got[r.Name] += r.Count
			}
			if want := map[string]int64{"one": 1, "two": 1, store.OtherName: 2}; !maps.Equal(got, want) {
				t.Errorf("counted are %v, want %v", got, want)
			}
			campaigns := make([]string, store.MaxReactionMails)
			for i := range campaigns {
				campaigns[i] = fmt.Sprint("c-", i)
			}
			for i, c := range []struct {
				campaigns []string
				want      bool
			}{{campaigns[1:], true}, {campaigns[:1], true}, {[]string{"late"}, false}, {[]string{"late"}, false}} {
				got, err := sqlstore.CountsMail(t.Context(), writers[i%2], c.campaigns...)
				must(t, err)
				if got != c.want {
					t.Errorf("writer %d counts %d mails, of which the first is %s, by themselves: %t, want %t", i%2, len(c.campaigns), c.campaigns[0], got, c.want)
				}
			}
		})
	}
}
