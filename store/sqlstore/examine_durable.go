package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"sluice/lib/doctor"
)

// What a process takes of a server's connections, and what is left for commands,
// backups and people.
const (
	connsPerProcess = defaultReadConns + smallConns + 1
	spareConns      = 8
)

// Why a cursor that goes back is worse than the events of that second: the logs
// behind it may be trimmed.
const goesBack = "a power cut takes back what was committed in the last second or so, the cursors with it, and what the logs have no longer is lost"

// mysqlDurability looks at what of a commit is on the disk when the server has
// answered. After a crash, an InnoDB with a binary log asks the log which of
// the prepared transactions were committed. A log that is not synced takes them
// back.
func mysqlDurability(ctx context.Context, e *doctor.Examination, conn *sql.Conn, d *mysqlDialect) {
	var flush, binlog, sync int64
	if err := conn.QueryRowContext(ctx, query(d, "durability")).Scan(&flush, &binlog, &sync); err != nil {
		e.Unknown(fmt.Errorf("ask what is on the disk after a commit: %w", err), doctor.CheckDatabaseDurability)
		return
	}
	const flushes = "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and the same in my.cnf: Sluice commits many rows at once, so it costs little"
	fine := true
	switch flush {
	case 0:
		e.Fail(doctor.CheckDatabaseDurability, flushes, "innodb_flush_log_at_trx_commit is 0: the end of the server, or %s", goesBack)
		fine = false
	case 2:
		e.Warn(doctor.CheckDatabaseDurability, flushes, "innodb_flush_log_at_trx_commit is 2: %s", goesBack)
		fine = false
	}
	if binlog != 0 && sync != 1 {
		e.Warn(doctor.CheckDatabaseDurability, "SET GLOBAL sync_binlog = 1, and the same in my.cnf", "the binary log is on and sync_binlog is %d: %s; replicas may then have what the server has not", sync, goesBack)
		fine = false
	}
	if fine {
		e.Fine(doctor.CheckDatabaseDurability, "innodb_flush_log_at_trx_commit is %d; binary log %s, sync_binlog %d", flush, map[bool]string{true: "on", false: "off"}[binlog != 0], sync)
	}
}

// postgresDurability looks at what of a commit is on the disk when the server has
// answered, in a session as the program's are.
func postgresDurability(ctx context.Context, e *doctor.Examination, conn *sql.Conn, d *postgresDialect) {
	var fsync, pages, commit string
	if err := conn.QueryRowContext(ctx, query(d, "durability")).Scan(&fsync, &pages, &commit); err != nil {
		e.Unknown(fmt.Errorf("ask what is on the disk after a commit: %w", err), doctor.CheckDatabaseDurability)
		return
	}
	fine := true
	for _, s := range []struct{ name, value string }{{"fsync", fsync}, {"full_page_writes", pages}} {
		if s.value == "off" {
			e.Fail(doctor.CheckDatabaseDurability, "ALTER SYSTEM SET "+s.name+" = on; SELECT pg_reload_conf()", "%s is off: a power cut can destroy the database", s.name)
			fine = false
		}
	}
	if commit == "off" {
		e.Warn(doctor.CheckDatabaseDurability, "ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf(); or see the user's and the URL's own settings",
			"synchronous_commit is off: the end of the server, or %s", goesBack)
		fine = false
	}
	if fine {
		e.Fine(doctor.CheckDatabaseDurability, "fsync and full_page_writes are on, synchronous_commit is %s", commit)
	}
}

// connections: a file has no bound on them.
func (d *sqliteDialect) connections(context.Context, *sql.Conn) (most, used int64, err error) {
	return math.MaxInt64, 0, nil
}

func (d *postgresDialect) connections(ctx context.Context, conn *sql.Conn) (most, used int64, err error) {
	err = conn.QueryRowContext(ctx, query(d, "connections")).Scan(&most, &used)
	return most, used, err
}

func (d *mysqlDialect) connections(ctx context.Context, conn *sql.Conn) (most, used int64, err error) {
	if err = conn.QueryRowContext(ctx, query(d, "connections")).Scan(&most); err != nil {
		return 0, 0, err
	}
	var name, text string
	if err = conn.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_connected'").Scan(&name, &text); err != nil {
		return 0, 0, err
	}
	used, err = strconv.ParseInt(text, 10, 64)
	return most, used, err
}

