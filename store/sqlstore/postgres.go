package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"sluice/lib/dialer"
	"sluice/store"
)

// postgresDialect is PostgreSQL. Rows go in by COPY in its text form, which is
// nearly that of LOAD DATA (encode.go).
//
// An error inside a transaction ends it there. So a statement that may fail
// without ending the work runs behind a savepoint. That is a COPY that may meet
// a duplicate, and each row of ApplyEach.
//
// A stopped process is thrown out by the server's own limits when it stops
// between two statements. In the middle of a COPY there is no such limit. The
// server waits for the next piece of the stream as long as the connection is
// open. It does not look at statement_timeout there. So a process that waits in
// vain for the stopped process's cursors ends that session (unblock). The
// locked row names the transaction, and that the process.
type postgresDialect struct {
	plainSQL
	temp   bool            // the user may make temporary tables
	copies map[string]bool // writing goroutine: tables whose last load had duplicates
	lock   time.Duration   // how long a statement waits for a lock
}

var _ dialect = (*postgresDialect)(nil)

// minPostgres is the first version with generated columns in its catalog.
const minPostgres = 120000

// The server's error codes that this package decides on.
const (
	pgUniqueViolation = "23505"
	pgCheckViolation  = "23514"
	pgUndefinedTable  = "42P01"
	pgLockTimeout     = "55P03"
)

// quietFor is how long a connection is taken for alive because nothing was heard of its end.
const quietFor = time.Second

// mayBeLost reports whether a connection that was idle is asked before it is used: the
// driver does not try a query again whose connection is lost. Its server says so when it ends
// a connection, and the machine does if the server dies. So the one that was used just now
// is asked if something has come alone: to ask is a round trip, as long as many a query.
func mayBeLost(_ context.Context, p stdlib.ShouldPingParams) bool {
	return p.IdleDuration > quietFor || !dialer.Quiet(p.Conn.PgConn().Conn())
}

func openPostgres(ctx context.Context, address string, options Options) (*Store, error) {
	servers, err := postgresServersOf(address)
	if err != nil {
		return nil, err
	}
	where := servers.where()
	d := &postgresDialect{copies: map[string]bool{}, lock: postgresLockTimeout(options.SessionTimeout)}
	reads := sql.OpenDB(servers.connector(stdlib.OptionAfterConnect(setUpPostgres), stdlib.OptionShouldPing(mayBeLost)))
	if err := d.look(ctx, reads, options.ReadOnly); err != nil {
		_ = reads.Close()
		return nil, fmt.Errorf("open database %s: %w", where, err)
	}
	idle := strconv.FormatInt(options.SessionTimeout.Milliseconds(), 10)
	lock := strconv.FormatInt(d.lock.Milliseconds(), 10)
	writing := stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		if err := setUpPostgres(ctx, conn); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, query(d, "limits"), idle, lock, idle); err != nil {
			return fmt.Errorf("limit session: %w", err)
		}
		return nil
	})
	s := newStore(d, options, where, reads, sql.OpenDB(servers.connector(writing)))
	s.setSmall(sql.OpenDB(servers.connector(writing, stdlib.OptionShouldPing(mayBeLost))))
	if servers.found != nil {
		s.moves = servers.found.moves.Load
	}
	return s, nil
}

// postgresLockTimeout is how long a statement waits for a lock: less than the session limit,
// since one waits for the lock of a silent session and ends it (unblock). And it is longer
// than the server's deadlock_timeout, which is 1 s by default, and which only a superuser
// may change. With the same time both transactions of a circle would give up at once, before
// the server has chosen one of them.
func postgresLockTimeout(session time.Duration) time.Duration {
	return max(time.Second, session*5/8)
}

// setUpPostgres makes times UTC and read as they are written here, whatever
// the server, the database or the user has for a default.
func setUpPostgres(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SET timezone = 'UTC'; SET datestyle = 'ISO, YMD'; SET client_encoding = 'UTF8'; SET standard_conforming_strings = on; SET bytea_output = 'hex'")
	if err != nil {
		return fmt.Errorf("set up session: %w", err)
	}
	return nil
}

