package api

import (
	"net"
	"sync"
)

// limitListener accepts no more than a number of connections at once; others
// wait in the kernel's queue until one is closed.
type limitListener struct {
	net.Listener
	slots chan struct{} // holds one element for each open connection
	done  chan struct{} // closed by Close
	once  sync.Once
}

func newLimitListener(l net.Listener, most int) *limitListener {
	return &limitListener{Listener: l, slots: make(chan struct{}, most), done: make(chan struct{})}
}

func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitConn{Conn: c, release: func() { <-l.slots }}, nil
}

func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// limitConn gives its slot back when it is closed, once.
type limitConn struct {
	net.Conn
	once    sync.Once
	release func()
}

func (c *limitConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}
