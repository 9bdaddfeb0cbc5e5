package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"sluice/store"
)

// sqliteDialect is SQLite. Its statements belong to the writing goroutine, and
// to one connection of the driver.
type sqliteDialect struct {
	plainSQL
	stmts map[string]driver.Stmt
	owner any // the driver's connection that stmts are of
	args  []driver.NamedValue
}

var _ dialect = (*sqliteDialect)(nil)

// walPages is how far the log grows before it is copied into the file: 64 MB.
// At SQLite's own 4 MB every effect of some size pays for a copy.
const walPages = 16384

// writerCacheKB is how many KiB of pages the writer keeps. A transaction that changes
// more writes them to the log before its end, and reads them again.
// That happens with keys in no order: nearly every page of their index changes.
const writerCacheKB = 32 << 10

// besideWithin is how long a program beside the one that serves waits for its turn to
// write, at least. What waits sleeps and asks again, up to ten times a second, and a
// busy process holds the file nearly always.
const besideWithin = 20 * time.Second

// sqliteWithin is how long a connection waits for its turn to write.
func sqliteWithin(options Options) time.Duration {
	if options.Exclusive || options.Beside != nil {
		return options.SessionTimeout
	}
	return max(options.SessionTimeout, besideWithin)
}

// busyTimeout is the pragma of it.
func busyTimeout(within time.Duration) string {
	return "busy_timeout(" + strconv.FormatInt(within.Milliseconds(), 10) + ")"
}

func openSQLite(ctx context.Context, rest string, options Options) (*Store, error) {
	path, err := sqliteFile(rest)
	if err != nil {
		return nil, err
	}
	var unlock func() error
	if options.Exclusive {
		if unlock, err = lockFile(path + ".lock"); err != nil {
			return nil, fmt.Errorf("open database %s: %w", path, err)
		}
	}
	params := url.Values{"mode": {"rwc"}, "_pragma": {
		busyTimeout(sqliteWithin(options)), "foreign_keys(1)", "synchronous(FULL)", "wal_autocheckpoint(" + strconv.Itoa(walPages) + ")",
	}}
	if options.ReadOnly {
		params.Set("mode", "rw") // a reader creates no database
		params.Add("_pragma", "query_only(1)")
	} else if err := createPrivate(path); err != nil {
		if unlock != nil {
			err = errors.Join(err, unlock())
		}
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	reads, err := sql.Open("sqlite", sqliteDSN(path, params))
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	if !options.ReadOnly {
		params.Add("_pragma", "journal_mode(WAL)")
		params.Add("_pragma", "secure_delete(FAST)") // what is deleted is zeroed where its page is written anyway (overwrite.go)
		params.Add("_pragma", "cache_size(-"+strconv.Itoa(writerCacheKB)+")")
	}
	writes, err := sql.Open("sqlite", sqliteDSN(path, params))
	if err == nil {
		// Opens the file, and turns the log on before anybody reads.
		err = writes.PingContext(ctx)
	}
	if err != nil {
		err = errors.Join(err, reads.Close())
		if unlock != nil {
			err = errors.Join(err, unlock())
		}
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	s := newStore(&sqliteDialect{}, options, path, reads, writes)
	s.unlock = unlock
	return s, nil
}

// createPrivate makes the file of a database that is not there, for its owner alone;
// SQLite's own would be for everybody. Its log gets the same mode from SQLite. One
// that is there keeps its mode.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("create the file: %w", err)
	}
	return f.Close()
}

func (d *sqliteDialect) name() string       { return "sqlite" }
func (d *sqliteDialect) begin() string      { return "BEGIN IMMEDIATE" }
func (d *sqliteDialect) snapshot() []string { return []string{"BEGIN DEFERRED"} }

func (d *sqliteDialect) dayOf(column string) string { return column + " / 86400000" }

