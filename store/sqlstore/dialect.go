package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

//go:embed query/*.sql
var queryFiles embed.FS

//go:embed schema
var schemaFiles embed.FS

// dialect is what differs between databases. A dialect has no state of its own
// but what it has learnt of its server; the Store owns the connections.
type dialect interface {
	// name is the directory of the schema and the middle part of a query's file.
	name() string

	// begin is the statement that begins a transaction that will write; commit
	// ends it.
	begin() string
	commit(ctx context.Context, conn *sql.Conn) error

	// snapshot are the statements that begin a transaction which only reads, at
	// the moment of its first read, for as long as it takes.
	snapshot() []string

	// placeholders writes a statement's placeholders, which are ? in ours, as the
	// database has them.
	placeholders(statement string) string

	// insertNew is a statement for insertRows that passes over rows whose key is there.
	insertNew(table string, columns []string) string

	// insertID runs an INSERT and returns the id it has given.
	insertID(ctx context.Context, conn *sql.Conn, statement string, args ...any) (int64, error)

	// raise runs a named UPDATE of one number and returns what it is now, by one
	// statement; sql.ErrNoRows: there is none.
	raise(ctx context.Context, tx *txn, name string, args ...any) (int64, error)

	// expand replaces in a migration what the server decides ($BIN).
	expand(statement string) string

	// types writes the types that a migration for all dialects names by marks.
	types() *strings.Replacer

	// migrationConn returns the connection migrations run on, holding a lock
	// against other processes, and a function that ends both.
	migrationConn(ctx context.Context, s *Store) (*sql.Conn, func(), error)

	// transactionalDDL says whether migrations roll back with a transaction.
	transactionalDDL() bool

	// unlimited are the statements that free a transaction of the server's bounds on
	// time: a migration of large tables takes as long as it takes.
	unlimited() []string

	// waitLonger lets a transaction wait so long for each lock, until usual is called
	// before its COMMIT. It is for a connection for small writes.
	waitLonger(ctx context.Context, conn *sql.Conn, most time.Duration) (usual func() error, err error)

	// refusal says whether an error is about the data of a row, and its reason.
	refusal(err error) (string, bool)

	// noTable says whether an error means that a table does not exist.
	noTable(err error) bool

	// number is how a Position's half or another uint64 is bound, millis how a
	// time is; scanMillis reads what millis wrote.
	number(v uint64) any
	millis(ms int64) any
	scanMillis(v any) (int64, error)

	// dayOf is the day of a column with a time, as days since 1970.
	dayOf(column string) string

	// sumCount is the sum of the column count, as an integer within 64 bits.
	sumCount() string

	// text is a text of a dead letter as the database can store it.
	text(s string) string

	// connections returns how many connections of the user there may be, and how many
	// there are of all.
	connections(ctx context.Context, conn *sql.Conn) (most, used int64, err error)

	// unblock is told of an error of the compare-and-set. If that is of waiting
	// for another's locks, it may free them for the next attempt.
	unblock(ctx context.Context, s *Store, moves []store.Move, cause error)

	// inspect looks at a user's table.
	inspect(ctx context.Context, db *sql.DB, spec store.TableSpec) (*table, error)

	// encode makes a section ready for the bulk path, or says which row can
	// never be stored. release gives its memory back.
	encode(sec *section) error
	release(sec *section)

	// load writes a section by the bulk path. Errors that wrap
	// sluice.ErrRefused mean that the caller must try row by row.
	load(ctx context.Context, tx *txn, sec *section) (rows, duplicates int, err error)

	// keysAtOnce is how many keys of users are looked up by one statement.
	keysAtOnce() int

	// ofEvents is a named statement about those events that are there, by their keys,
	// and its values.
	ofEvents(name string, events []sluice.EventKey) (statement string, args []any)

	// lockSends is a query for rows of sends, which locks them, and its values.
	lockSends(keys []mail.SendKey) (statement string, args []any)

	// hasTag is a condition that the column tags of sends has one.
	hasTag() string

	// insertRows runs a statement whose $ROWS are rows of so many values, in
	// pieces, and returns how many rows it changed.
	insertRows(ctx context.Context, tx *txn, statement string, columns int, args []any) (changed int64, err error)

	// userMarks writes how statements find users; userArgs are the values of those that
	// find users of a partition by their numbers, usersAfter of one that reads those
	// behind a number.
	userMarks() *strings.Replacer
	userArgs(partition int, numbers ...any) []any
	usersAfter(partition int, number int64) []any

	// putUsers writes users, of which some may be there: one, or up to
	// maxUserRowBytes of profiles.
	putUsers(ctx context.Context, tx *txn, rows []user.Row) error

	// insertLarge runs a named statement whose $ROWS are rows of so many values, of
	// which one has kilobytes, in the transaction of the writing connection.
	insertLarge(ctx context.Context, tx *txn, name string, columns int, args []any) error

	// inserter writes the rows of a section one at a time.
	inserter(ctx context.Context, tx *txn, sec *section) (inserter, error)

	// keyOf is the order in which the rows of one of our tables are read; restored makes
	// of cells, rows of a table by a dump's columns, rows of the columns that it has here.
	keyOf(t *standardTable) []string
	restored(t *table, cells []store.Cell) ([]store.Cell, error)

	// empty removes all rows of one of our tables; timeClass is what its columns
	// of times take; afterRestore is done in a restore's last transaction.
	empty(ctx context.Context, conn *sql.Conn, table string) error
	timeClass() class
	afterRestore(ctx context.Context, conn *sql.Conn) error

	// spanQuery lists the partitions of events: name and the date of its end, or
	// an empty text; none if it cannot be divided. lockSpans sets a short lock
	// timeout on the connection, and takes the lock of the process that changes
	// the partitions. addSpans makes partitions out of the one that has no end,
	// each beginning where the one before it ends. dropSpan drops one with its
	// rows. spanPrefix is what their names begin with.
	spanQuery() string
	spanPrefix() string
	lockSpans(ctx context.Context, s *Store, conn *sql.Conn) (unlock func(), err error)
	addSpans(ctx context.Context, conn *sql.Conn, spans []eventSpan) error
	dropSpan(ctx context.Context, conn *sql.Conn, span eventSpan) error

	// forget drops what hangs on the writer's connection before that is closed.
	forget()
}