// look asks the server what it is.
func (d *postgresDialect) look(ctx context.Context, db *sql.DB, readOnly bool) error {
	var number int
	var version, encoding string
	var replica bool
	if err := db.QueryRowContext(ctx, query(d, "server")).Scan(&number, &version, &encoding, &replica, &d.temp); err != nil {
		return err
	}
	switch {
	case number < minPostgres:
		return fmt.Errorf("the server is PostgreSQL %s, at least 12 is needed", version)
	case encoding != "UTF8":
		return fmt.Errorf("the database's encoding is %s, which does not hold every text: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0", encoding)
	case replica && !readOnly:
		return errors.New("the server is a replica and takes no writes: name the primary, or several hosts and target_session_attrs=read-write")
	}
	return nil
}

func (d *postgresDialect) name() string { return "postgres" }

func (d *postgresDialect) dayOf(column string) string {
	return "CAST(FLOOR(EXTRACT(EPOCH FROM " + column + ") / 86400) AS bigint)"
}

// sumCount: sums are decimals here, and cannot overflow.
func (d *postgresDialect) sumCount() string {
	return "LEAST(9223372036854775807, GREATEST(-9223372036854775807, SUM(count)))::bigint"
}

func (d *postgresDialect) millis(ms int64) any  { return time.UnixMilli(ms).UTC() }
func (d *postgresDialect) text(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }

// begin also has constraints checked by each statement that a table defers to
// the COMMIT: an error of the COMMIT would name no row.
func (d *postgresDialect) begin() string {
	return "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET CONSTRAINTS ALL IMMEDIATE"
}

func (d *postgresDialect) unlimited() []string {
	// PostgreSQL has transaction_timeout from version 17 on.
	return []string{"SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')"}
}

// waitLonger of PostgreSQL ends with the transaction.
func (d *postgresDialect) waitLonger(ctx context.Context, conn *sql.Conn, most time.Duration) (func() error, error) {
	_, err := conn.ExecContext(ctx, "SET LOCAL lock_timeout = "+strconv.FormatInt(most.Milliseconds(), 10))
	return func() error { return nil }, err
}

