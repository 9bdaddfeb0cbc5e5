package sqlstore_test

import (
	"path/filepath"
	"strings"
	"testing"

	"sluice"
	"sluice/lib/doctor"
	"sluice/mail"
	"sluice/store/sqlstore"
	"sluice/test/storetest"
)

// Totals that differ from the rows are found, and the finding says how to mend
// them.
func TestExamineLedger(t *testing.T) {
	maria, pg, file := newDatabase(t), newPostgresDatabase(t), filepath.Join(t.TempDir(), "ledger.db")
	for _, at := range []struct{ url, driver, dsn string }{
		{mariadb.SocketURL(maria), "mysql", mariadb.DSN(maria)}, {postgres.SocketURL(pg), "pgx", postgres.SocketURL(pg)}, {"sqlite:" + file, "sqlite", file},
	} {
		t.Run(at.driver, func(t *testing.T) {
			store := migrated(t, at.url, sqlstore.Options{})
			storetest.Fill(t, store)
			compare := func(off int64) {
				t.Helper()
				c, err := store.CheckLedger(t.Context())
				if err != nil || !c.Complete || c.OffBy() != off {
					t.Fatalf("off by %d, want %d: %+v %v", c.OffBy(), off, c, err)
				}
				rows := int64(0)
				for i, d := range c.Days {
					rows += d.Rows
					if i > 0 && d.Day > c.Days[i-1].Day || d.Day < 20_000 || d.Day > 30_000 {
						t.Errorf("day %d is number %d of %+v", d.Day, i, c.Days)
					}
				}
				for _, sum := range c.Sums {
					rows -= sum.Rows
				}
				if rows != 0 || len(c.Days) == 0 {
					t.Errorf("%d rows are in days, or in sums, only", rows)
				}
			}
			compare(0)
			db := bypass(t, at.driver, at.dsn)
			x := sqlstore.Examiner{URL: at.url, Clock: sluice.SystemClock{}}
			look := func(want doctor.Severity) (remedy string) {
				t.Helper()
				for _, f := range x.Examine(t.Context()).Findings {
					if f.Check == doctor.CheckLedger {
						if f.Severity != want {
							t.Fatalf("%s: %s", f.Severity, f.Found)
						}
						return f.Remedy
					}
				}
				t.Fatal("the ledger was not looked at")
				return ""
			}
			look(doctor.SeverityOK)
			var waiting int64
			if err := db.QueryRow("SELECT COUNT(*) FROM sends WHERE state = 'waiting'").Scan(&waiting); err != nil || waiting == 0 {
				t.Fatalf("%d sends wait, %v", waiting, err)
			}
			exec(t, db, "DELETE FROM sends WHERE state = 'waiting'")
			look(doctor.SeverityError)
			compare(waiting)
			exec(t, db, "UPDATE send_totals SET removed = count WHERE state = 'waiting'")
			look(doctor.SeverityOK)
			exec(t, db, "DELETE FROM send_totals WHERE state = 'failed'")
			for statement := range strings.SplitSeq(look(doctor.SeverityError), ";") {
				if statement = strings.TrimSpace(statement); !strings.HasPrefix(statement, "stop") {
					exec(t, db, statement)
				}
			}
			look(doctor.SeverityOK)
		})
	}
}

// TestNewestSendsByDay: of more sends than are counted, those are shown by day that were
// accepted last. The id of a journey's mail may begin with a day of months before.
func TestNewestSendsByDay(t *testing.T) {
	const day = 24 * 60 * 60 * 1000
	maria, pg, file := newDatabase(t), newPostgresDatabase(t), filepath.Join(t.TempDir(), "ledger.db")
	for _, url := range []string{mariadb.SocketURL(maria), postgres.SocketURL(pg), "sqlite:" + file} {
		store := migrated(t, url, sqlstore.Options{})
		accepted, _ := benchSends(0)
		accepted.Sends, accepted.Events, accepted.Moves = accepted.Sends[:300], nil, effectTo(1, nil).Moves
		first := accepted.Sends[0].AcceptedMillis / day
		for i := range accepted.Sends { // the newest ids are of the oldest day
			accepted.Sends[i].AcceptedMillis = (first+int64(2-i/100))*day + int64(i)
		}
		must(t, apply(t.Context(), store, &accepted))
		if c, err := sqlstore.CheckLedger(t.Context(), store, 300); err != nil || !c.Complete || c.OffBy() != 0 {
			t.Errorf("%s: %+v, %v; want all 300 sends", url, c, err)
		}
		if c, err := sqlstore.CompareLedger(t.Context(), store, 300); err != nil || !c.Complete || c.OffBy() != 0 || len(c.Days) == 0 {
			t.Errorf("%s, compared: %+v, %v; want all 300 sends", url, c, err)
		}
		for _, totals := range []string{"right", "gone"} {
			c, err := sqlstore.CheckLedger(t.Context(), store, 249)
			brief, failed := sqlstore.CompareLedger(t.Context(), store, 249)
			if failed != nil || brief.Complete || brief.Days != nil {
				t.Errorf("%s, totals %s, compared: %+v, %v; want no days", url, totals, brief, failed)
			}
			if err != nil || c.Complete || len(c.Days) != 3 {
				t.Fatalf("%s, totals %s: %+v, %v; want 250 of 300 sends, of three days", url, totals, c, err)
			}
			for i, want := range []mail.LedgerDay{{Day: first + 2, Rows: 100}, {Day: first + 1, Rows: 100}, {Day: first, Rows: 50}} {
				if got := c.Days[i]; got.Day != want.Day || got.Rows != want.Rows {
					t.Errorf("%s, totals %s: day %d has %d sends, want day %d with %d", url, totals, got.Day, got.Rows, want.Day, want.Rows)
				}
			}
			must(t, sqlstore.Write(t.Context(), store, func(exec func(string) error) error { return exec("DELETE FROM send_totals") }))
		}
	}
}
