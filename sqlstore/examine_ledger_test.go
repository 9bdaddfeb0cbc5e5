package sqlstore_test

import (
	"path/filepath"
	"strings"
	"testing"

	"sluice"
	"sluice/sqlstore"
	"sluice/storetest"
)

// Totals that differ from the rows are found, and the finding says how to mend
// them.
func TestExamineLedger(t *testing.T) {
	maria, pg, file := newDatabase(t), newPostgresDatabase(t), filepath.Join(t.TempDir(), "ledger.db")
	for _, at := range []struct{ url, driver, dsn string }{
		{mariadb.SocketURL(maria), "mysql", mariadb.DSN(maria)}, {postgres.SocketURL(pg), "pgx", postgres.SocketURL(pg)}, {"sqlite:" + file, "sqlite", file},
	} {
		t.Run(at.driver, func(t *testing.T) {
			storetest.Fill(t, migrated(t, at.url, sqlstore.Options{}))
			db := bypass(t, at.driver, at.dsn)
			x := sqlstore.Examiner{URL: at.url, Clock: sluice.SystemClock{}}
			look := func(want sluice.Severity) (remedy string) {
				t.Helper()
				for _, f := range x.Examine(t.Context()).Findings {
					if f.Check == sluice.CheckLedger {
						if f.Severity != want {
							t.Fatalf("%s: %s", f.Severity, f.Found)
						}
						return f.Remedy
					}
				}
				t.Fatal("the ledger was not looked at")
				return ""
			}
			look(sluice.SeverityOK)
			exec(t, db, "DELETE FROM sends WHERE state = 'waiting'")
			look(sluice.SeverityError)
			exec(t, db, "UPDATE send_totals SET removed = count WHERE state = 'waiting'")
			look(sluice.SeverityOK)
			exec(t, db, "DELETE FROM send_totals WHERE state = 'failed'")
			for statement := range strings.SplitSeq(look(sluice.SeverityError), ";") {
				if statement = strings.TrimSpace(statement); !strings.HasPrefix(statement, "stop") {
					exec(t, db, statement)
				}
			}
			look(sluice.SeverityOK)
		})
	}
}
