package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"sluice/store/sqlstore"
)

// A newer program has migrated the schema. A program goes on with it if the
// migration says that it can. Otherwise it is refused, at the start and at the
// next lease.
func TestOlderProgramsAndNewerSchemas(t *testing.T) {
	postgresName := newPostgresDatabase(t)
	file := filepath.Join(t.TempDir(), "s.db")
	mariadbName := newDatabase(t)
	for _, x := range []struct {
		name, url string
		db        *sql.DB
	}{
		{"sqlite", "sqlite:" + file, bypass(t, "sqlite", "file:"+file)},
		{"mariadb", mariadb.SocketURL(mariadbName), bypass(t, "mysql", mariadb.DSN(mariadbName))},
		{"postgres", postgres.SocketURL(postgresName), bypass(t, "pgx", postgres.URL(postgresName))},
	} {
		t.Run(x.name, func(t *testing.T) {
			older := migrated(t, x.url, sqlstore.Options{})
			check := func(when, refused string) {
				t.Helper()
				_, takes := older.TakeLease(t.Context(), "store", []int{1})
				for what, err := range map[string]error{"ping": older.Ping(t.Context()), "migrate": older.Migrate(t.Context()), "lease": takes} {
					if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
						t.Errorf("%s, %s: %v; want %q", when, what, err, refused)
					}
				}
			}
			check("before", "")
			have, _, from, err := older.Pending(t.Context())
			if err != nil || from != 0 {
				t.Fatalf("pending: %d %v", from, err)
			}
			for _, migration := range []struct {
				pretend, refused string
			}{
				{"compatible", ""},
				{"breaking", "a newer program has been here"},
			} {
				undo := sqlstore.Pretend(migration.pretend)
				_, want, from, err := older.Pending(t.Context())
				if err == nil {
					err = older.Migrate(t.Context())
				}
				undo()
				if err != nil || want <= have || (from <= have) != (migration.refused == "") {
					t.Fatalf("%s: from %d to %d, readable from %d: %v", migration.pretend, have, want, from, err)
				}
				check(migration.pretend, migration.refused)
			}
			exec(t, x.db, "DROP TABLE schema_readable") // as of a program that did not know of it
			check("without the table", "a newer program has been here")
		})
	}
}
