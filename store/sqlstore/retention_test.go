package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
)

const day = 24 * time.Hour

func midnight(days int) time.Time {
	return time.Now().UTC().Truncate(day).AddDate(0, 0, days)
}

// eventsAt makes an event at each of some moments, with an id of its own, in a
// batch of the log.
func eventsAt(batch uint64, moments ...time.Time) []store.StoredEvent {
	list := events(len(moments))
	for i, m := range moments {
		list[i].TimeMillis, list[i].ID, list[i].Place.Position.Minor = m.UnixMilli(), "e", batch
	}
	return list
}

// emptyStores opens a database without a schema of each kind, and the same
// past the store.
func emptyStores(t *testing.T) (map[string]*sqlstore.Store, map[string]*sql.DB) {
	t.Helper()
	maria, pg, file := newDatabase(t), newPostgresDatabase(t), filepath.Join(t.TempDir(), "keep.db")
	return map[string]*sqlstore.Store{
			"sqlite":   open(t, "sqlite:"+file, sqlstore.Options{}),
			"mysql":    open(t, mariadb.SocketURL(maria), sqlstore.Options{}),
			"postgres": open(t, postgres.SocketURL(pg), sqlstore.Options{}),
		}, map[string]*sql.DB{
			"sqlite":   bypass(t, "sqlite", "file:"+file),
			"mysql":    bypass(t, "mysql", mariadb.DSN(maria)),
			"postgres": bypass(t, "pgx", postgres.SocketURL(pg)),
		}
}

// store applies events as the next step of the cursor of partition 0.
func storeEvents(t *testing.T, s *sqlstore.Store, list []store.StoredEvent) store.Applied {
	t.Helper()
	cursors, err := s.Cursors(t.Context(), "store", []int{0})
	must(t, err)
	p, err := s.Prepare(effectTo(cursors[0].Major+1, list))
	must(t, err)
	applied, err := s.Apply(t.Context(), p)
	must(t, err)
	return applied
}

// A database has the schema of before the table was divided, with rows of the
// past and of days to come. It keeps them, recognises their repeats, and gets
// days.
func TestEventsAreDividedWithTheirRows(t *testing.T) {
	stores, past := emptyStores(t)
	for kind, s := range stores {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			sqlstore.MigrateTo(t, s, 5)
			// Today's program notes which events are far from their time; that of version 5
			// did not.
			exec(t, past[kind], "CREATE TABLE late_events (part INTEGER NOT NULL PRIMARY KEY, pos_major DECIMAL(20) NOT NULL, pos_minor DECIMAL(20) NOT NULL)")
			old := eventsAt(1, time.UnixMilli(0), midnight(-400), midnight(-1), midnight(0), midnight(2), midnight(4000))
			storeEvents(t, s, old)
			exec(t, past[kind], "DROP TABLE late_events")
			must(t, s.Migrate(ctx))
			_, err := s.MakeEventDays(ctx, midnight(7).UnixMilli())
			must(t, err)
			again := eventsAt(2, time.UnixMilli(0), midnight(-400), midnight(-1), midnight(0), midnight(2), midnight(4000), midnight(-2))
			applied := storeEvents(t, s, again)
			if applied.Rows != 1 || applied.Duplicates != len(old) {
				t.Fatalf("what was there is not known any more: %+v", applied)
			}
			dropped, err := s.DropEventDays(ctx, midnight(3).UnixMilli())
			for range 1000 { // a server may hold the lock of a connection that was closed a moment longer
				if must(t, err); len(dropped) > 0 || kind == "sqlite" {
					break
				}
				dropped, err = s.DropEventDays(ctx, midnight(3).UnixMilli())
			}
			must(t, err)
			next, ok, err := s.NextEvent(ctx, 0)
			must(t, err)
			want := midnight(4000) // all but the last lay in days that have ended
			if kind == "sqlite" {
				want = time.UnixMilli(0)
			}
			if !ok || next != want.UnixMilli() {
				t.Errorf("dropped %v; the oldest event is of %s", dropped, time.UnixMilli(next).UTC())
			}
		})
	}
}

