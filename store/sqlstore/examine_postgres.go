package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"sluice/lib/doctor"
	"sluice/lib/netaddr"
)

// postgresChecks are what is unknown of a server that does not answer.
var postgresChecks = []doctor.Check{
	doctor.CheckDatabaseVersion, doctor.CheckDatabaseEncoding, doctor.CheckDatabaseWritable, doctor.CheckDatabaseSchema,
	doctor.CheckDatabaseRights, doctor.CheckDatabaseTimeZone, doctor.CheckDatabaseClock, doctor.CheckDatabaseDurability, doctor.CheckDatabaseConnections, doctor.CheckDatabaseMemory,
}

func (x *Examiner) postgres(ctx context.Context, e *doctor.Examination) {
	servers, err := postgresServersOf(x.URL)
	if err != nil {
		e.Where = "database"
		e.Fail(doctor.CheckDatabaseReachable, urlForms, "%s", err)
		return
	}
	d := &postgresDialect{}
	cfg := servers.cfg
	e.Where = servers.where()
	postgresHostsOf(ctx, e, servers)
	db := sql.OpenDB(servers.connector())
	defer db.Close()
	conn, err := db.Conn(ctx)
	var number int
	var version, encoding, zone, schema string
	var readOnly, mayCreate, owner bool
	if err == nil {
		defer conn.Close()
		err = conn.QueryRowContext(ctx, query(d, "examine")).Scan(&number, &version, &encoding, &readOnly, &d.temp, &zone, &schema, &mayCreate, &owner)
	}
	if err != nil {
		e.Fail(doctor.CheckDatabaseReachable, postgresRemedy(err), "%s", doctor.OneLine(err))
		e.Unknown(errNotAsked, postgresChecks...)
		return
	}
	e.Fine(doctor.CheckDatabaseReachable, "it answers")
	is := "the server is PostgreSQL " + version
	judge(e, number >= minPostgres, e.Fail, doctor.CheckDatabaseVersion, "install PostgreSQL 12 or newer", is, is)
	judge(e, encoding == "UTF8", e.Fail, doctor.CheckDatabaseEncoding, "CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
		"the database's encoding is "+encoding+", which does not hold every text", "the database's encoding is UTF8")
	judge(e, !readOnly, e.Fail, doctor.CheckDatabaseWritable, "name the primary, or several hosts and target_session_attrs=read-write; or see default_transaction_read_only",
		"it takes no writes: the server is a replica, or the user's sessions are read-only", "the server takes writes")
	e.Fine(doctor.CheckDatabaseTimeZone, "its time zone is %s; times are stored with theirs, so none is wrong, but days in your queries are of that zone", zone)
	x.clock(ctx, e, d, conn)
	postgresDurability(ctx, e, conn, d)
	x.connections(ctx, e, conn, d)
	tableMemory(ctx, e, conn, d, postgresMemory)
	if strings.HasPrefix(cfg.Host, "/") || netaddr.IsLoopback(cfg.Host) {
		// Only some users are told; a server that does not tell is no finding.
		_ = conn.QueryRowContext(ctx, "SHOW data_directory").Scan(&e.Directory)
	}
	if x.Brief {
		return
	}
	s := newStore(d, Options{ReadOnly: true, ReadConns: 2, Clock: x.Clock}, e.Where, db, sql.OpenDB(servers.connector()))
	defer s.writes.Close()
	complete := x.schema(ctx, e, s)
	x.postgresRights(e, complete, schema, mayCreate, owner, d.temp)
	x.judgeRights(e, func(verb, table string, _ []string) (bool, error) { return d.may(ctx, conn, verb, table) }, complete)
	if complete {
		x.ledger(ctx, e, s)
	}
	x.ownTables(ctx, e, s)
}

func postgresRemedy(err error) string {
	if p, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case strings.HasPrefix(p.Code, "28"): // invalid authorization
			return "see that user and password of the URL are right, and that pg_hba.conf lets the user in from this host"
		case p.Code == "3D000": // invalid catalog name
			return "CREATE DATABASE, with the user as its owner"
		case p.Code == "42501": // insufficient privilege
			return "GRANT CONNECT ON DATABASE ... TO the user"
		}
	}
	return unreachedRemedy(err)
}

// postgresRights looks at rights that are not on a table.
func (x *Examiner) postgresRights(e *doctor.Examination, complete bool, schema string, mayCreate, owner, temp bool) {
	if !complete && !mayCreate {
		e.Fail(doctor.CheckDatabaseRights, "GRANT USAGE, CREATE ON SCHEMA public TO the user; or run `sluice migrate` as a user who has it",
			"its user may not make tables in schema %q", schema)
	}
	if complete && (!mayCreate || !owner) {
		e.Warn(doctor.CheckDatabaseRights, "ALTER TABLE events OWNER TO the user; GRANT USAGE, CREATE ON SCHEMA "+schema+" TO the user",
			"its user may not make and drop the days of the table events, which then all lie in one partition")
	}
	if !temp {
		e.Warn(doctor.CheckDatabaseRights, "GRANT TEMPORARY ON DATABASE ... TO the user", "its user may not make temporary tables: what has repeats goes in row by row")
	}
}

// may asks for a right of the user on a table. A table that is not there, or
// not to be seen, is another check.
func (d *postgresDialect) may(ctx context.Context, conn *sql.Conn, verb, table string) (bool, error) {
	var ok bool
	if err := conn.QueryRowContext(ctx, query(d, "may"), table, verb).Scan(&ok); err != nil {
		return false, fmt.Errorf("ask for the right of %s on %s: %w", verb, table, err)
	}
	return ok, nil
}
