package sqlstore

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// What servers answer that are starting, stopping or full of connections.
const (
	mysqlTooManyConnections = 1040
	mysqlShutdown           = 1053
	mysqlConnectionKilled   = 1927

	pgTooManyConnections = "53300"
	pgAdminShutdown      = "57P01"
	pgCrashShutdown      = "57P02"
	pgCannotConnectNow   = "57P03"
)

// IsAway reports whether an error says that the database does not answer now,
// but may in a moment, with nothing changed in the configuration.
func IsAway(err error) bool {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) {
		return true
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number == mysqlTooManyConnections || e.Number == mysqlShutdown || e.Number == mysqlConnectionKilled
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case pgTooManyConnections, pgAdminShutdown, pgCrashShutdown, pgCannotConnectNow:
			return true
		}
	}
	return false
}
