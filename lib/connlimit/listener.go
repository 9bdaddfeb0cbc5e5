package connlimit

import (
	"container/list"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice"
)

// Listener bounds how many connections are open at once. Clients that hold one
// and do nothing do not keep the others out.
//
// The idea: beyond the bound a new connection takes the place of the one that
// has been quiet longest. A connection is quiet while it waits for its client.
// It has sent no whole head of a request yet, is between two requests, sends a
// body, or does not read its answer. All quiet connections are worth the same.
// Busy is a request that has arrived as a whole and is being answered. Busy
// connections are never closed, and their number is bounded by how long that
// takes. So 10,000 connections that say nothing cost the memory of `most`, and
// a client that speaks is heard.
//
// A connection is quiet for `grace` before it can lose its place. So a burst of
// clients that speak is served in turn, out of the kernel's queue. None is cut
// off before its head has been read. Where bytes of a client lie in the kernel
// unread, it is the server that is late, as it is when its cores are taken.
// Such a connection is spared, up to maxSpared graces in a row. It is not
// spared while the server is writing: a client that sends more without reading
// its answers has bytes there for good.
//
// A client that the server knows (Conn.Known: it has logged in) loses its place
// only when no unknown client is quiet. Otherwise clients that open a thousand
// connections a second and say nothing would do harm. They would cut off a
// known client that takes more than two seconds over a message.
//
// What was tried and dropped. Only accepting `most` at a time. A client that
// opens as many and stays silent locks everybody out, again and again, for the
// 90 s that a connection may be idle. Closing connections without a request
// before those that had one. A client that sends one request on each connection
// is then safe from all that come later. A bound per address: behind a proxy
// all have the same.
type Listener struct {
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
	quiet list.List // of *Conn, strangers, the longest quiet first
	known list.List // of *Conn, likewise of the known clients
}

// NewListener returns a listener that has at most so many connections of l open. One
// that is quiet keeps its place for grace.
func NewListener(l net.Listener, most int, grace time.Duration, clock sluice.Clock) *Listener {
	return &Listener{Listener: l, most: most, grace: grace, clock: clock, done: make(chan struct{}), changed: make(chan struct{}, 1)}
}

// Accept returns the next connection, when there is room for it.
func (l *Listener) Accept() (net.Conn, error) {
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
	conn := &Conn{Conn: c, listener: l}
	l.mu.Lock()
	l.open++
	l.mu.Unlock()
	conn.Quiet()
	return conn, nil
}

// maxSpared is how many graces in a row a connection keeps its place for bytes
// that the server has not read.
const maxSpared = 16

// makeRoom reports whether there is room for another connection, after closing
// one if need be. If not, it returns how long until one may be closed; 0: all
// are busy.
func (l *Listener) makeRoom() (wait time.Duration, ok bool) {
	conn, wait, ok := l.toClose()
	if conn != nil {
		_ = conn.Close() // the server's goroutine of this connection sees it
	}
	return wait, ok
}

// toClose returns what makeRoom does, and which connection has to go first.
func (l *Listener) toClose() (conn *Conn, wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open < l.most {
		return nil, 0, true
	}
	row := &l.quiet
	if row.Len() == 0 {
		row = &l.known
	}
	now := l.clock.Now()
	for first := row.Front(); first != nil; first = row.Front() {
		conn := first.Value.(*Conn)
		if wait = l.grace - now.Sub(conn.since); wait > 0 {
			return nil, wait, false
		}
		if conn.spared == maxSpared || conn.writing.Load() || !hasUnread(conn.Conn) {
			return conn, 0, true
		}
		conn.spared++
		conn.since = now
		row.MoveToBack(first)
	}
	return nil, 0, false
}

// hasUnread reports whether bytes have come that were not read yet.
func hasUnread(c net.Conn) bool {
	sys, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	// Control, not Read, which would wait for the reader that is waiting there.
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, _ = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && n > 0
}

// await returns when makeRoom is worth another try.
func (l *Listener) await(wait time.Duration) error {
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
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

func (l *Listener) tell() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Conn is a connection with a place.
type Conn struct {
	net.Conn
	listener *Listener

	// Under the listener's lock.
	place  *list.Element // among the quiet; nil: it is busy or closed
	since  time.Time     // when it became quiet
	spared int           // graces since then that it was kept for unread bytes
	closed bool
	known  bool

	writing atomic.Bool // the server waits for room in its client's window
}

// Quiet puts the connection behind all that are quiet.
func (c *Conn) Quiet() {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.closed {
		return
	}
	c.since, c.spared = l.clock.Now(), 0
	if c.place != nil {
		c.row().MoveToBack(c.place)
		return
	}
	c.place = c.row().PushBack(c)
	l.tell()
}

// Known says whether the server knows the client. Of the quiet connections,
// unknown ones make room first.
func (c *Conn) Known(is bool) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.known == is {
		return
	}
	quiet := c.place != nil
	c.leave()
	if c.known = is; quiet {
		c.place = c.row().PushBack(c)
	}
}

// row is where the connection stands when it is quiet.
func (c *Conn) row() *list.List {
	if c.known {
		return &c.listener.known
	}
	return &c.listener.quiet
}

// Busy keeps the connection from being closed for another.
func (c *Conn) Busy() {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	c.leave()
}

// leave takes the connection out of the quiet. The lock is held.
func (c *Conn) leave() {
	if c.place != nil {
		c.row().Remove(c.place)
		c.place = nil
	}
}

// Write hands an answer over. From here on it is the client's turn, to read it.
func (c *Conn) Write(b []byte) (int, error) {
	c.Quiet()
	c.writing.Store(true)
	defer c.writing.Store(false)
	return c.Conn.Write(b)
}

// CloseWrite tells the client that nothing more comes, where the connection is
// one of TCP.
func (c *Conn) CloseWrite() error {
	if tcp, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// Close closes the connection and gives its place back, once.
func (c *Conn) Close() error {
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
