package api

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"sluice"
)

// limitListener bounds how many connections are open at once, without letting
// those who hold one and do nothing keep the others out.
//
// The idea: beyond the bound a new connection takes the place of the one that
// has been quiet longest. Quiet is whoever is not in the server's own hands: it
// has sent no whole head of a request yet, is between two requests, sends a
// body, or does not read its answer. All of these wait for the client, so none
// is worth more than another. Busy is a request that has arrived as a whole and
// is being answered; busy connections are never closed, and their number is
// bounded by how long that takes. So 10,000 connections that say nothing cost
// the memory of `most`, and a client that speaks is heard.
//
// A connection is quiet for `grace` before it can lose its place: a burst of
// clients that speak is served in turn, out of the kernel's queue, instead of
// being cut off before their heads have been read.
//
// What was tried and dropped. Only accepting `most` at a time: whoever opens
// as many and stays silent locks everybody out, for the 90 s that a connection
// may be idle, again and again. Closing those without a request before those
// that had one: who sends one request on each connection is then safe from all
// who come later. A bound per address: behind a proxy all have the same.
type limitListener struct {
	net.Listener
	most  int
	grace time.Duration
	clock sluice.Clock
	done  chan struct{} // closed by Close
	once  sync.Once

	// changed has an element when a connection was closed or has become quiet.
	changed chan struct{}

	mu    sync.Mutex
	open  int
	quiet list.List // of *limitConn, the longest quiet first
}

func newLimitListener(l net.Listener, most int, grace time.Duration, clock sluice.Clock) *limitListener {
	return &limitListener{Listener: l, most: most, grace: grace, clock: clock, done: make(chan struct{}), changed: make(chan struct{}, 1)}
}

// Accept returns the next connection, when there is room for it.
func (l *limitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for {
		wait, ok := l.makeRoom()
		if ok {
			break
		}
		if err := l.await(wait); err != nil {
			_ = c.Close()
			return nil, err
		}
	}
	conn := &limitConn{Conn: c, listener: l}
	l.mu.Lock()
	l.open++
	l.mu.Unlock()
	conn.becomeQuiet()
	return conn, nil
}

// makeRoom reports whether there is room for another connection, after closing
// one if need be. If not, it returns how long until one may be closed; 0: all
// are busy.
func (l *limitListener) makeRoom() (wait time.Duration, ok bool) {
	l.mu.Lock()
	if l.open < l.most {
		l.mu.Unlock()
		return 0, true
	}
	first := l.quiet.Front()
	if first == nil {
		l.mu.Unlock()
		return 0, false
	}
	conn := first.Value.(*limitConn)
	if wait = l.grace - l.clock.Now().Sub(conn.since); wait > 0 {
		l.mu.Unlock()
		return wait, false
	}
	l.mu.Unlock()
	_ = conn.Close() // the server's goroutine of this connection sees it
	return 0, true
}

// await returns when makeRoom is worth another try.
func (l *limitListener) await(wait time.Duration) error {
	var timeout <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-l.changed:
		return nil
	case <-timeout:
		return nil
	case <-l.done:
		return net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

func (l *limitListener) tell() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// limitConn is a connection with a place.
type limitConn struct {
	net.Conn
	listener *limitListener

	// Under the listener's lock.
	place  *list.Element // among the quiet; nil: it is busy or closed
	since  time.Time     // when it became quiet
	closed bool
}

// becomeQuiet puts the connection behind all that are quiet.
func (c *limitConn) becomeQuiet() {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.closed {
		return
	}
	c.since = l.clock.Now()
	if c.place != nil {
		l.quiet.MoveToBack(c.place)
		return
	}
	c.place = l.quiet.PushBack(c)
	l.tell()
}

// becomeBusy keeps the connection from being closed for another.
func (c *limitConn) becomeBusy() {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	c.leave()
}

// leave takes the connection out of the quiet. The lock is held.
func (c *limitConn) leave() {
	if c.place != nil {
		c.listener.quiet.Remove(c.place)
		c.place = nil
	}
}

// Close closes the connection and gives its place back, once.
func (c *limitConn) Close() error {
	l := c.listener
	l.mu.Lock()
	if !c.closed {
		c.closed = true
		c.leave()
		l.open--
		l.tell()
	}
	l.mu.Unlock()
	return c.Conn.Close()
}

// connState follows what the server does with a connection: whenever it turns
// to its client, the connection is quiet.
func connState(c net.Conn, state http.ConnState) {
	if conn, ok := c.(*limitConn); ok && (state == http.StateActive || state == http.StateIdle) {
		conn.becomeQuiet()
	}
}

// connKey is where a request's context has its connection.
type connKey struct{}

func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// busy says that a request has arrived as a whole: until quiet its connection
// is not closed for another.
func busy(r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(*limitConn); ok {
		conn.becomeBusy()
	}
}

// quiet says that what remains is the client's: to read its answer.
func quiet(r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(*limitConn); ok {
		conn.becomeQuiet()
	}
}
