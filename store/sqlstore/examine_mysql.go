package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"sluice/lib/doctor"
	"sluice/lib/netaddr"
)

// What a MySQL or MariaDB server answers to a user without rights.
const (
	errNoDatabaseRight = 1044
	errNoAccess        = 1045
	errNoSuchDatabase  = 1049
	errNoTableRight    = 1142
	errNoColumnRight   = 1143
)

// mysqlChecks are what is unknown of a server that does not answer.
var mysqlChecks = []doctor.Check{
	doctor.CheckDatabaseVersion, doctor.CheckDatabaseWritable, doctor.CheckDatabaseSchema, doctor.CheckDatabaseRights, doctor.CheckDatabasePacket,
	doctor.CheckDatabaseInfile, doctor.CheckDatabaseStrict, doctor.CheckDatabaseTimeZone, doctor.CheckDatabaseClock,
	doctor.CheckDatabaseDurability, doctor.CheckDatabaseConnections, doctor.CheckDatabaseMemory,
}

// mysqlServer is what a server says of itself to a session without settings.
type mysqlServer struct {
	version, mode, directory string
	packet                   int64
	infile, readOnly         bool
	aheadMinutes             int // its time zone's of UTC
}

func (x *Examiner) mysql(ctx context.Context, e *doctor.Examination, rest string) {
	d := &mysqlDialect{}
	cfg, connector, _, err := connectMySQL(rest)
	if err != nil {
		e.Where = "database"
		e.Fail(doctor.CheckDatabaseReachable, urlForms, "%s", err)
		return
	}
	e.Where, d.database = whereMySQL(cfg), cfg.DBName
	mysqlHostsOf(ctx, e, connector)
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(ctx)
	var is mysqlServer
	if err == nil {
		defer conn.Close()
		err = conn.QueryRowContext(ctx, query(d, "examine")).Scan(&is.version, &is.packet, &is.infile, &is.mode, &is.readOnly, &is.directory, &is.aheadMinutes)
	}
	if err != nil {
		e.Fail(doctor.CheckDatabaseReachable, mysqlRemedy(err), "%s", doctor.OneLine(err))
		e.Unknown(errNotAsked, mysqlChecks...)
		return
	}
	e.Fine(doctor.CheckDatabaseReachable, "it answers")
	x.mysqlVersion(ctx, e, conn, d, is.version)
	judge(e, !is.readOnly, e.Fail, doctor.CheckDatabaseWritable, "name the primary, or SET GLOBAL read_only = 0", "the server is read-only, as replicas are", "the server takes writes")
	is.judge(e)
	x.clock(ctx, e, d, conn)
	mysqlDurability(ctx, e, conn, d)
	x.connections(ctx, e, conn, d)
	tableMemory(ctx, e, conn, d, mysqlMemory)
	if cfg.Net == "unix" || netaddr.IsLoopback(hostOf(cfg.Addr)) {
		e.Directory = is.directory
	}
	if !x.Brief {
		x.mysqlTables(ctx, e, conn, d, connector)
	}
}

// mysqlTables looks at the tables, and at the rights on them.
func (x *Examiner) mysqlTables(ctx context.Context, e *doctor.Examination, conn *sql.Conn, d *mysqlDialect, connector driver.Connector) {
	s := newStore(d, Options{ReadOnly: true, ReadConns: 2, Clock: x.Clock}, e.Where, sql.OpenDB(connector), sql.OpenDB(connector))
	defer s.reads.Close()
	defer s.writes.Close()
	complete := x.schema(ctx, e, s)
	x.mysqlTableRights(ctx, e, conn, d, complete)
	x.judgeRights(e, func(verb, table string, columns []string) (bool, error) {
		return d.may(ctx, conn, verb, table, columns)
	}, complete)
	if complete {
		x.ledger(ctx, e, s)
	}
	x.ownTables(ctx, e, s)
}

func mysqlRemedy(err error) string {
	if m, ok := errors.AsType[*mysql.MySQLError](err); ok {
		switch m.Number {
		case errNoAccess:
			return "see that user and password of the URL are right, and that the user may come from this host"
		case errNoDatabaseRight, errNoSuchDatabase:
			return "CREATE DATABASE, and GRANT ALL ON it TO the user"
		}
	}
	return unreachedRemedy(err)
}

func (x *Examiner) mysqlVersion(ctx context.Context, e *doctor.Examination, conn *sql.Conn, d *mysqlDialect, version string) {
	err := conn.QueryRowContext(ctx, query(d, "collation")).Scan(&d.collation)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		e.Fail(doctor.CheckDatabaseVersion, "install MariaDB 10.2 or newer, or MySQL 8.0.17 or newer", "the server is %s, which has no collation that compares bytes", version)
	case err != nil:
		e.Unknown(err, doctor.CheckDatabaseVersion)
	default:
		e.Fine(doctor.CheckDatabaseVersion, "the server is %s", version)
	}
}