// sumCount: TOTAL adds as floating point and never fails, SUM ends the query
// when it overflows.
func (d *sqliteDialect) sumCount() string {
	return "CASE WHEN ABS(TOTAL(count)) < 9.0e18 THEN SUM(count) ELSE CAST(TOTAL(count) AS INTEGER) END"
}

func (d *sqliteDialect) millis(ms int64) any { return ms }

func (d *sqliteDialect) scanMillis(v any) (int64, error) {
	ms, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("a time came as %T", v)
	}
	return ms, nil
}

func (d *sqliteDialect) noTable(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == sqlite3.SQLITE_ERROR && strings.Contains(e.Error(), "no such table")
}

// refusal says whether an error is about the data of a row. It is for a
// constraint, a type that a column does not take, or a value that is too big.
func (d *sqliteDialect) refusal(err error) (string, bool) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return "", false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG:
		return e.Error(), true
	}
	return "", false
}

// inspect looks at a user's table.
func (d *sqliteDialect) inspect(ctx context.Context, db *sql.DB, spec store.TableSpec) (*table, error) {
	wanted := spec.Table
	if schema, name, ok := strings.Cut(spec.Table, "."); ok {
		if !strings.EqualFold(schema, "main") {
			return nil, fmt.Errorf("a SQLite database has the schema main only, not %q", schema)
		}
		wanted = name
	}
	var name, kind string
	var strict bool
	err := db.QueryRowContext(ctx, query(d, "table"), wanted).Scan(&name, &kind, &strict)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, errors.New("there is no such table: create it")
	case err != nil:
		return nil, err
	case kind != "table":
		return nil, fmt.Errorf("it is a %s: name an ordinary table", kind)
	}
	columns, primary, err := d.columns(ctx, db, name, strict)
	if err != nil {
		return nil, err
	}
	t := &table{spec: spec, target: target{name: sqliteQuote(name)}}
	for _, c := range spec.Columns {
		t.columns = append(t.columns, sqliteQuote(c))
	}
	return t.judge(columns, func() ([]key, error) {
		keys, err := uniqueKeys(ctx, d, db, name)
		if len(primary.columns) > 0 {
			keys = append(keys, primary)
		}
		return keys, err
	}, func() string {
		return "CREATE UNIQUE INDEX " + sqliteQuote(name+"_"+spec.Dedupe) + " ON " + t.name + " (" + sqliteQuote(spec.Dedupe) + ")"
	})
}

// columns also returns the primary key: that of a rowid has no index.
func (d *sqliteDialect) columns(ctx context.Context, db *sql.DB, name string, strict bool) (columns []column, primary key, err error) {
	columns, err = list(ctx, d, db, func(scan scanner, c *column) error {
		var kind string
		var notNull, defaulted bool
		var pk, hidden int
		err := scan(&c.name, &kind, &notNull, &defaulted, &pk, &hidden)
		c.class = affinity(kind, strict)
		c.generated = hidden != 0
		c.nullable = !notNull
		c.required = notNull && !defaulted && pk == 0
		if pk > 0 {
			primary.columns = append(primary.columns, c.name)
		}
		return err
	}, rawQuery(d, "columns"), name)
	return columns, primary, err
}

// affinity is what SQLite makes of a declared type
// (https://sqlite.org/datatype3.html, section 3.1).
func affinity(declared string, strict bool) class {
	t := strings.ToUpper(declared)
	switch {
	case strict && t == "ANY":
		return classAny
	case strings.Contains(t, "INT"):
		return classInteger
	case strings.Contains(t, "CHAR"), strings.Contains(t, "CLOB"), strings.Contains(t, "TEXT"):
		return classText
	case t == "", strings.Contains(t, "BLOB"):
		return classAny
	case strings.Contains(t, "REAL"), strings.Contains(t, "FLOA"), strings.Contains(t, "DOUB"):
		return classNumber
	}
	return classInteger
}

func sqliteQuote(name string) string { return quote(`"`, []string{name}) }
