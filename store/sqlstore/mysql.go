package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"sluice/store"
)

// mysqlDialect is MariaDB and MySQL. What it has learnt of the server is set
// when it is opened, but for noInfile; feed belongs to the writing goroutine.
type mysqlDialect struct {
	plainSQL
	collation string // compares byte by byte, trailing spaces too
	packet    int64  // the server's max_allowed_packet, in bytes
	database  string
	reader    string // the name the driver knows feed by
	feed      []byte // what LOAD DATA reads next
	noInfile  atomic.Bool
	limits    string               // the statement that limits the writer's session
	patient   driver.Connector     // waits as long as a statement takes
	prepared  map[string]*sql.Stmt // of the writer's connection, by text
}

var _ dialect = (*mysqlDialect)(nil)

// minPacketBytes leaves room for the largest profile with its consent, and for a piece of a
// dead letter, escaped.
const minPacketBytes = 8 << 20

// readerNumber makes the readers' names unique in the process: the driver
// keeps them in one table for all.
var readerNumber atomic.Int64

// sessionSettings make errors errors, times UTC, and warnings readable: all
// of them are listed, in the language their key is looked up in.
const sessionSettings = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', " +
	"time_zone = '+00:00', max_error_count = 65535, lc_messages = 'en_US', autocommit = 1"

// silenceTimeout bounds how long the server may take to answer one statement:
// far longer than a bulk load or a migration of a small table.
const silenceTimeout = 5 * time.Minute

// readCommitted takes no gap locks, which two processes could meet on.
const readCommitted = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"

func openMySQL(ctx context.Context, rest string, options Options) (*Store, error) {
	cfg, connector, found, err := connectMySQL(rest)
	if err != nil {
		return nil, err
	}
	where := whereMySQL(cfg)
	patient := cfg.Clone()
	patient.ReadTimeout = 0
	slow, err := mysqlConnector(patient, found)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", where, err)
	}
	d := &mysqlDialect{patient: slow, database: cfg.DBName, reader: "sluice." + strconv.FormatInt(readerNumber.Add(1), 10)}
	reads := sql.OpenDB(&session{connector, func() []string { return []string{sessionSettings} }})
	err = d.look(ctx, reads, int(options.SessionTimeout/time.Second))
	if err == nil && options.Exclusive {
		err = d.writable(ctx, reads)
	}
	if err != nil {
		_ = reads.Close()
		return nil, fmt.Errorf("open database %s: %w", where, explained(err))
	}
	writing := &session{connector, func() []string { return []string{sessionSettings, readCommitted, d.limits} }}
	writes := sql.OpenDB(writing)
	mysql.RegisterReaderHandler(d.reader, func() io.Reader { return &feedReader{d.feed} })
	s := newStore(d, options, where, reads, writes)
	s.setSmall(sql.OpenDB(writing))
	if _, several := connector.(*hosts); several {
		s.moves = found.moves.Load
		reads.SetConnMaxLifetime(severalHostsLifetime)
		s.small.SetConnMaxLifetime(severalHostsLifetime)
	}
	s.unlock = func() error { mysql.DeregisterReaderHandler(d.reader); return nil }
	return s, nil
}

// connectMySQL returns how connections to a database are made, and which of several
// servers they found.
func connectMySQL(rest string) (*mysql.Config, driver.Connector, *foundHost, error) {
	cfg, err := mysqlConfig(rest)
	if err != nil {
		return nil, nil, nil, err
	}
	cfg.Logger, cfg.InterpolateParams, cfg.ParseTime, cfg.Loc = &mysql.NopLogger{}, true, true, time.UTC
	cfg.MultiStatements, cfg.ClientFoundRows, cfg.AllowAllFiles = false, false, false
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	// A server that is there and says nothing, as one that is stopped, is given up. So
	// is one that has become read-only: by now another primary is at its address. One
	// whose machine has vanished is given up much sooner (dial.go).
	cfg.DialFunc = dialServer
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = silenceTimeout
	}
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = silenceTimeout
	}
	cfg.RejectReadOnly = true
	found := &foundHost{every: hostsLookEvery}
	connector, err := mysqlConnector(cfg, found)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open database %s: %w", whereMySQL(cfg), err)
	}
	return cfg, connector, found, nil
}

