package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// hostsLookEvery is how often nodes that were away are looked at again, when a
	// connection is opened. hostsLookWithin bounds how long that connection waits for it.
	hostsLookEvery  = 10 * time.Second
	hostsLookWithin = time.Second
)

// hosts connects to the first of several servers that takes writes. It goes on with the
// one that was found last, so the connections of a process are to one server, and one that
// has vanished is not dialled again for each of them.
//
// On a Galera cluster it comes back to a node that stands before that one, when the node is
// well again: else processes would stay on different nodes, where their writes to one row
// meet at COMMIT. A primary that was replaced is never come back to: it may take writes
// again and lack all that its replica has taken since.
type hosts struct {
	*foundHost
	all   []driver.Connector
	names []string

	// judge refuses a server that takes no writes. nil: its connector does.
	judge func(ctx context.Context, conn driver.Conn, n int) (is driver.Conn, galera bool, err error)

	// within bounds connecting to one of them and judging it: one that is stopped takes
	// connections and says nothing, and the next one may be well. 0: its connector does.
	within time.Duration
}

// foundHost is which of the servers was found. The pools of a store share one.
type foundHost struct {
	every  time.Duration // between two looks at the nodes before the last
	last   atomic.Int32
	galera atomic.Bool  // the last is a node of a Galera cluster
	looked atomic.Int64 // when the nodes before it were looked at, since 1970 in ns
	moves  atomic.Int64 // how often the last has changed
}

// Connect implements driver.Connector.
func (h *hosts) Connect(ctx context.Context) (driver.Conn, error) {
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
		conn, galera, err := h.open(ctx, n, h.within)
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
	return nil, fmt.Errorf("no server of %d %w: %w", len(h.all), errNoneWrites, errors.Join(errs...))
}

// errNoneWrites is the error of several servers of which none can be worked on.
var errNoneWrites = errors.New("takes writes")

// comeBack connects to the first Galera node before another that is well again; nil: none
// is, or they were looked at a moment ago.
func (h *hosts) comeBack(ctx context.Context, before int) driver.Conn {
	now, looked := time.Now().UnixNano(), h.looked.Load()
	if before == 0 || !h.galera.Load() || now-looked < int64(h.every) || !h.looked.CompareAndSwap(looked, now) {
		return nil
	}
	for n := range before {
		conn, galera, err := h.open(ctx, n, hostsLookWithin/time.Duration(before)) // one that is silent leaves time for the next
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

// open connects to a server if it takes writes, within a time; 0: there is no bound.
func (h *hosts) open(ctx context.Context, n int, within time.Duration) (conn driver.Conn, galera bool, err error) {
	if within > 0 {
		bounded, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		ctx = bounded
	}
	if conn, err = h.all[n].Connect(ctx); err != nil {
		return nil, false, err
	}
	if h.judge == nil {
		return conn, false, nil
	}
	is, galera, err := h.judge(ctx, conn, n)
	if err != nil {
		_ = conn.Close()
		return nil, false, err
	}
	return is, galera, nil
}

// move notes that a server was found in place of another, unless a connection that was
// opened meanwhile has found one.
func (h *foundHost) move(from, to int) {
	if from != to && h.last.CompareAndSwap(int32(from), int32(to)) {
		h.looked.Store(time.Now().UnixNano())
		h.moves.Add(1)
	}
}

// Driver implements driver.Connector.
func (h *hosts) Driver() driver.Driver { return h.all[0].Driver() }