// judge looks at the server's settings.
func (is *mysqlServer) judge(e *doctor.Examination) {
	judge(e, is.packet >= minPacketBytes, e.Fail, doctor.CheckDatabasePacket, "SET GLOBAL max_allowed_packet = 67108864, and the same in my.cnf",
		fmt.Sprintf("max_allowed_packet is %d bytes, at least %d are needed", is.packet, minPacketBytes), fmt.Sprintf("max_allowed_packet is %d MiB", is.packet>>20))
	judge(e, is.infile, e.Warn, doctor.CheckDatabaseInfile, "SET GLOBAL local_infile = 1, and the same in my.cnf, then restart sluice",
		"local_infile is off: rows go in by INSERT, at a fraction of the speed", "local_infile is on")
	judge(e, strings.Contains(is.mode, "STRICT_TRANS_TABLES") || strings.Contains(is.mode, "STRICT_ALL_TABLES"), e.Warn, doctor.CheckDatabaseStrict, "add STRICT_TRANS_TABLES to sql_mode in my.cnf",
		fmt.Sprintf("sql_mode is %q: other programs' values are cut to fit without a word; Sluice's own sessions are strict", is.mode), "sql_mode is strict")
	judge(e, is.aheadMinutes == 0, e.Warn, doctor.CheckDatabaseTimeZone, "use UTC_TIMESTAMP() in your queries, or SET time_zone = '+00:00' first; or default_time_zone = '+00:00' in my.cnf",
		fmt.Sprintf("the server's time zone is %+.1f h from UTC: Sluice's tables have UTC, NOW() in your queries has not", float64(is.aheadMinutes)/60), "the server's time zone is UTC")
}

// may asks the server to explain a statement, which takes the rights of the
// statement and does nothing.
func (d *mysqlDialect) may(ctx context.Context, conn *sql.Conn, verb, table string, columns []string) (bool, error) {
	name := mysqlQuote(strings.Split(table, ".")...)
	statement := "SELECT 1 FROM " + name
	switch verb {
	case "INSERT":
		quoted := make([]string, len(columns))
		for i, c := range columns {
			quoted[i] = mysqlQuote(c)
		}
		nulls := strings.TrimSuffix(strings.Repeat("NULL,", len(columns)), ",")
		statement = "INSERT INTO " + name + " (" + strings.Join(quoted, ", ") + ") VALUES (" + nulls + ")"
	case "UPDATE":
		column := standardTableOf(table).columns[0].Name
		statement = "UPDATE " + name + " SET " + column + " = " + column
	case "DELETE":
		statement = "DELETE FROM " + name
	}
	rows, err := conn.QueryContext(ctx, "EXPLAIN "+statement)
	if err == nil {
		return true, rows.Close()
	}
	if m, ok := errors.AsType[*mysql.MySQLError](err); ok {
		switch m.Number {
		case errNoTableRight, errNoColumnRight, errNoDatabaseRight:
			return false, nil
		case errNoTable:
			return true, nil // what is missing is the table, which is another check
		}
		if _, refused := d.refusal(err); refused {
			return true, nil // it has come as far as the values, which are NULL
		}
	}
	return false, fmt.Errorf("ask for the right of %s on %s: %w", verb, table, err)
}

// mysqlTableRights looks at what making the tables takes, or their partitions.
// It cannot be tried and taken back: no transaction is around a CREATE TABLE.
func (x *Examiner) mysqlTableRights(ctx context.Context, e *doctor.Examination, conn *sql.Conn, d *mysqlDialect, complete bool) {
	granted, err := list(ctx, d, conn, cell[string], rawQuery(d, "grants"))
	if err != nil {
		e.Unknown(fmt.Errorf("read the user's grants: %w", err), doctor.CheckDatabaseRights)
		return
	}
	wanted, what := []string{"CREATE", "ALTER", "DROP", "INDEX", "SELECT", "INSERT", "UPDATE", "DELETE"}, "to make the tables"
	if complete {
		wanted, what = []string{"CREATE", "ALTER", "DROP"}, "to make and drop the days of the table events"
	}
	var missing []string
	for _, right := range wanted {
		if !slices.Contains(granted, right) {
			missing = append(missing, right)
		}
	}
	if len(missing) > 0 {
		e.Warn(doctor.CheckDatabaseRights, "GRANT ALL ON the database TO the user; or run `sluice migrate` as a user who has it",
			"its user's own grants on the database do not show %s, which it takes %s (a role may have it)", strings.Join(missing, ", "), what)
	} else if !complete {
		e.Fine(doctor.CheckDatabaseRights, "its user may make the tables")
	}
}