// mysqlConnector returns what connects to the server, or the servers, of a URL.
func mysqlConnector(cfg *mysql.Config, found *foundHost) (driver.Connector, error) {
	if cfg.Net != "tcp" || !strings.Contains(cfg.Addr, ",") {
		c, err := mysql.NewConnector(cfg)
		return &mysqlHost{c}, err
	}
	h := &hosts{foundHost: found, names: strings.Split(cfg.Addr, ","), judge: found.judgeMySQL, within: cfg.Timeout}
	for _, address := range h.names {
		one := cfg.Clone()
		one.Addr = address
		c, err := mysql.NewConnector(one)
		if err != nil {
			return nil, err
		}
		h.all = append(h.all, c)
	}
	return h, nil
}

// whereMySQL is what messages call a database.
func whereMySQL(cfg *mysql.Config) string { return cfg.DBName + " at " + cfg.Addr }

// feedReader reads a buffer; bytes.Reader would let the driver see more of it.
type feedReader struct{ rest []byte }

func (r *feedReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// session is a connector whose connections begin with some statements.
type session struct {
	driver.Connector
	statements func() []string
}

func (c *session) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, statement := range c.statements() {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, statement, nil); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("set up session: %w", err)
		}
	}
	return conn, nil
}

// look asks the server what it is, and decides on the limits of the writer's
// session. They bound how long a stopped process holds its locks. In the middle
// of a load it is net_read_timeout, between two statements
// idle_transaction_timeout. MySQL has no such setting: there it is
// wait_timeout, which also ends connections that are merely quiet and so is
// only second best.
//
// net_read_timeout is half of the others. A server that gives up on a load
// still tries to read the rest of the stream, and waits a second time.
func (d *mysqlDialect) look(ctx context.Context, db *sql.DB, seconds int) error {
	var version string
	var infile bool
	if err := db.QueryRowContext(ctx, query(d, "server")).Scan(&version, &infile, &d.packet, &d.database); err != nil {
		return err
	}
	if d.packet < minPacketBytes {
		return fmt.Errorf("its max_allowed_packet is %d bytes, at least %d are needed: raise it in the server's configuration", d.packet, minPacketBytes)
	}
	d.noInfile.Store(!infile)
	err := db.QueryRowContext(ctx, query(d, "collation")).Scan(&d.collation)
	if err != nil {
		return fmt.Errorf("find a collation that compares bytes (server version %s; MariaDB 10.2 and MySQL 8.0.17 have one): %w", version, err)
	}
	idle := "idle_transaction_timeout"
	var name, value string
	err = db.QueryRowContext(ctx, query(d, "idle_variable")).Scan(&name, &value)
	if errors.Is(err, sql.ErrNoRows) {
		idle, err = "wait_timeout", nil
	}
	if err != nil {
		return err
	}
	n := strconv.Itoa(seconds)
	d.limits = "SET SESSION " + strings.Join([]string{
		idle + " = " + n, "net_read_timeout = " + strconv.Itoa(max(1, seconds/2)), "net_write_timeout = " + n,
		"innodb_lock_wait_timeout = " + n, "lock_wait_timeout = " + n,
	}, ", ")
	return nil
}

// writable refuses a read-only server for a program that writes. The driver would say of
// each write that its connection is bad.
func (d *mysqlDialect) writable(ctx context.Context, db *sql.DB) error {
	var is bool
	err := db.QueryRowContext(ctx, query(d, "writable")).Scan(&is)
	if err == nil && !is {
		err = fmt.Errorf("%w: name the primary, or several hosts (HOST:PORT,HOST:PORT); on a primary SET GLOBAL read_only = 0", errReadOnly)
	}
	return err
}

func (d *mysqlDialect) name() string           { return "mysql" }
func (d *mysqlDialect) begin() string          { return "BEGIN" }
func (d *mysqlDialect) transactionalDDL() bool { return false }

func (d *mysqlDialect) dayOf(column string) string { return "DATEDIFF(" + column + ", '1970-01-01')" }

// sumCount: sums are decimals here, and cannot overflow.
func (d *mysqlDialect) sumCount() string {
	return "CAST(LEAST(9223372036854775807, GREATEST(-9223372036854775807, SUM(count))) AS SIGNED)"
}

func (d *mysqlDialect) number(v uint64) any { return v }

// waitLonger sets the session's limit, which has no form for one transaction in MySQL.
func (d *mysqlDialect) waitLonger(ctx context.Context, conn *sql.Conn, most time.Duration) (func() error, error) {
	_, err := conn.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = "+strconv.Itoa(int(most/time.Second)))
	return func() error {
		_, err := conn.ExecContext(ctx, d.limits)
		return err
	}, err
}

// snapshot also lets the server wait for a reader that is slow.
func (d *mysqlDialect) snapshot() []string {
	return []string{
		"SET SESSION net_write_timeout = 3600",
		"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
	}
}

