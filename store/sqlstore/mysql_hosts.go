package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// severalHostsLifetime bounds the life of a connection where there are several hosts,
	// but for the writer's: one to a server that is no primary any more ends within it.
	severalHostsLifetime = 10 * time.Second

	// hostsLookEvery is how often nodes that were away are looked at again, when a
	// connection is opened. hostsLookWithin bounds how long that connection waits for it.
	hostsLookEvery  = 10 * time.Second
	hostsLookWithin = time.Second
)

// mysqlHosts connects to the first of several servers that takes writes. It goes on
// with the one that it found last, so the connections of a process are to one server.
//
// On a Galera cluster it comes back to a node that stands before that one, when the node is
// well again: else processes would stay on different nodes, where their writes to one row
// meet at COMMIT. A primary that was replaced is never come back to: it may take writes
// again and lack all that its replica has taken since.
type mysqlHosts struct {
	all    []driver.Connector
	names  []string
	every  time.Duration // between two looks at the nodes before the last
	last   atomic.Int32
	galera atomic.Bool  // the last is a node of a Galera cluster
	looked atomic.Int64 // when the nodes before it were looked at, since 1970 in ns
	moves  atomic.Int64 // how often the last has changed
}

// Connect implements driver.Connector.
func (h *mysqlHosts) Connect(ctx context.Context) (driver.Conn, error) {
	var errs []error
	first := int(h.last.Load())
	if conn := h.comeBack(ctx, first); conn != nil {
		return conn, nil
	}
	for i := range h.all { // the last, and then the others as the URL has them
		n := i
		if i == 0 {
			n = first
		} else if i <= first {
			n = i - 1
		}
		conn, galera, err := h.open(ctx, n)
		if err == nil {
			h.galera.Store(galera)
			h.move(first, n)
			return conn, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", h.names[n], err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("no server of %d takes writes: %w", len(h.all), errors.Join(errs...))
}

// comeBack connects to the first Galera node before another that is well again; nil: none
// is, or they were looked at a moment ago.
func (h *mysqlHosts) comeBack(ctx context.Context, before int) driver.Conn {
	now, looked := time.Now().UnixNano(), h.looked.Load()
	if before == 0 || !h.galera.Load() || now-looked < int64(h.every) || !h.looked.CompareAndSwap(looked, now) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hostsLookWithin)
	defer cancel()
	for n := range before {
		conn, galera, err := h.open(ctx, n)
		if err != nil {
			continue
		}
		if galera {
			h.move(before, n)
			return conn
		}
		_ = conn.Close()
	}
	return nil
}

// open connects to a server if it takes writes.
func (h *mysqlHosts) open(ctx context.Context, n int) (conn driver.Conn, galera bool, err error) {
	if conn, err = h.all[n].Connect(ctx); err != nil {
		return nil, false, err
	}
	if err = takesWrites(ctx, conn); err == nil {
		galera, err = seesOthers(ctx, conn)
	}
	if err != nil {
		_ = conn.Close()
		return nil, false, err
	}
	return &hostConn{conn.(mysqlConn), h, int32(n)}, galera, nil
}

// move notes that a server was found in place of another, unless a connection that was
// opened meanwhile has found one.
func (h *mysqlHosts) move(from, to int) {
	if from != to && h.last.CompareAndSwap(int32(from), int32(to)) {
		h.looked.Store(time.Now().UnixNano())
		h.moves.Add(1)
	}
}

// Driver implements driver.Connector.
func (h *mysqlHosts) Driver() driver.Driver { return h.all[0].Driver() }

// Why a server of several is passed over.
var (
	errReadOnly   = errors.New("it is read-only, as replicas are")
	errNotPrimary = errors.New("wsrep_ready is OFF: " + galeraRemedy)
)

// takesWrites reports why a server takes no writes. A Galera node without the others
// answers these questions all the same.
func takesWrites(ctx context.Context, conn driver.Conn) error {
	if err := notReadOnly(ctx, conn); err != nil {
		return err
	}
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
	if _, err := seesOthers(ctx, conn); err != nil {
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