// connections says whether the server has enough connections for the processes
// that live, and for one more to start. How many processors their machines have is not
// known here: they are taken to have enough for two writers.
func (x *Examiner) connections(ctx context.Context, e *doctor.Examination, conn *sql.Conn, d dialect) {
	most, used, err := d.connections(ctx, conn)
	many := 1
	if err == nil {
		many, err = writers(ctx, conn, x.Writers, NearWriters, cmp.Or(x.Partitions, math.MaxInt))
	}
	if err != nil {
		e.Unknown(fmt.Errorf("ask for the bound on connections: %w", err), doctor.CheckDatabaseConnections)
		return
	}
	processes := 1
	if x.Processes != nil {
		processes = max(1, x.Processes(ctx))
	}
	if x.Writers == 0 {
		many = fitting(most, many, processes)
	}
	each := connsOf(many)
	of := fmt.Sprintf("processes: %d, writers of each: %d", processes, many)
	if x.Writers == 0 && many == NearWriters {
		of += " where it has two processors, else 1"
	}
	const remedy = "raise max_connections (or the user's own bound, if that is less), or take connections from other programs"
	switch need := connsNeeded(processes, many); {
	case most < need:
		e.Fail(doctor.CheckDatabaseConnections, remedy, "it takes %d connections, and %d are needed: %d for each process (%s), %d for commands and people", most, need, each, of, spareConns)
	case most-used < each:
		e.Warn(doctor.CheckDatabaseConnections, remedy, "%d of its %d connections are in use: a process that starts, or comes back, may not get its %d", used, most, each)
	default:
		e.Fine(doctor.CheckDatabaseConnections, "it takes %d connections, %d are in use; %d are enough for the processes (%s)", most, used, need, of)
	}
}

// Transport is how the URL of a database says that its server is reached.
type Transport struct {
	Where    string   // without user and password
	Hosts    []string // none: a socket or a file of this machine
	TLS      bool     // never without
	Verified bool     // and the server's certificate is checked
	Password bool     // or a certificate of the client
}

// TransportOf reads a URL. It connects to nothing.
func TransportOf(url string) (Transport, error) {
	scheme, rest, err := splitURL(url)
	if err != nil {
		return Transport{}, err
	}
	switch scheme {
	case "sqlite":
		return Transport{Where: "database"}, nil
	case "postgres":
		return postgresTransport(url)
	}
	cfg, err := mysqlConfig(rest)
	if err != nil {
		return Transport{}, err
	}
	t := Transport{Where: whereMySQL(cfg), Password: cfg.Passwd != ""}
	if cfg.Net != "unix" {
		for address := range strings.SplitSeq(cfg.Addr, ",") {
			t.Hosts = append(t.Hosts, hostOf(address))
		}
	}
	// With tls=preferred, or allowFallbackToPlaintext, the driver goes on without TLS if the
	// server, or a proxy between, has none.
	if cfg.TLS != nil && !cfg.AllowFallbackToPlaintext {
		t.TLS, t.Verified = true, cfg.TLSConfig != "skip-verify"
		t.Password = t.Password || len(cfg.TLS.Certificates) > 0
	}
	return t, nil
}

func postgresTransport(url string) (Transport, error) {
	servers, err := postgresServersOf(url)
	if err != nil {
		return Transport{}, err
	}
	cfg := servers.cfg
	t := Transport{Where: servers.where(), Password: cfg.Password != ""}
	if !strings.HasPrefix(cfg.Host, "/") {
		t.Hosts = append(t.Hosts, cfg.Host)
	}
	t.TLS = cfg.TLSConfig != nil
	for _, other := range cfg.Fallbacks { // another server; sslmode=prefer and allow: the same one without TLS
		if !strings.HasPrefix(other.Host, "/") && !slices.Contains(t.Hosts, other.Host) {
			t.Hosts = append(t.Hosts, other.Host)
		}
		t.TLS = t.TLS && other.TLSConfig != nil
	}
	if t.TLS {
		t.Verified = !cfg.TLSConfig.InsecureSkipVerify || cfg.TLSConfig.VerifyPeerCertificate != nil || cfg.TLSConfig.VerifyConnection != nil
		t.Password = t.Password || len(cfg.TLSConfig.Certificates) > 0 || cfg.TLSConfig.GetClientCertificate != nil
	}
	return t, nil
}

// hostOf is HOST:PORT without its port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