// A table that its operator has divided by a key, as over servers, is left as it is, and
// its old events are deleted row by row.
func TestEventsDividedByAKeyStaySo(t *testing.T) {
	name := newDatabase(t)
	s := open(t, mariadb.SocketURL(name), sqlstore.Options{})
	must(t, s.Migrate(t.Context()))
	exec(t, bypass(t, "mysql", mariadb.DSN(name)), "ALTER TABLE events PARTITION BY KEY (event_id) PARTITIONS 3")
	old := eventsAt(1, midnight(-2), midnight(-1))
	if applied := storeEvents(t, s, old); applied.Rows != len(old) {
		t.Fatalf("%+v", applied)
	}
	if made, err := s.MakeEventDays(t.Context(), midnight(7).UnixMilli()); err != nil || made != 0 {
		t.Errorf("%d days were made, %v", made, err)
	}
	if dropped, err := s.DropEventDays(t.Context(), midnight(3).UnixMilli()); err != nil || len(dropped) > 0 {
		t.Errorf("%v were dropped, %v", dropped, err)
	}
	deleted, _, err := s.DeleteEvents(t.Context(), old[0].Kind, midnight(-3).UnixMilli(), midnight(0).UnixMilli())
	if err != nil || deleted != len(old) {
		t.Errorf("%d of %d events were deleted, %v", deleted, len(old), err)
	}
}

// A query for a day looks into its partition only.
func TestQueryOfADayPrunes(t *testing.T) {
	stores, past := emptyStores(t)
	from, to := midnight(-3).Format(time.DateOnly), midnight(-2).Format(time.DateOnly)
	name := midnight(-3).Format("20060102")
	for kind, s := range stores {
		must(t, s.Migrate(t.Context()))
		_, err := s.MakeEventDays(t.Context(), midnight(7).UnixMilli())
		must(t, err)
		storeEvents(t, s, eventsAt(1, midnight(-4), midnight(-3), midnight(-2), midnight(0)))
		where := " FROM events WHERE time >= '" + from + "' AND time < '" + to + "'"
		switch kind {
		case "mysql":
			plan := explain(t, past[kind], "EXPLAIN PARTITIONS SELECT COUNT(*)"+where)
			if !strings.Contains(plan, "p"+name) || strings.Count(plan, "p20") != 1 || strings.Contains(plan, "before") || strings.Contains(plan, "later") {
				t.Errorf("%s: %s", kind, plan)
			}
			// A dump reads the table in the order of its key, without a sort.
			if plan := explain(t, past[kind], "EXPLAIN SELECT * FROM events ORDER BY time, event_id"); strings.Contains(plan, "filesort") {
				t.Errorf("%s: %s", kind, plan)
			}
		case "postgres":
			plan := explain(t, past[kind], "EXPLAIN SELECT COUNT(*)"+where)
			if !strings.Contains(plan, "events_"+name) || strings.Count(plan, " on events_") > 2 || strings.Contains(plan, "events_before") || strings.Contains(plan, "events_later") {
				t.Errorf("%s: %s", kind, plan)
			}
		}
	}
}

func explain(t *testing.T, db *sql.DB, statement string, args ...any) string {
	t.Helper()
	var lines []string
	for _, row := range queryTexts(t, db, statement, args...) {
		lines = append(lines, strings.Join(row, " "))
	}
	return strings.Join(lines, "\n")
}

