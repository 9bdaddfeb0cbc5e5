package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-sql-driver/mysql"
)

// severalHostsLifetime bounds the life of a connection where there are several hosts, but
// for the writer's: one to a server that is no primary any more ends within it.
const severalHostsLifetime = 10 * time.Second

// judgeMySQL refuses a server of several that takes no writes.
func (h *foundHost) judgeMySQL(ctx context.Context, conn driver.Conn, n int) (is driver.Conn, galera bool, err error) {
	if err = takesWrites(ctx, conn); err == nil {
		galera, err = seesOthers(ctx, conn)
	}
	return &hostConn{conn.(mysqlConn), h, int32(n)}, galera, err
}

// Why a server of several is passed over.
var (
	errReadOnly   = errors.New("it is read-only, as replicas are")
	errNotPrimary = errors.New("wsrep_ready is OFF: " + galeraRemedy)
)

// takesWrites reports why a server takes no writes.
func takesWrites(ctx context.Context, conn driver.Conn) error {
	if err := notReadOnly(ctx, conn); err != nil {
		return err
	}
	return notApart(ctx, conn)
}

// notApart reports whether a server is a Galera node without the others. Such a node
// answers these questions all the same.
func notApart(ctx context.Context, conn driver.Conn) error {
	value, err := secondColumn(ctx, conn, "SHOW STATUS LIKE 'wsrep_ready'")
	if err != nil || value != "OFF" {
		return err
	}
	// A MariaDB that is no Galera node says OFF as well.
	if value, err = secondColumn(ctx, conn, "SHOW GLOBAL VARIABLES LIKE 'wsrep_on'"); err == nil && value == "ON" {
		return errNotPrimary
	}
	return err
}

// notReadOnly reports whether a server is read-only.
func notReadOnly(ctx context.Context, conn driver.Conn) error {
	value, err := secondColumn(ctx, conn, "SELECT 'read_only', @@GLOBAL.read_only")
	if err == nil && value != "0" && value != "OFF" { // MariaDB 12 has words for it
		err = errReadOnly
	}
	return err
}

// mysqlHost connects to the one server of a URL.
type mysqlHost struct{ driver.Connector }

// Connect implements driver.Connector.
func (h *mysqlHost) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := h.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	// One that was excluded would answer what is asked below seesOthers by a lock timeout.
	if err = notApart(ctx, conn); err == nil {
		_, err = seesOthers(ctx, conn)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// seesOthers has a session on a Galera node see what was committed on any node before it
// reads. Nodes apply what others have committed a moment later: a process at one would not
// find the content of a mail that another process has stored and handed on, and fail it.
func seesOthers(ctx context.Context, conn driver.Conn) (galera bool, err error) {
	value, err := secondColumn(ctx, conn, "SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
	if err != nil || value != "ON" {
		return false, err
	}
	_, err = conn.(driver.ExecerContext).ExecContext(ctx, "SET SESSION wsrep_sync_wait = 1", nil)
	return true, err
}

// secondColumn returns that of the first row; empty: there is no row.
func secondColumn(ctx context.Context, conn driver.Conn, statement string) (string, error) {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, statement, nil)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	row := make([]driver.Value, 2)
	if err := rows.Next(row); err != nil {
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		return "", err
	}
	if text, ok := row[1].([]byte); ok {
		return string(text), nil
	}
	return fmt.Sprint(row[1]), nil
}

const galeraRemedy = "this Galera node serves nothing while it is not in touch with most of the others (SHOW STATUS LIKE 'wsrep_cluster_status'); see the others and the network, and name several hosts in the URL: mysql://USER:PASSWORD@HOST:PORT,HOST:PORT/NAME"

// notPrimary is the number with which a Galera node answers everything while it is
// not in touch with most of the others.
const notPrimary = 1047

// explained adds what to do to an error that does not say it.
func explained(err error) error {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == notPrimary {
		return fmt.Errorf("%w: %s", err, galeraRemedy)
	}
	return err
}
