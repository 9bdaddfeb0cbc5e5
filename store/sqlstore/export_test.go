package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
)

// DefaultSessionTimeout is what a process has that is told nothing else.
const DefaultSessionTimeout = defaultSessionTimeout

// ForbidInfile makes a MySQL store behave as if the server had refused LOAD
// DATA LOCAL.
func ForbidInfile(s *Store) { s.d.(*mysqlDialect).noInfile.Store(true) }

// Write runs statements in a transaction of a store, as all that it writes is.
func Write(ctx context.Context, s *Store, fn func(exec func(statement string) error) error) error {
	return s.write(ctx, func(t *txn) error {
		return fn(func(statement string) error {
			_, err := t.conn.ExecContext(ctx, statement)
			return err
		})
	})
}

// CheckLedger is Store.CheckLedger of at most so many rows.
func CheckLedger(ctx context.Context, s *Store, most int) (mail.LedgerCheck, error) {
	return s.checkLedger(ctx, most, true)
}

// CompareLedger is Store.CompareLedger of at most so many rows.
func CompareLedger(ctx context.Context, s *Store, most int) (mail.LedgerCheck, error) {
	return s.checkLedger(ctx, most, false)
}

// CountsMail reports whether the first hour counts mails of a campaign by themselves, which
// it admits if it has room.
func CountsMail(ctx context.Context, s *Store, campaigns ...string) (all bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		all = true
		for _, c := range campaigns {
			k, err := s.counted.admit(ctx, t, reactionKey{countedMail: countedMail{campaign: c}})
			if err != nil {
				return err
			}
			all = all && k.campaign == c
		}
		return nil
	})
	return all, err
}

// BulkPath names the way rows get into a MySQL store.
func BulkPath(s *Store) string {
	if s.d.(*mysqlDialect).noInfile.Load() {
		return "INSERT"
	}
	return "LOAD DATA LOCAL"
}

// LimitByWait makes a MySQL store limit its sessions as it must on MySQL,
// which has no idle_transaction_timeout. To be called before it writes.
func LimitByWait(s *Store) {
	limits := &s.d.(*mysqlDialect).limits
	*limits = strings.Replace(*limits, "idle_transaction_timeout", "wait_timeout", 1)
}

// SeveralHosts connects to one of several hosts, and looks at those before it again with
// each connection.
func SeveralHosts(t *testing.T, url string) driver.Connector {
	t.Helper()
	scheme, rest, err := splitURL(url)
	var connector driver.Connector
	switch {
	case err != nil:
	case scheme == "postgres":
		var servers *postgresServers
		if servers, err = postgresServersOf(url); err == nil {
			connector = servers.connector()
		}
	default:
		_, connector, _, err = connectMySQL(rest)
	}
	if err != nil {
		t.Fatal(err)
	}
	connector.(*hosts).every = 0
	return connector
}

// TakeForGalera has a connector of several hosts take each of them for a node of a Galera
// cluster.
func TakeForGalera(connector driver.Connector) {
	h := connector.(*hosts)
	judge := h.judge
	h.judge = func(ctx context.Context, conn driver.Conn, n int) (driver.Conn, bool, error) {
		is, _, err := judge(ctx, conn, n)
		return is, true, err
	}
}

// Release gives back the memory of an effect that is not applied.
func Release(p store.Prepared) { p.(*prepared).release() }

// SetInsertValues changes how many values an INSERT of SQLite has.
func SetInsertValues(n int) (undo func()) {
	before := insertValues
	insertValues = n
	return func() { insertValues = before }
}