// snapshot also has tables read along their keys. A sort would have to finish,
// in files as large as the table, before the first row comes.
func (d *postgresDialect) snapshot() []string {
	return append(append([]string{"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}, d.unlimited()...), "SET LOCAL enable_sort = off")
}

// commit looks at the answer: the COMMIT of a transaction in which a statement
// has failed is no error, but a ROLLBACK.
func (d *postgresDialect) commit(ctx context.Context, conn *sql.Conn) error {
	return rawPostgres(conn, func(pg *pgconn.PgConn) error {
		tag, err := execPostgres(ctx, pg, "COMMIT")
		if err == nil && tag.String() != "COMMIT" {
			err = fmt.Errorf("the server answered %q: the transaction had failed before", tag)
		}
		return err
	})
}

// placeholders writes the placeholders as PostgreSQL has them. No statement of ours
// has a question mark in it for anything else.
func (d *postgresDialect) placeholders(statement string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, ok := strings.Cut(statement, "?")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		statement = after
	}
}

func (d *postgresDialect) insertID(ctx context.Context, conn *sql.Conn, statement string, args ...any) (id int64, err error) {
	err = conn.QueryRowContext(ctx, statement+" RETURNING id", args...).Scan(&id)
	return id, err
}

// unblock ends a session that is silent and has held one of the cursors for
// longer than a statement waits. It is that of a stopped process, or of one
// with a slow stream. Then that process has lost its lease, or we have, and one
// of us will learn so from the cursor. The caller's transaction has failed; its
// next attempt gets through.
func (d *postgresDialect) unblock(ctx context.Context, s *Store, moves []store.Move, cause error) {
	if !isPostgres(cause, pgLockTimeout) {
		return
	}
	for _, m := range moves {
		var ended int
		err := s.reads.QueryRowContext(ctx, query(d, "unblock"), m.Follower, m.Partition, d.lock.Seconds()).Scan(&ended)
		if err != nil || ended > 0 {
			return // the next attempt waits, and tries this, again
		}
	}
}

// inspect looks at a user's table through pg_catalog. A name is taken as it is
// written, or else as the server takes one without quotes: in lower case.
func (d *postgresDialect) inspect(ctx context.Context, db *sql.DB, spec store.TableSpec) (*table, error) {
	names := strings.SplitN(spec.Table, ".", 2)
	var id int64
	var schema, name, kind, persistence, odd string
	var secured, ruled, mayInsert, maySelect bool
	err := db.QueryRowContext(ctx, query(d, "table"), postgresQuote(names...), strings.ToLower(postgresQuote(names...))).
		Scan(&id, &schema, &name, &kind, &persistence, &secured, &ruled, &mayInsert, &maySelect, &odd)
	quoted := postgresQuote(schema, name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, errors.New("there is no such table, or its schema is not in the search_path: create it, or write schema.table")
	case err != nil:
		return nil, err
	case kind != "r" && kind != "p":
		return nil, fmt.Errorf("it is a %s: name an ordinary or partitioned table", relationKind(kind))
	case persistence == "u":
		return nil, fmt.Errorf("it is unlogged: a crash of the server would empty it, and what is stored is not sent again: ALTER TABLE %s SET LOGGED", quoted)
	case persistence != "p":
		return nil, errors.New("it is temporary, and ends with its session: name an ordinary table")
	case odd != "":
		return nil, fmt.Errorf("its partition %s is foreign, unlogged or no table: rows could be lost there: detach it, or make it an ordinary one", odd)
	case secured:
		return nil, fmt.Errorf("its row-level security applies to this user, and COPY does not work with that: give the user BYPASSRLS, or disable it")
	case ruled:
		return nil, errors.New("it has a rule for INSERT, which COPY does not follow: use a trigger instead")
	case !mayInsert || spec.Dedupe != "" && !maySelect:
		return nil, fmt.Errorf("this user may not write it: GRANT INSERT, SELECT ON %s (SELECT finds the duplicates)", quoted)
	}
	columns, err := d.columns(ctx, db, id)
	if err != nil {
		return nil, err
	}
	real, err := realNames(spec, columns)
	if err != nil {
		return nil, err
	}
	t := &table{spec: spec, target: target{name: quoted}}
	for _, c := range real {
		t.columns = append(t.columns, postgresQuote(c))
	}
	return t.judge(columns, func() ([]key, error) { return uniqueKeys(ctx, d, db, id) }, func() string {
		return "ALTER TABLE " + quoted + " ADD UNIQUE (" + t.columns[slices.Index(spec.Columns, spec.Dedupe)] + ")"
	})
}

func relationKind(kind string) string {
	names := map[string]string{"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence", "i": "index", "I": "index", "c": "type"}
	if name, ok := names[kind]; ok {
		return name
	}
	return "relation of kind " + kind
}

// realNames returns a spec's columns as the table has them. Two that differ in
// case only would be taken for each other.
func realNames(spec store.TableSpec, columns []column) ([]string, error) {
	names := make([]string, len(spec.Columns))
	for i, wanted := range spec.Columns {
		for _, c := range columns {
			if !strings.EqualFold(c.name, wanted) {
				continue
			}
			if names[i] != "" {
				return nil, fmt.Errorf("its columns %q and %q differ in case only: rename one", names[i], c.name)
			}
			names[i] = c.name
		}
	}
	return names, nil
}

func (d *postgresDialect) columns(ctx context.Context, db *sql.DB, id int64) ([]column, error) {
	return list(ctx, d, db, func(scan scanner, c *column) error {
		var category string
		err := scan(&c.name, &category, &c.generated, &c.nullable, &c.required)
		if category == "N" {
			c.class = classNumber
		}
		return err
	}, rawQuery(d, "columns"), id)
}

func postgresQuote(names ...string) string { return quote(`"`, names) }

func (d *postgresDialect) noTable(err error) bool { return isPostgres(err, pgUndefinedTable) }

func isPostgres(err error, code string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == code
}

// refusal says whether an error is about the data of a row. It is for a
// conversion or a length (22), a constraint (23), a limit such as that of an
// index's entry (54), or a trigger's error (P0). All else is the server's
// state, which passes or needs an operator; dead letters made for it would be
// good rows.
func (d *postgresDialect) refusal(err error) (string, bool) {
	var e *pgconn.PgError
	if !errors.As(err, &e) || len(e.Code) < 2 {
		return "", false
	}
	reason := e.Message + " (" + e.Code + ")"
	switch e.Code[:2] {
	case "22", "23", "54", "P0":
		return reason, true
	}
	return reason, false
}
