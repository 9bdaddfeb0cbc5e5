package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/proxy"
	"sluice/test/servers"
	"sluice/test/storetest"
	"sluice/test/tables"
)

// mariadb and postgres are the servers of all tests of this binary. They are
// not killed and keep their power, so nothing waits for the disk.
var (
	mariadb  *servers.MariaDB
	postgres *servers.Postgres
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sqlstore")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	mariadb, err = servers.StartMariaDB(ctx, servers.MariaDBOptions{Dir: filepath.Join(dir, "mariadb"), Extra: []string{"--loose-debug-no-sync"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer mariadb.Stop(context.Background())
	postgres, err = servers.StartPostgres(ctx, servers.PostgresOptions{Dir: filepath.Join(dir, "postgres"), Extra: []string{"-c", "fsync=off"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer postgres.Stop(context.Background())
	return m.Run()
}

var databases atomic.Int64

// newDatabase makes an empty database and returns its name.
func newDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	if err := mariadb.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// open opens a store, which is calm if no other session limit is asked for.
func open(t testing.TB, url string, options sqlstore.Options) *sqlstore.Store {
	t.Helper()
	if options.SessionTimeout == 0 {
		options.SessionTimeout = calm.SessionTimeout
	}
	s, err := sqlstore.Open(t.Context(), url, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// bypass opens a database past the store.
func bypass(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func queryTexts(t testing.TB, db *sql.DB, statement string, args ...any) (result [][]string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), statement, args...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, pointers := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			pointers[i] = &values[i]
		}
		if err := rows.Scan(pointers...); err != nil {
			t.Fatal(err)
		}
		texts := make([]string, len(columns))
		for i, v := range values {
			texts[i] = v.String
			if !v.Valid {
				texts[i] = "NULL"
			}
		}
		result = append(result, texts)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return result
}

// calm is for stores that no fault meets: a busy machine may rest in the midst of a
// transaction for longer than a process that works may. served is what such a process has.
var (
	calm   = sqlstore.Options{SessionTimeout: 30 * time.Second}
	served = sqlstore.Options{SessionTimeout: sqlstore.DefaultSessionTimeout}
)

// mariadbEnv has a database that is a copy, as those of TestPostgres are.
func mariadbEnv(t *testing.T, prepare func(*sqlstore.Store)) storetest.Env {
	name := fmt.Sprintf("test_%d", databases.Add(1))
	if strings.Contains(t.Name(), "/Migrate") {
		must(t, mariadb.CreateDatabase(t.Context(), name))
	} else {
		tables.MakeMariaDB(t, mariadb, name)
	}
	db := bypass(t, "mysql", mariadb.DSN(name))
	opened := func(t *testing.T, url string, options sqlstore.Options) *sqlstore.Store {
		s := open(t, url, options)
		prepare(s)
		return s
	}
	return storetest.Env{
		StrictTypes:    true,
		Divided:        true,
		ReadableEvents: "events",
		Waiting:        "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'",
		Commit:         commitPacket,
		Open:           func(t *testing.T) store.Store { return opened(t, mariadb.SocketURL(name), calm) },
		OpenThrough: func(t *testing.T) (store.Store, *proxy.Proxy) {
			proxy := newProxy(t)
			return opened(t, "mysql://root@"+proxy.Addr()+"/"+name, sqlstore.Options{}), proxy
		},
		Exec:  func(t *testing.T, statement string) { exec(t, db, statement) },
		Query: func(t *testing.T, statement string) [][]string { return queryTexts(t, db, statement) },
	}
}

func newProxy(t testing.TB) *proxy.Proxy {
	t.Helper()
	proxy, err := proxy.New("unix", mariadb.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

func TestMariaDB(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Env { return mariadbEnv(t, func(*sqlstore.Store) {}) })
}

// TestMariaDBInsert runs without LOAD DATA what writes many rows. All else is the same:
// noInfile is asked in mysql_load.go alone.
func TestMariaDBInsert(t *testing.T) {
	storetest.RunBulk(t, func(t *testing.T) storetest.Env { return mariadbEnv(t, sqlstore.ForbidInfile) })
}

// Its databases are copies, as those of TestPostgres are.
func TestSQLite(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made.db")
	s, err := sqlstore.Open(t.Context(), "sqlite:"+made, sqlstore.Options{})
	must(t, err)
	must(t, s.Migrate(t.Context()))
	must(t, s.Close())
	ready, err := os.ReadFile(made)
	must(t, err)
	storetest.Run(t, func(t *testing.T) storetest.Env {
		file := filepath.Join(t.TempDir(), "name with ? and % and #.db")
		if !strings.Contains(t.Name(), "/Migrate") {
			must(t, os.WriteFile(file, ready, 0o600))
		}
		db := bypass(t, "sqlite", "file:"+strings.NewReplacer("?", "%3f", "%", "%25", "#", "%23", " ", "%20").Replace(file)+"?_pragma=busy_timeout(5000)")
		return storetest.Env{
			ReadableEvents: "events_readable",
			Open:           func(t *testing.T) store.Store { return open(t, "sqlite:"+file, calm) },
			Exec:           func(t *testing.T, statement string) { exec(t, db, statement) },
			Query:          func(t *testing.T, statement string) [][]string { return queryTexts(t, db, statement) },
		}
	})
}