// WriterPragma reads a setting of the connection that writes.
func WriterPragma(t *testing.T, s *Store, name string) (value string) {
	t.Helper()
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	if err := s.conn.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// LoseLastRow takes the last row out of what Prepare has encoded.
func LoseLastRow(p store.Prepared) {
	sec := p.(*prepared).sections[0]
	b := (*sec.buf)[:sec.cuts[0].end-1]
	sec.cuts[0].end = bytes.LastIndexByte(b, '\n') + 1
}

// LoadThrough makes a PostgreSQL store believe that the last load of the events
// had duplicates.
func LoadThrough(s *Store) { s.d.(*postgresDialect).copies["events"] = true }

// Encoded returns the columns and the rows of an effect's only section, as the
// bulk path gets them.
func Encoded(p store.Prepared) (columns string, rows []byte) {
	sec := p.(*prepared).sections[0]
	return strings.Join(sec.target.columns, ", "), *sec.buf
}

// StandardTables returns the tables that dumps know.
func StandardTables() []store.DumpTable { return dumpTables() }

// QueryReads runs a query of texts on the reading connections.
func QueryReads(t *testing.T, s *Store, statement string) (result [][2]string) {
	t.Helper()
	rows, err := s.reads.QueryContext(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var row [2]string
		if err := rows.Scan(&row[0], &row[1]); err != nil {
			t.Fatal(err)
		}
		result = append(result, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return result
}

// CountsName reports whether a transaction under way counts a name by itself.
func CountsName(s *Store, app, name string) bool {
	return s.names.admit(seriesKey{app: app, name: name, kind: sluice.KindCustom.String()}).name == name
}

// MirrorStatement is by which a transaction with counts looks whether there is a mirror.
func MirrorStatement(s *Store) string { return query(s.d, "mirror_state") }

// OfEvents is a statement about events by their keys, and its values.
func OfEvents(s *Store, name string, keys []sluice.EventKey) (statement string, args []any) {
	statement, args = s.d.ofEvents(name, keys)
	return s.d.placeholders(statement), args
}

// WaitForReads runs a query on a reading connection to its end.
func WaitForReads(ctx context.Context, s *Store, statement string) error {
	rows, err := s.reads.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	return eachRow(rows, func(scanner) error { return nil })
}

// MigrateTo brings an empty database to an earlier version of the schema.
func MigrateTo(t testing.TB, s *Store, version int) {
	t.Helper()
	list, err := migrations(s.d)
	if err != nil {
		t.Fatal(err)
	}
	list = list[:version]
	if s.d.transactionalDDL() {
		err = s.write(t.Context(), func(tx *txn) error { return s.migrateOn(t.Context(), tx.conn, list) })
	} else {
		var conn *sql.Conn
		var done func()
		if conn, done, err = s.d.migrationConn(t.Context(), s); err == nil {
			err = s.migrateOn(t.Context(), conn, list)
			done()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// MissingSpans returns the ends of the partitions that a table with one must
// get, counted in days from its end, which is today's midnight.
func MissingSpans(now, before time.Time, have int) (ends []time.Time) {
	spans := make([]eventSpan, have)
	for i := range spans {
		spans[i].end = midnight(now.UnixMilli())
	}
	for _, s := range missingSpans(spans, "p", before.UnixMilli(), now.UnixMilli()) {
		ends = append(ends, s.end)
	}
	return ends
}

// JudgeFileSystem is what is found of a directory on a file system of a network.
var JudgeFileSystem = judgeFileSystem

// WhileWriting does something in the middle of a transaction on the writing
// connection, which has changed the position of a follower.
func WhileWriting(t *testing.T, s *Store, follower string, do func()) {
	t.Helper()
	err := s.write(t.Context(), func(tx *txn) error {
		if err := tx.exec(t.Context(), "cursor_create", follower, 0, s.now()); err != nil {
			return err
		}
		do()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Pretend has this program know a migration more, one that takes 1.5 s on PostgreSQL
// ("slow") or MariaDB ("sleep"), or two with a breaking one.
func Pretend(kind string) (undo func()) {
	before := pretended
	pretended = func(last int) []migration {
		list := []migration{{version: last + 1, name: "pretended", statements: []string{"CREATE TABLE IF NOT EXISTS pretended (n INTEGER)"}, readable: last}}
		if kind == "slow" {
			list[0].statements = append(list[0].statements, "SELECT pg_sleep(1.5)")
		}
		if kind == "sleep" {
			list[0].statements = append(list[0].statements, "CREATE TABLE IF NOT EXISTS slept AS SELECT SLEEP(1.5) AS n FROM information_schema.tables LIMIT 1")
		}
		if kind == "breaking" {
			list = append(list, migration{version: last + 2, name: "breaking", statements: []string{"CREATE TABLE IF NOT EXISTS breaking (n INTEGER)"}, readable: last + 2})
		}
		return list
	}
	return func() { pretended = before }
}

// MostConns is how many connections a store opens at once, at most.
func MostConns(s *Store) (most int64) {
	for _, db := range []*sql.DB{s.reads, s.writes, s.small} {
		most += int64(db.Stats().MaxOpenConnections)
	}
	return most
}

// ReadsInUse is how many reading connections are busy.
func ReadsInUse(s *Store) int { return s.reads.Stats().InUse }

// ConnsOf is how many connections are counted for a process of so many writers.
func ConnsOf(writers int) int64 { return connsOf(writers) }

// UserStatements returns the statements of a store that name the table users, for three
// keys or two rows each, and that of dumps ("dump"), by their names.
func UserStatements(t *testing.T, s *Store) map[string]string {
	t.Helper()
	files, err := queryFiles.ReadDir("query")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"dump": dumpStatement(s.d, standardTableOf("users"), "")}
	for _, f := range files {
		parts := strings.Split(f.Name(), ".") // NAME.sql or NAME.DIALECT.sql
		if len(parts) == 3 && parts[1] != s.d.name() {
			continue
		}
		if text := rawQuery(s.d, parts[0]); slices.Contains(regexp.MustCompile(`\w+`).FindAllString(text, -1), "users") {
			all[parts[0]] = named(withRows(text, 5, 2), 3)
		}
	}
	return all
}

// FactRows is how many rows of facts of partition 0 are read at once.
func FactRows(ctx context.Context, s *Store) (int, error) {
	rows, _, err := s.factRows(ctx, 0, sluice.Place{Index: -1}, factRowsMost)
	return len(rows), err
}

// EraseLate erases the facts of a user of partition 0 as they were before something was done.
// again: a pack is another one by then.
func EraseLate(ctx context.Context, s *Store, number int64, do func() error) (again bool, err error) {
	rows, _, err := s.factRows(ctx, 0, sluice.Place{Index: -1}, factRowsMost)
	if err != nil {
		return false, err
	}
	found, err := erasedRows(rows, map[int64]bool{number: true})
	if err == nil {
		err = do()
	}
	if err != nil {
		return false, err
	}
	err = s.write(ctx, func(tx *txn) (err error) {
		_, again, err = tx.eraseFacts(ctx, found)
		return err
	})
	return again, err
}
