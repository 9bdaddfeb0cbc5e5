package sqlstore_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
)

// waitingOf asks how many statements wait for locks, on a server that no other test uses
// at that time.
var waitingOf = map[string]string{
	"mysql": "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'",
	"pgx":   "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
}

// awaitWaiting waits until so many statements wait for locks.
func awaitWaiting(t *testing.T, db *sql.DB, driver string, want int) {
	t.Helper()
	for limit := time.Now().Add(3 * time.Minute); ; {
		got := queryTexts(t, db, waitingOf[driver])[0][0]
		if got == strconv.Itoa(want) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s statements wait for locks, want %d", got, want)
		}
	}
}

// serverOf is an empty database of one kind of server.
type serverOf struct{ driver, url, dsn string }

func serversOf(t *testing.T) []serverOf {
	mysqlName, postgresName := newDatabase(t), newPostgresDatabase(t)
	return []serverOf{
		{"mysql", mariadb.SocketURL(mysqlName), mariadb.DSN(mysqlName)},
		{"pgx", postgres.SocketURL(postgresName), postgres.SocketURL(postgresName)},
	}
}

// TestSameEventsInAnyOrder: two transactions that have the same events, of one time and in
// opposite orders, wait for each other and never in a circle. A third one has a row in the
// middle until both wait.
func TestSameEventsInAnyOrder(t *testing.T) {
	const many, millis = 100, 1_700_000_000_000
	for _, on := range serversOf(t) {
		t.Run(on.driver, func(t *testing.T) {
			stores := []*sqlstore.Store{migrated(t, on.url, calm), open(t, on.url, calm)}
			_, err := stores[0].Cursors(t.Context(), "store", []int{0, 1, 2})
			must(t, err)
			effect := func(partition int, ids []string) *store.Effect {
				e := &store.Effect{Stripe: partition, Moves: []store.Move{{Follower: "store", Partition: partition, To: sluice.Position{Major: millis}}}}
				for i, id := range ids {
					e.Events = append(e.Events, store.StoredEvent{Event: sluice.Event{Kind: sluice.KindCustom, Name: "x", TimeMillis: millis, ID: id},
						Place: sluice.Place{Partition: partition, Position: sluice.Position{Major: millis}, Index: i}})
				}
				return e
			}
			must(t, apply(t.Context(), stores[0], effect(2, []string{"other"})))
			db := bypass(t, on.driver, on.dsn)
			middle, err := db.BeginTx(t.Context(), nil)
			must(t, err)
			defer func() { _ = middle.Rollback() }()
			_, err = middle.ExecContext(t.Context(), fmt.Sprintf("UPDATE events SET event_id = 'e-%03d' WHERE event_id = 'other'", many/2))
			must(t, err)
			ids := make([]string, many)
			for i := range ids {
				ids[i] = fmt.Sprintf("e-%03d", i)
			}
			applied := make(chan error, len(stores))
			for i, s := range stores {
				e := effect(i, ids)
				slices.Reverse(ids)
				go func() { applied <- apply(t.Context(), s, e) }()
				awaitWaiting(t, db, on.driver, i+1)
			}
			must(t, middle.Rollback())
			for range stores {
				must(t, <-applied)
			}
			for _, ask := range []string{"SELECT COUNT(*) FROM events", "SELECT SUM(count) FROM series_days WHERE name = 'x'"} {
				if got := queryTexts(t, db, ask)[0][0]; got != strconv.Itoa(many+1) {
					t.Errorf("%s: %s, want %d", ask, got, many+1)
				}
			}
		})
	}
}

// TestMergesBothWays: two transactions, each of which changes its users and has one of the
// other's stay as it is, wait for each other and never in a circle. A third one has the
// first user of each until both wait.
func TestMergesBothWays(t *testing.T) {
	for _, on := range serversOf(t) {
		t.Run(on.driver, func(t *testing.T) {
			stores := []*sqlstore.Store{migrated(t, on.url, calm), open(t, on.url, calm)}
			_, err := stores[0].Cursors(t.Context(), "store", []int{0, 1, 2})
			must(t, err)
			users := func(partitions ...int) (rows []user.Row) {
				for _, p := range partitions {
					for n := range int64(2) {
						rows = append(rows, user.Row{ID: user.ID{Partition: p, Number: n + 1}, Profile: "{}"})
					}
				}
				return rows
			}
			effect := func(partition int, changes user.Changes) *store.Effect {
				return &store.Effect{Users: &changes, Moves: []store.Move{{Follower: "store", Partition: partition, To: sluice.Position{Major: 1}}}}
			}
			must(t, apply(t.Context(), stores[0], effect(2, user.Changes{Put: users(0, 1)})))
			db := bypass(t, on.driver, on.dsn)
			firsts, err := db.BeginTx(t.Context(), nil)
			must(t, err)
			defer func() { _ = firsts.Rollback() }()
			_, err = firsts.ExecContext(t.Context(), "UPDATE users SET profile = '{\"a\":1}' WHERE number = 1")
			must(t, err)
			applied := make(chan error, len(stores))
			for i, s := range stores {
				e := effect(i, user.Changes{Put: users(i), Stay: []user.ID{{Partition: 1 - i, Number: 2}}})
				go func() { applied <- apply(t.Context(), s, e) }()
				awaitWaiting(t, db, on.driver, i+1)
			}
			must(t, firsts.Rollback())
			for range stores {
				must(t, <-applied)
			}
		})
	}
}