// inserter writes row after row. A refused row leaves the transaction as it
// was before that row.
type inserter interface {
	insert(ctx context.Context, i int) (outcome, error)
	close()
}

// outcome is what became of one row.
type outcome struct {
	duplicate bool
	refused   string // the server's reason; empty: it was not refused
}

// plainSQL is what a dialect has that does it no other way: as two of the three do, or
// as one alone needs it.
type plainSQL struct{}

func (plainSQL) placeholders(statement string) string                 { return statement }
func (plainSQL) text(s string) string                                 { return s }
func (plainSQL) unblock(context.Context, *Store, []store.Move, error) {}
func (plainSQL) forget()                                              {}
func (plainSQL) expand(statement string) string                       { return statement }
func (plainSQL) transactionalDDL() bool                               { return true }
func (plainSQL) unlimited() []string                                  { return nil }
func (plainSQL) waitLonger(context.Context, *sql.Conn, time.Duration) (func() error, error) {
	return func() error { return nil }, nil
}
func (plainSQL) number(v uint64) any  { return int64(v) }
func (plainSQL) release(sec *section) { releaseSection(sec) }

func (plainSQL) scanMillis(v any) (int64, error) {
	t, ok := v.(time.Time)
	if !ok {
		return 0, fmt.Errorf("a time came as %T", v)
	}
	return t.UnixMilli(), nil
}

func (plainSQL) migrationConn(context.Context, *Store) (*sql.Conn, func(), error) {
	return nil, nil, errors.New("its migrations run in the writer's transaction")
}

func (plainSQL) commit(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "COMMIT")
	return err
}

func (plainSQL) insertID(ctx context.Context, conn *sql.Conn, statement string, args ...any) (int64, error) {
	result, err := conn.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func (plainSQL) raise(ctx context.Context, tx *txn, name string, args ...any) (number int64, err error) {
	err = tx.conn.QueryRowContext(ctx, query(tx.store.d, name), args...).Scan(&number)
	return number, err
}

// quote writes the parts of a name between marks.
func quote(mark string, names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = mark + strings.ReplaceAll(n, mark, mark+mark) + mark
	}
	return strings.Join(quoted, ".")
}

// query returns the statement kept in query/NAME.DIALECT.sql or query/NAME.sql.
func query(d dialect, name string) string { return d.placeholders(rawQuery(d, name)) }

// rawQuery is query with the placeholders as they are kept, for statements that
// are put together.
func rawQuery(d dialect, name string) string {
	b, err := queryFiles.ReadFile("query/" + name + "." + d.name() + ".sql")
	if err != nil {
		b, err = queryFiles.ReadFile("query/" + name + ".sql")
	}
	if err != nil {
		panic(fmt.Sprintf("sqlstore: no query %q for %s", name, d.name()))
	}
	return d.userMarks().Replace(strings.TrimSpace(string(b)))
}
