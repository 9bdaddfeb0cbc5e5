package sqlstore_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/proxy"
	"sluice/test/storetest"
)

// postgresCommit is a COMMIT by itself, as a query.
var postgresCommit = []byte("Q\x00\x00\x00\x0bCOMMIT\x00")

func newPostgresDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	must(t, postgres.CreateDatabase(t.Context(), name))
	return name
}

func newPostgresProxy(t testing.TB) *proxy.Proxy {
	t.Helper()
	proxy, err := proxy.New("unix", postgres.Socket())
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

func throughPostgres(proxy *proxy.Proxy, database string) string {
	return "postgresql://postgres@" + proxy.Addr() + "/" + database + "?sslmode=disable"
}

// A copy of a database takes a tenth of the time that its migrations take. Those have
// tests of their own, in an empty one.
func TestPostgres(t *testing.T) {
	ready := newPostgresDatabase(t)
	s, err := sqlstore.Open(t.Context(), postgres.SocketURL(ready), calm)
	must(t, err)
	must(t, s.Migrate(t.Context()))
	must(t, s.Close()) // or there are no copies
	server := bypass(t, "pgx", postgres.SocketURL("postgres"))
	storetest.Run(t, func(t *testing.T) storetest.Env {
		name, template := fmt.Sprintf("test_%d", databases.Add(1)), ready
		if strings.Contains(t.Name(), "/Migrate") {
			template = "template1"
		}
		exec(t, server, "CREATE DATABASE "+name+" TEMPLATE "+template)
		db := bypass(t, "pgx", postgres.SocketURL(name))
		return storetest.Env{
			StrictTypes:    true,
			NoNUL:          true,
			Divided:        true,
			Waiting:        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
			ReadableEvents: "(SELECT to_char(time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS') AS time, event_id FROM events) readable",
			Commit:         postgresCommit,
			Open:           func(t *testing.T) store.Store { return open(t, postgres.SocketURL(name), calm) },
			OpenThrough: func(t *testing.T) (store.Store, *proxy.Proxy) {
				proxy := newPostgresProxy(t)
				return open(t, throughPostgres(proxy, name), sqlstore.Options{}), proxy
			},
			Exec: func(t *testing.T, statement string) { exec(t, db, statement) },
			Query: func(t *testing.T, statement string) [][]string {
				// A BOOLEAN is a number in the other databases, as the suite wants it.
				return queryTexts(t, db, strings.Replace(statement, "i, b, s, j FROM bools", "i, b::int, s, j FROM bools", 1))
			},
		}
	})
}

// TestPostgresStoppedProcess is TestStoppedProcessIsThrownOut for PostgreSQL.
func TestPostgresStoppedProcess(t *testing.T) {
	for name, rule := range map[string]proxy.Rule{
		"before COMMIT":        {Direction: proxy.ToServer, Pattern: postgresCommit, Stall: true},
		"before the load":      {Direction: proxy.ToServer, Pattern: []byte("COPY "), Stall: true},
		"middle of the stream": {Direction: proxy.ToServer, Bytes: 1_000_000, Stall: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database, proxy := newPostgresDatabase(t), newPostgresProxy(t)
			successor := migrated(t, postgres.SocketURL(database), served)
			stopped := open(t, throughPostgres(proxy, database), served)
			checkThrownOut(t, successor, stopped, proxy, rule, bypass(t, "pgx", postgres.SocketURL(database)))
		})
	}
}