func (d *mysqlDialect) expand(statement string) string {
	return strings.ReplaceAll(statement, "$BIN", d.collation)
}

func (d *mysqlDialect) millis(ms int64) any {
	var text datetime
	return string(text.append(nil, ms))
}

// raise gets the number by LAST_INSERT_ID: an UPDATE returns no rows here.
func (d *mysqlDialect) raise(ctx context.Context, tx *txn, name string, args ...any) (int64, error) {
	result, err := tx.conn.ExecContext(ctx, query(d, name), args...)
	if err != nil {
		return 0, err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return 0, cmp.Or(err, sql.ErrNoRows)
	}
	return result.LastInsertId()
}

func (d *mysqlDialect) forget() { d.prepared = nil } // they are closed with the connection

// migrationConn takes a lock that is a row: a DDL statement commits, so no
// transaction can hold several of them together. Its connection has no bound on
// silence: a statement may have to copy a large table.
func (d *mysqlDialect) migrationConn(ctx context.Context, _ *Store) (*sql.Conn, func(), error) {
	db := sql.OpenDB(&session{d.patient, func() []string { return []string{sessionSettings} }})
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	err = noStatementTime(ctx, conn, query(d, "statement_time"))
	var lock *rowLock
	if err == nil {
		lock, err = d.lockMigrations(ctx, db)
	}
	if err != nil {
		_, _ = conn.Close(), db.Close()
		return nil, nil, err
	}
	return conn, func() {
		lock.release()
		_, _ = conn.Close(), db.Close()
	}, nil
}

// noStatementTime frees a connection of MariaDB's bound on the time of any statement,
// of the server or the user. MySQL bounds only what reads.
func noStatementTime(ctx context.Context, conn *sql.Conn, asks string) error {
	var name, value string
	err := conn.QueryRowContext(ctx, asks).Scan(&name, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, "SET SESSION max_statement_time = 0")
	}
	if err != nil {
		return fmt.Errorf("take max_statement_time off the migration: %w", err)
	}
	return nil
}

// inspect looks at a user's table through information_schema. A view is
// refused: what is behind it may not be transactional, and its unique keys
// cannot be seen.
func (d *mysqlDialect) inspect(ctx context.Context, db *sql.DB, spec store.TableSpec) (*table, error) {
	schema, name, ok := strings.Cut(spec.Table, ".")
	if !ok {
		schema, name = d.database, spec.Table
	}
	var kind, engine, transactions string
	err := db.QueryRowContext(ctx, query(d, "table"), schema, name).Scan(&kind, &engine, &transactions)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("there is no such table in database %q, or this user may not see it: create it, or grant INSERT on it", schema)
	case err != nil:
		return nil, err
	case kind != "BASE TABLE" && kind != "SYSTEM VERSIONED":
		return nil, fmt.Errorf("it is a %s: name the table behind it", strings.ToLower(kind))
	case transactions != "YES":
		return nil, fmt.Errorf("its engine %s cannot roll back, so rows could be lost or doubled: ALTER TABLE %s ENGINE=InnoDB", engine, mysqlQuote(schema, name))
	}
	columns, err := d.columns(ctx, db, schema, name)
	if err != nil {
		return nil, err
	}
	t := &table{spec: spec, target: target{name: mysqlQuote(schema, name), foreign: true}}
	for _, c := range spec.Columns {
		t.columns = append(t.columns, mysqlQuote(c))
	}
	return t.judge(columns, func() ([]key, error) { return uniqueKeys(ctx, d, db, schema, name) }, func() string {
		return "ALTER TABLE " + t.name + " ADD UNIQUE KEY (" + mysqlQuote(spec.Dedupe) + ")"
	})
}

func (d *mysqlDialect) columns(ctx context.Context, db *sql.DB, schema, name string) ([]column, error) {
	return list(ctx, d, db, func(scan scanner, c *column) error {
		var kind, nullable, extra string
		var defaulted bool
		err := scan(&c.name, &kind, &nullable, &defaulted, &extra)
		switch strings.ToLower(kind) {
		case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "year":
			c.class = classNumber
		case "bit":
			c.class = classBit
		}
		extra = strings.ToUpper(extra)
		c.generated = strings.Contains(extra, "VIRTUAL GENERATED") || strings.Contains(extra, "STORED GENERATED") || strings.Contains(extra, "PERSISTENT")
		c.nullable = nullable != "NO"
		c.required = !c.nullable && !defaulted && !strings.Contains(extra, "AUTO_INCREMENT")
		return err
	}, rawQuery(d, "columns"), schema, name)
}

func mysqlQuote(names ...string) string { return quote("`", names) }
