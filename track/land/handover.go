package land

import (
	"net"
	"sync"

	"sluice/lib/connlimit"
)

// handover is a net.Listener of connections that plain has begun to read. Its methods may
// be called by several goroutines at once.
type handover struct {
	address net.Addr
	conns   chan net.Conn
	done    chan struct{} // closed by Close
	once    sync.Once
}

func newHandover(address net.Addr) *handover {
	return &handover{address: address, conns: make(chan net.Conn), done: make(chan struct{})}
}

// take hands a connection over, with what was read of its next request. It waits until
// Accept has it; false: the listener is closed.
func (h *handover) take(c *connlimit.Conn, read []byte) bool {
	select {
	case h.conns <- &resumed{Conn: c, read: read}:
		return true
	case <-h.done:
		return false
	}
}

// Accept implements net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handover) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr implements net.Listener.
func (h *handover) Addr() net.Addr { return h.address }

// resumed is a connection of which something was read before.
type resumed struct {
	*connlimit.Conn
	read []byte
}

// NetConn returns the connection below: so connlimit knows it.
func (r *resumed) NetConn() net.Conn { return r.Conn }

// Read implements net.Conn.
func (r *resumed) Read(b []byte) (int, error) {
	if len(r.read) == 0 {
		return r.Conn.Read(b)
	}
	n := copy(b, r.read)
	if r.read = r.read[n:]; len(r.read) == 0 {
		r.read = nil // and its buffer
	}
	return n, nil
}