// TestPostgresWriterReconnects ends the writer's session as the server does
// with a silent one.
func TestPostgresWriterReconnects(t *testing.T) {
	database := newPostgresDatabase(t)
	s := migrated(t, postgres.SocketURL(database), sqlstore.Options{})
	db := bypass(t, "pgx", postgres.SocketURL(database))
	for n := range uint64(3) {
		must(t, apply(t.Context(), s, effectTo(n+1, events(1))))
		queryTexts(t, db, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'sluice' AND datname = current_database()")
	}
}

// TestPostgresLocksAreTransient: waiting for a lock in vain refuses no row, and
// a process that is at work, not silent, is left alone.
func TestPostgresLocksAreTransient(t *testing.T) {
	database := newPostgresDatabase(t)
	s := migrated(t, postgres.SocketURL(database), served)
	db := bypass(t, "pgx", postgres.SocketURL(database))
	tx, err := db.Begin()
	must(t, err)
	_, err = tx.Exec("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
	must(t, err)
	err = apply(t.Context(), s, effectTo(1, events(5)))
	if err == nil || errors.Is(err, sluice.ErrRefused) || errors.Is(err, sluice.ErrConflict) || !strings.Contains(err.Error(), "55P03") {
		t.Errorf("a locked table gave %v", err)
	}
	must(t, tx.Commit())
	must(t, apply(t.Context(), s, effectTo(1, events(5))))
}

// TestPostgresOneOfACircleGoesOn: of two transactions that begin to wait for each other at
// one moment the server chooses one, and the other commits.
func TestPostgresOneOfACircleGoesOn(t *testing.T) {
	database := newPostgresDatabase(t)
	stores := []*sqlstore.Store{migrated(t, postgres.SocketURL(database), served), open(t, postgres.SocketURL(database), served)}
	_, err := stores[0].Cursors(t.Context(), "store", []int{0, 1})
	must(t, err)
	var both sync.WaitGroup
	both.Add(len(stores))
	ended := make(chan error, len(stores))
	for i, s := range stores {
		go func() {
			ended <- sqlstore.Write(t.Context(), s, func(exec func(string) error) error {
				err := exec(fmt.Sprint("UPDATE cursors SET updated = NOW() WHERE part = ", i))
				both.Done()
				both.Wait()
				if err == nil {
					err = exec(fmt.Sprint("UPDATE cursors SET updated = NOW() WHERE part = ", 1-i))
				}
				return err
			})
		}()
	}
	if err := errors.Join(<-ended, <-ended); err == nil || strings.Count(err.Error(), "SQLSTATE") != 1 || !strings.Contains(err.Error(), "40P01") {
		t.Errorf("want one deadlock, got %v", err)
	}
}

func TestPostgresTablesRefused(t *testing.T) {
	database := newPostgresDatabase(t)
	s := migrated(t, postgres.SocketURL(database), sqlstore.Options{})
	db := bypass(t, "pgx", postgres.SocketURL(database))
	for name, c := range map[string]struct{ statements, want string }{
		"t_unlogged": {"CREATE UNLOGGED TABLE t_unlogged (a BIGINT)", "SET LOGGED"},
		"t_mat":      {"CREATE MATERIALIZED VIEW t_mat AS SELECT 1 AS a", "materialized view"},
		"t_foreign":  {"CREATE FOREIGN DATA WRAPPER w; CREATE SERVER v FOREIGN DATA WRAPPER w; CREATE FOREIGN TABLE t_foreign (a BIGINT) SERVER v", "foreign table"},
		"t_ruled":    {"CREATE TABLE t_ruled (a BIGINT); CREATE RULE r AS ON INSERT TO t_ruled DO INSTEAD NOTHING", "trigger"},
		"t_computed": {"CREATE TABLE t_computed (a BIGINT GENERATED ALWAYS AS (1 + 1) STORED)", "computed"},
		"t_identity": {"CREATE TABLE t_identity (a BIGINT GENERATED ALWAYS AS IDENTITY)", "computed"},
		"t_parts":    {"CREATE TABLE t_parts (a BIGINT) PARTITION BY RANGE (a); CREATE UNLOGGED TABLE t_part1 PARTITION OF t_parts DEFAULT", "t_part1"},
		"t_case":     {`CREATE TABLE t_case (a BIGINT, "A" BIGINT)`, "case only"},
		"no.where":   {"SELECT 1", "no such table"},
	} {
		exec(t, db, c.statements)
		_, err := s.OpenTable(t.Context(), store.TableSpec{Table: name, Columns: []string{"a"}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, c.want)
		}
	}
	for name, definition := range map[string]string{
		"partial":  "(id TEXT, a BIGINT); CREATE UNIQUE INDEX ON partial (id) WHERE a > 0",
		"deferred": "(id TEXT UNIQUE DEFERRABLE, a BIGINT)",
		"computed": "(id TEXT, a BIGINT); CREATE UNIQUE INDEX ON computed (lower(id))",
		"included": "(id TEXT, a BIGINT); CREATE UNIQUE INDEX ON included (a) INCLUDE (id)",
	} {
		exec(t, db, "CREATE TABLE "+name+" "+definition)
		_, err := s.OpenTable(t.Context(), store.TableSpec{Table: name, Columns: []string{"id", "a"}, Dedupe: "id"})
		if err == nil || !strings.Contains(err.Error(), "ADD UNIQUE") {
			t.Errorf("a key that is %s was taken for one over the id: %v", name, err)
		}
	}
}

// TestPostgresNames: names are taken as written, or in lower case; a
// partitioned table is as good as another, also with duplicates in it.
func TestPostgresNames(t *testing.T) {
	database := newPostgresDatabase(t)
	s := migrated(t, postgres.SocketURL(database), sqlstore.Options{})
	db := bypass(t, "pgx", postgres.SocketURL(database))
	exec(t, db, `CREATE SCHEMA "My ""schema"`)
	exec(t, db, `CREATE TABLE "My ""schema"."Odd.name" ("Id" TEXT, day BIGINT NOT NULL, UNIQUE ("Id", day)) PARTITION BY RANGE (day)`)
	exec(t, db, `CREATE TABLE part1 PARTITION OF "My ""schema"."Odd.name" FOR VALUES FROM (0) TO (10)`)
	table, err := s.OpenTable(t.Context(), store.TableSpec{Table: `My "schema.Odd.name`, Columns: []string{"id", "Day"}, Dedupe: "id"})
	must(t, err)
	effect := func(major uint64, days ...string) store.Prepared {
		rows := store.TableRows{Table: table}
		for _, day := range days {
			rows.Cells = append(rows.Cells, store.Cell{Kind: store.CellText, Text: "x"}, store.Cell{Kind: store.CellNumber, Text: day})
			rows.Raw = append(rows.Raw, day)
		}
		e := effectTo(major, nil)
		e.Rows = []store.TableRows{rows}
		p, err := s.Prepare(e)
		must(t, err)
		return p
	}
	applied, err := s.Apply(t.Context(), effect(1, "1", "2", "1"))
	must(t, err)
	if want := (store.Applied{Rows: 2, Duplicates: 1}); applied != want {
		t.Errorf("applied %+v, want %+v", applied, want)
	}
	p := effect(2, "2", "3", "99") // 99 has no partition
	if _, err := s.Apply(t.Context(), p); !errors.Is(err, sluice.ErrRefused) {
		t.Errorf("got error %v, want refused", err)
	}
	applied, err = s.ApplyEach(t.Context(), p)
	must(t, err)
	if want := (store.Applied{Rows: 1, Duplicates: 1, Dead: 1}); applied != want {
		t.Errorf("applied %+v row by row, want %+v", applied, want)
	}
	exec(t, db, "CREATE TABLE folded (id TEXT)")
	_, err = s.OpenTable(t.Context(), store.TableSpec{Table: "Folded", Columns: []string{"ID"}})
	must(t, err)
}

// TestPostgresDeferred: a constraint that waits for the COMMIT is checked
// before, and its row is told from the others.
func TestPostgresDeferred(t *testing.T) {
	database := newPostgresDatabase(t)
	s := migrated(t, postgres.SocketURL(database), sqlstore.Options{})
	exec(t, bypass(t, "pgx", postgres.SocketURL(database)), "CREATE TABLE late (a BIGINT UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	table, err := s.OpenTable(t.Context(), store.TableSpec{Table: "late", Columns: []string{"a"}})
	must(t, err)
	one := store.Cell{Kind: store.CellNumber, Text: "1"}
	p, err := s.Prepare(&store.Effect{Rows: []store.TableRows{{Table: table, Cells: []store.Cell{one, one}, Raw: []string{"", ""}}}})
	must(t, err)
	if _, err := s.Apply(t.Context(), p); !errors.Is(err, sluice.ErrRefused) {
		t.Errorf("got error %v, want refused", err)
	}
	applied, err := s.ApplyEach(t.Context(), p)
	must(t, err)
	if want := (store.Applied{Rows: 1, Dead: 1}); applied != want {
		t.Errorf("applied %+v, want %+v", applied, want)
	}
}

// TestPostgresColumns stores into columns whose types need care.
func TestPostgresColumns(t *testing.T) {
	database := newPostgresDatabase(t)
	s := migrated(t, postgres.SocketURL(database), sqlstore.Options{})
	db := bypass(t, "pgx", postgres.SocketURL(database))
	exec(t, db, `CREATE TABLE odd ("a ""b" boolean, n numeric(6,2), j jsonb, k json, u uuid, t timestamptz, e bytea, l text[], c char(3))`)
	table, err := s.OpenTable(t.Context(), store.TableSpec{Table: "odd", Columns: []string{`a "b`, "n", "j", "k", "u", "t", "e", "l", "c"}})
	must(t, err)
	text := func(s string) store.Cell { return store.Cell{Kind: store.CellText, Text: s} }
	row := func(change int, to store.Cell) []store.Cell {
		cells := []store.Cell{
			{Kind: store.CellBool, Text: "true"}, {Kind: store.CellNumber, Text: "1.239"}, {Kind: store.CellJSON, Text: `{"a": "\\u00e9"}`}, {Kind: store.CellJSON, Text: `[1, 2]`},
			text("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"), text("2025-10-09T08:53:20.5+02:00"), text(`\x00ff`), text(`{a,"b\\c"}`), text("ab"),
		}
		if change >= 0 {
			cells[change] = to
		}
		return cells
	}
	must(t, apply(t.Context(), s, &store.Effect{Rows: []store.TableRows{{Table: table, Cells: row(-1, store.Cell{}), Raw: []string{""}}}}))
	got := strings.Join(queryTexts(t, db, `SELECT "a ""b"::text, n::text, j->>'a', k::text, u::text, extract(epoch FROM t)::text, encode(e, 'hex'), l[2], c FROM odd`)[0], "|")
	if want := `true|1.24|\u00e9|[1, 2]|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|1759992800.500000|00ff|b\c|ab `; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for change, bad := range []store.Cell{text("maybe"), text("12345"), text(`"\u0000"`), text(`{"a"`), text("A0"), text("never"), text(`\xf`), text("{"), text("four")} {
		p, err := s.Prepare(&store.Effect{Rows: []store.TableRows{{Table: table, Cells: row(change, bad), Raw: []string{"x"}}}})
		must(t, err)
		if _, err := s.Apply(t.Context(), p); !errors.Is(err, sluice.ErrRefused) {
			t.Errorf("%q: got error %v, want refused", bad.Text, err)
		}
		applied, err := s.ApplyEach(t.Context(), p)
		must(t, err)
		if applied.Dead != 1 {
			t.Errorf("%q: applied %+v row by row", bad.Text, applied)
		}
	}
}

// TestPostgresWithoutTemporary: for a user who may make no temporary tables,
// duplicates are left out row by row.
func TestPostgresWithoutTemporary(t *testing.T) {
	database := newPostgresDatabase(t)
	migrated(t, postgres.SocketURL(database), sqlstore.Options{})
	db := bypass(t, "pgx", postgres.SocketURL(database))
	role := "plain_" + database
	exec(t, db, "CREATE ROLE "+role+" LOGIN; REVOKE TEMPORARY ON DATABASE "+database+" FROM PUBLIC; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "+role)
	t.Cleanup(func() { _, _ = db.Exec("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	s := open(t, strings.Replace(postgres.SocketURL(database), "postgres@", role+"@", 1), sqlstore.Options{})
	must(t, s.Ping(t.Context()))
	p, err := s.Prepare(effectTo(1, append(events(3), events(2)...)))
	must(t, err)
	if _, err := s.Apply(t.Context(), p); !errors.Is(err, sluice.ErrRefused) {
		t.Errorf("got error %v, want refused", err)
	}
	applied, err := s.ApplyEach(t.Context(), p)
	must(t, err)
	if want := (store.Applied{Rows: 3, Duplicates: 2}); applied != want {
		t.Errorf("applied %+v, want %+v", applied, want)
	}
}

// A server or role may bound the time of statements to less than a migration
// takes. The migration is not cut off, and the bound is in force again after
// it. It pretends, as other tests do, so it does not run beside them.
func TestMigrationTakesItsTime(t *testing.T) {
	name := newPostgresDatabase(t)
	db := bypass(t, "pgx", postgres.SocketURL(name))
	for _, setting := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
		exec(t, db, fmt.Sprintf("ALTER DATABASE %s SET %s = '1s'", name, setting))
	}
	store := migrated(t, postgres.SocketURL(name), sqlstore.Options{})
	undo := sqlstore.Pretend("slow")
	err := store.Migrate(t.Context())
	undo()
	must(t, err)
	after := bypass(t, "pgx", postgres.SocketURL(name))
	if got := queryTexts(t, after, "SHOW statement_timeout"); fmt.Sprint(got) != "[[1s]]" {
		t.Errorf("the bound is %v", got)
	}
	must(t, store.Ping(t.Context()))
}

// Blocks of checkpoints are compressed by lz4 where the server has it, and else as before.
func TestPostgresCompressesBlocks(t *testing.T) {
	t.Parallel()
	name := newPostgresDatabase(t)
	s, err := sqlstore.Open(t.Context(), postgres.SocketURL(name), calm)
	must(t, err)
	must(t, s.Migrate(t.Context()))
	must(t, s.Close())
	db := bypass(t, "pgx", postgres.SocketURL(name))
	const asked = "SELECT attcompression::text FROM pg_attribute WHERE attrelid = 'journey_blocks'::regclass AND attname = 'data'"
	if got := queryTexts(t, db, asked); len(got) != 1 || got[0][0] != "l" {
		t.Errorf("compressed by %q, want l", got)
	}
	statement, err := os.ReadFile("schema/postgres/0039_lz4_blocks.sql")
	must(t, err)
	for _, other := range []string{"SET COMPRESSION unheard", "SET UNHEARD lz4"} { // as a server says that was built without it, or is older
		text := strings.Replace(string(statement), "SET COMPRESSION lz4", other, 1)
		if text == string(statement) {
			t.Fatal("the migration is another one")
		}
		exec(t, db, text)
	}
}
