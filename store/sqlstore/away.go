package sqlstore

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// What servers answer that are starting, stopping or full of connections.
const (
	mysqlTooManyConnections = 1040
	mysqlShutdown           = 1053
	mysqlConnectionKilled   = 1927
	mysqlDeadlock           = 1213

	pgTooManyConnections = "53300"
	pgAdminShutdown      = "57P01"
	pgCrashShutdown      = "57P02"
	pgCannotConnectNow   = "57P03"
	pgDeadlock           = "40P01"
	pgSerialization      = "40001"
)

// IsAway reports whether an error says that the database does not answer now,
// but may in a moment, with nothing changed in the configuration.
func IsAway(err error) bool {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, errReadOnly) || errors.Is(err, errNotPrimary) || errors.Is(err, mysql.ErrInvalidConn) {
		return true
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number == mysqlTooManyConnections || e.Number == mysqlShutdown || e.Number == notPrimary || e.Number == mysqlConnectionKilled
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case pgTooManyConnections, pgAdminShutdown, pgCrashShutdown, pgCannotConnectNow:
			return true
		}
	}
	return false
}

// rolledBack reports whether a server has rolled a transaction back because of
// another one: as a deadlock, as one that cannot be serialised, or, on a Galera
// node, when it was committed after another node's. It may be repeated as a whole.
func rolledBack(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number == mysqlDeadlock
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == pgDeadlock || e.Code == pgSerialization)
}

// noTLS reports whether an error says that the URL asks for TLS and the server has none.
// The driver of PostgreSQL has no name for that. With sslmode=prefer it goes on in clear,
// and what it found then stands behind the refusal.
func noTLS(err error) bool {
	return errors.Is(err, mysql.ErrNoTLS) || strings.HasSuffix(err.Error(), "server refused TLS connection")
}

// unreachedRemedy is what to do about a server that could not be asked, whatever it is.
func unreachedRemedy(err error) string {
	if noTLS(err) {
		return "turn on TLS on the server, or take it out of the URL (tls, sslmode)"
	}
	if errors.Is(err, errNoneWrites) {
		return "start the primary, or promote a replica (docs/scale.md); database-hosts says what each host answers"
	}
	return "start it, and see that the URL, the port and the firewall are right"
}
