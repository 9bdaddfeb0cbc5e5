package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
)

// TestPasswordIsNeverShown opens what cannot be opened, in every way an address
// can be wrong, with a password in it.
func TestPasswordIsNeverShown(t *testing.T) {
	const password = "s3cr3t"
	for _, url := range []string{
		"mysql://u:" + password + "@127.0.0.1:1/db",
		"mysql://u:" + password + "@" + mariadb.Addr() + "/db",
		"mysql://u:" + password + "@unix(" + mariadb.Socket() + ")/db",
		"mariadb://u:" + password + "@tcp(127.0.0.1:1)/db?timeout=1s",
		"mysql://u:" + password + "@127.0.0.1:1/",
		"mysql://u:" + password + "@127.0.0.1:1",
		"mysql://u:" + password + "@127.0.0.1:1/db?timeout=x",
		"mysql://u:" + password + "@127.0.0.1:1/db?a=%zz",
		"mysql://u:a/b?" + password + "@127.0.0.1:1/db",
		"postgres://u:" + password + "@127.0.0.1:1/db",
		"postgresql://u:" + password + "@" + postgres.Addr() + "/db?sslmode=disable",
		"postgres://u:" + password + "@127.0.0.1:1/db?sslmode=x",
		"postgres://u:" + password + "@127.0.0.1:1/",
		"postgres://u:" + password + "@127.0.0.1:1x/db",
		"postgres://u:12/" + password + "@127.0.0.1:1/db",
		"postgres://u:a?" + password + "@127.0.0.1:1/db",
		"postgres://u:%zz" + password + "@127.0.0.1:1/db",
		"postgres://u@127.0.0.1:1/db?password=" + password,
		"postgres://u@127.0.0.1:1/db?password=" + password + "&connect_timeout=x",
		"postgres://u:" + password + "#x@127.0.0.1:1/db",
		"postgres:u:" + password + "@127.0.0.1:1/db",
		"mysql:u:" + password + "@127.0.0.1:1/db",
		"oracle://u:" + password + "@127.0.0.1:1/db",
		"u:" + password + "@tcp(127.0.0.1:1)/db",
		"postgres" + password,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := sqlstore.Open(ctx, url, sqlstore.Options{})
		cancel()
		if err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("%s: got error %v", strings.Replace(url, password, "***", 1), err)
		}
	}
}