// Days become months when there are very many, so that their number is bounded.
func TestVeryManyDaysBecomeMonths(t *testing.T) {
	now := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	ends := sqlstore.MissingSpans(now, now.AddDate(0, 0, 3), 1)
	if len(ends) != 4 || !ends[0].Equal(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)) || !ends[3].Equal(time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("days: %v", ends)
	}
	ends = sqlstore.MissingSpans(now, now.AddDate(0, 2, 0), 1000)
	if len(ends) != 3 || !ends[0].Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) || !ends[2].Equal(time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("months: %v", ends)
	}
	if ends = sqlstore.MissingSpans(now, now.AddDate(0, 0, 1), 0); len(ends) != 2 {
		t.Errorf("of a table without any: %v", ends)
	}
	if n := len(sqlstore.MissingSpans(now, now.AddDate(30, 0, 0), 1)); n > 1350 {
		t.Errorf("thirty years are %d partitions", n)
	}
}

// A row may wait for a day that is being made out of the row's partition. It is
// no bad row: it fails as a whole, and goes in the next time.
func TestRowMeetsADayBeingMade(t *testing.T) {
	stores, past := emptyStores(t)
	s, db := stores["postgres"], past["postgres"]
	must(t, s.Migrate(t.Context()))
	cursors, err := s.Cursors(t.Context(), "store", []int{0})
	must(t, err)
	for name, write := range map[string]func(context.Context, store.Prepared) (store.Applied, error){"bulk": s.Apply, "row by row": s.ApplyEach} {
		day := midnight(20 + len(name)) // another each time
		p, err := s.Prepare(effectTo(cursors[0].Major+1, eventsAt(uint64(len(name)), day)))
		must(t, err)
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		for _, statement := range []string{
			"LOCK TABLE events_later IN ACCESS EXCLUSIVE MODE", "CREATE TABLE made_" + day.Format("20060102") + " (LIKE events INCLUDING ALL)",
			"ALTER TABLE events ATTACH PARTITION made_" + day.Format("20060102") + " FOR VALUES FROM ('" + day.Format(time.DateOnly) + "') TO ('" + day.Add(24*time.Hour).Format(time.DateOnly) + "')",
		} {
			_, err := tx.ExecContext(t.Context(), statement)
			must(t, err)
		}
		done := make(chan error, 1)
		go func() {
			applied, err := write(t.Context(), p)
			if applied.Dead > 0 {
				err = fmt.Errorf("%d dead letters", applied.Dead)
			}
			done <- err
		}()
		for len(queryTexts(t, db, "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'events_later'::regclass")) == 0 {
			select {
			case err := <-done:
				t.Fatalf("%s: it did not wait: %v", name, err)
			case <-time.After(time.Millisecond):
			}
		}
		must(t, tx.Commit())
		if err = <-done; err != nil {
			applied, err := s.ApplyEach(t.Context(), p)
			must(t, err)
			if applied.Rows != 1 {
				t.Errorf("%s: %+v", name, applied)
			}
		}
		letters, err := s.CountDeadLetters(t.Context())
		must(t, err)
		if letters != 0 {
			t.Errorf("%s: %d dead letters", name, letters)
		}
		cursors[0] = sluice.Position{Major: cursors[0].Major + 1}
	}
}

// TestPiecesWithoutOldRowsAreOnlyRead: a pass over a table that has none asks nothing of
// the writing connection.
func TestPiecesWithoutOldRowsAreOnlyRead(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "sluice.db")
	s := migrated(t, url, sqlstore.Options{})
	must(t, s.PutLinks(t.Context(), map[string]string{"a": "https://shop.example/"}))
	reader := open(t, url, sqlstore.Options{ReadOnly: true})
	if n, next, err := reader.DeleteLinks(t.Context(), "", 1); n != 0 || next != "" || err != nil {
		t.Errorf("%d deleted, next %q: %v", n, next, err)
	}
	if _, _, err := reader.DeleteLinks(t.Context(), "", 4_000_000_000_000); err == nil {
		t.Error("a read-only store deletes a link")
	}
	if n, _, err := s.DeleteLinks(t.Context(), "", 4_000_000_000_000); n != 1 || err != nil {
		t.Errorf("%d deleted, want 1: %v", n, err)
	}
}