// A server that is stopped takes connections, and says nothing.
func TestOpenOfASilentServerEnds(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, scheme := range []string{"mysql", "postgres"} {
		_, err := sqlstore.Open(t.Context(), scheme+"://u:p@"+silent.Addr().String()+"/db", sqlstore.Options{OpenTimeout: 100 * time.Millisecond})
		if err == nil || !strings.Contains(err.Error(), "did not answer within 100ms") {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	name := newDatabase(t)
	db := bypass(t, "mysql", mariadb.DSN(name))
	exec(t, db, "CREATE USER addresses@'%' IDENTIFIED BY 'a:b@c/d?e%f'")
	t.Cleanup(func() { _, _ = db.Exec("DROP USER addresses@'%'") })
	exec(t, db, "CREATE USER addresses@localhost IDENTIFIED BY 'a:b@c/d?e%f'")
	t.Cleanup(func() { _, _ = db.Exec("DROP USER addresses@localhost") })
	exec(t, db, "GRANT ALL ON *.* TO addresses@'%'")
	exec(t, db, "GRANT ALL ON *.* TO addresses@localhost")
	for _, url := range []string{
		mariadb.URL(name), mariadb.SocketURL(name), "mysql://" + mariadb.DSN(name), "mariadb://root@tcp(" + mariadb.Addr() + ")/" + name + "?charset=utf8mb4",
		"mysql://addresses:a%3Ab%40c%2Fd%3Fe%25f@" + mariadb.Addr() + "/" + name,
		"mysql://addresses:a%3Ab%40c%2Fd%3Fe%25f@unix(" + mariadb.Socket() + ")/" + name,
		"mysql://addresses:a:b@c/d?e%25f@" + mariadb.Addr() + "/" + name + "?timeout=3s",
	} {
		if err := open(t, url, sqlstore.Options{}).Migrate(t.Context()); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestSQLiteExclusive(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "sluice.db")
	serving, err := sqlstore.Open(t.Context(), url, sqlstore.Options{Exclusive: true})
	must(t, err)
	must(t, serving.Migrate(t.Context()))
	_, err = sqlstore.Open(t.Context(), url, sqlstore.Options{Exclusive: true})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Fatalf("a second serving process: got error %v, want one that names the first", err)
	}
	// A command beside it lists, and drops.
	must(t, apply(t.Context(), serving, &store.Effect{Dead: []sluice.DeadLetter{{Reason: "r"}}}))
	reader := open(t, url, sqlstore.Options{ReadOnly: true})
	list, err := reader.DeadLetters(t.Context(), 0, 10)
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("%d dead letters", len(list))
	}
	if err := reader.DropDeadLetter(t.Context(), list[0].ID); err == nil {
		t.Fatal("a read-only store wrote")
	}
	must(t, open(t, url, sqlstore.Options{}).DropDeadLetter(t.Context(), list[0].ID))
	must(t, apply(t.Context(), serving, &store.Effect{Dead: []sluice.DeadLetter{{Reason: "r"}}}))
	must(t, serving.Close())
	must(t, open(t, url, sqlstore.Options{Exclusive: true}).Ping(t.Context()))
}

// A command beside a busy process waits for its turn; the process itself gives up
// before its lease ends.
func TestSQLiteWaitsForItsTurn(t *testing.T) {
	const session = 2 * time.Second // as in the program; the kit of these tests has more patience
	url := "sqlite:" + filepath.Join(t.TempDir(), "sluice.db")
	serving := migrated(t, url, sqlstore.Options{Exclusive: true, SessionTimeout: session})
	for _, x := range []struct {
		who   string
		store *sqlstore.Store
		want  string
	}{
		{"the serving process", serving, "2000"},
		{"one more writer of it", open(t, url, sqlstore.Options{Beside: serving, SessionTimeout: session}), "2000"},
		{"a command beside it", open(t, url, sqlstore.Options{SessionTimeout: session}), "20000"},
	} {
		must(t, apply(t.Context(), x.store, &store.Effect{Dead: []sluice.DeadLetter{{Reason: "r"}}}))
		if got := sqlstore.WriterPragma(t, x.store, "busy_timeout"); got != x.want {
			t.Errorf("%s waits %s ms, want %s", x.who, got, x.want)
		}
	}
}

func TestSQLiteIsDurable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.db")
	s := migrated(t, "sqlite:"+file, sqlstore.Options{})
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		if got := sqlstore.WriterPragma(t, s, pragma); got != want {
			t.Errorf("%s is %q, want %q", pragma, got, want)
		}
	}
	if _, err := sqlstore.Open(t.Context(), "sqlite::memory:", sqlstore.Options{}); err == nil {
		t.Error("a database in memory was opened")
	}
	absent := filepath.Join(t.TempDir(), "absent.db")
	if _, err := sqlstore.Open(t.Context(), "sqlite:"+absent, sqlstore.Options{ReadOnly: true}); err == nil {
		t.Error("a reader opened a database that is not there")
	}
}

// TestSQLiteTypes: what ordinary and STRICT tables make of cells.
func TestSQLiteTypes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "types.db")
	s := migrated(t, "sqlite:"+file, sqlstore.Options{})
	db := bypass(t, "sqlite", file)
	exec(t, db, "CREATE TABLE loose (i INTEGER, t TEXT, r REAL, a)")
	exec(t, db, "CREATE TABLE strict (i INTEGER, t TEXT, r REAL, a ANY) STRICT")
	cell := func(k store.CellKind, s string) []store.Cell {
		c := store.Cell{Kind: k, Text: s}
		return []store.Cell{c, c, c, c}
	}
	for _, c := range []struct {
		table string
		cells []store.Cell
		want  string // empty: refused
	}{
		{"loose", cell(store.CellNumber, "7"), "integer 7 text 7 real 7.0 integer 7"},
		{"loose", cell(store.CellNumber, "7.0"), "integer 7 text 7.0 real 7.0 real 7.0"},
		{"loose", cell(store.CellNumber, "0.1"), "real 0.1 text 0.1 real 0.1 real 0.1"},
		{"loose", cell(store.CellText, "seven"), "text seven text seven text seven text seven"},
		{"loose", cell(store.CellBool, "true"), "integer 1 text true real 1.0 integer 1"},
		{"loose", cell(store.CellNumber, "9223372036854775808"), ""},
		{"strict", cell(store.CellNumber, "7"), "integer 7 text 7 real 7.0 integer 7"},
		{"strict", cell(store.CellText, "seven"), ""},
	} {
		table, err := s.OpenTable(t.Context(), store.TableSpec{Table: c.table, Columns: []string{"i", "t", "r", "a"}})
		must(t, err)
		exec(t, db, "DELETE FROM "+c.table)
		p, err := s.Prepare(&store.Effect{Rows: []store.TableRows{{Table: table, Cells: c.cells, Raw: []string{"x"}}}})
		must(t, err)
		applied, err := s.ApplyEach(t.Context(), p)
		must(t, err)
		if c.want == "" {
			if applied.Dead != 1 {
				t.Errorf("%s, %q: applied %+v", c.table, c.cells[0].Text, applied)
			}
			continue
		}
		got := strings.Join(queryTexts(t, db, "SELECT typeof(i), i, typeof(t), t, typeof(r), r || '', typeof(a), a || '' FROM "+c.table)[0], " ")
		if got != c.want {
			t.Errorf("%s, %q: got %s, want %s", c.table, c.cells[0].Text, got, c.want)
		}
	}
}

// TestSQLiteTriggerRollsBack: a row that ends the transaction from within is a
// dead letter, and those around it are written together with the cursor.
func TestSQLiteTriggerRollsBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trigger.db")
	s := migrated(t, "sqlite:"+file, sqlstore.Options{})
	db := bypass(t, "sqlite", file)
	exec(t, db, "CREATE TABLE rows (n INTEGER)")
	exec(t, db, "CREATE TRIGGER harsh BEFORE INSERT ON rows WHEN new.n % 2 = 0 BEGIN SELECT RAISE(ROLLBACK, 'never even'); END")
	table, err := s.OpenTable(t.Context(), store.TableSpec{Table: "rows", Columns: []string{"n"}})
	must(t, err)
	effect := effectTo(1, nil)
	rows := store.TableRows{Table: table, Source: "list:q", Raw: []string{"", "two", "", "four", ""}}
	for _, n := range []string{"1", "2", "3", "4", "5"} {
		rows.Cells = append(rows.Cells, store.Cell{Kind: store.CellNumber, Text: n})
	}
	effect.Rows = []store.TableRows{rows}
	p, err := s.Prepare(effect)
	must(t, err)
	applied, err := s.ApplyEach(t.Context(), p)
	if want := (store.Applied{Rows: 3, Dead: 2}); err != nil || applied != want {
		t.Fatalf("applied %+v, %v; want %+v", applied, err, want)
	}
	if got := queryTexts(t, db, "SELECT group_concat(n) FROM rows")[0][0]; got != "1,3,5" {
		t.Errorf("rows %s, want 1,3,5", got)
	}
	if got := queryTexts(t, db, "SELECT group_concat(payload), MIN(reason) LIKE '%never even%' FROM dead_letters")[0]; got[0] != "two,four" || got[1] != "1" {
		t.Errorf("dead letters %v", got)
	}
	if _, err := s.ApplyEach(t.Context(), p); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("applied twice: %v; the cursor has not moved", err)
	}
}

// TestSQLiteConflictClause: what a table says of conflicts is not followed: it
// would replace a row that is there, and count it as new.
func TestSQLiteConflictClause(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clause.db")
	s := migrated(t, "sqlite:"+file, sqlstore.Options{})
	db := bypass(t, "sqlite", file)
	exec(t, db, "CREATE TABLE rows (id INTEGER UNIQUE ON CONFLICT REPLACE, n INTEGER)")
	exec(t, db, "INSERT INTO rows VALUES (1, 1)")
	table, err := s.OpenTable(t.Context(), store.TableSpec{Table: "rows", Columns: []string{"id", "n"}})
	must(t, err)
	one, two := store.Cell{Kind: store.CellNumber, Text: "1"}, store.Cell{Kind: store.CellNumber, Text: "2"}
	err = apply(t.Context(), s, &store.Effect{Rows: []store.TableRows{{Table: table, Cells: []store.Cell{one, two}, Raw: []string{""}}}})
	if !errors.Is(err, sluice.ErrRefused) {
		t.Errorf("got error %v, want refused", err)
	}
	if n := queryTexts(t, db, "SELECT n FROM rows")[0][0]; n != "1" {
		t.Errorf("the row was replaced: n is %s", n)
	}
}
