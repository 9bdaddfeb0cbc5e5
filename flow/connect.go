package flow

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// connecting makes the first connections of a client end with a context. The library
// bounds each question to a server by itself, and asks several one after the other: a
// server that hangs costs ten seconds, and a program that stops would have to wait.
//
// A context with a deadline is shared out as well: one server that hangs must not use up the
// time of the next one, nor that of the look at what is wrong (whyNot). The options of the
// library are no place for that: they hold for all connections that it makes later.
type connecting struct {
	ctx  context.Context
	each time.Duration // for one server to answer; 0: ctx has no deadline
	over atomic.Bool   // the client is made: its connections live as long as it does; set under mu
	mu   sync.Mutex
	keep []func() bool
}

const (
	// attemptParts is in how many parts the time of an attempt is shared out: the dial, the
	// question what is there, and that whether it is there by another way.
	attemptParts = 3

	// shortestAsk is how long a server is waited for at least, of however many.
	shortestAsk = 500 * time.Millisecond
)

// eachWithin is how long an attempt waits for one server. Sentinels are asked one after the
// other and have a share each; the rest is for the master and for whyNot.
func eachWithin(ctx context.Context, option rueidis.ClientOption) time.Duration {
	end, is := ctx.Deadline()
	if !is {
		return 0
	}
	parts := attemptParts
	if option.Sentinel.MasterSet != "" {
		parts = len(option.InitAddress) + attemptParts - 1
	}
	return max(time.Until(end)/time.Duration(parts), shortestAsk)
}

// newClient is rueidis.NewClient that ends soon after ctx has, and well before its deadline
// if servers hang.
func newClient(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	c := &connecting{ctx: ctx, each: eachWithin(ctx, option)}
	dial := option.DialCtxFn // of a socket
	if dial == nil {
		dial = dialTCP
	}
	option.DialCtxFn = func(own context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		own, stop := c.bound(own)
		defer stop()
		conn, err := dial(own, address, d, config)
		if err != nil {
			return nil, err
		}
		return c.watch(conn), nil
	}
	client, err := rueidis.NewClient(option)
	c.end()
	switch {
	case err == nil:
		return client, nil
	case ctx.Err() != nil && !isReply(err): // the library says that a connection was closed
		return nil, fmt.Errorf("it has not answered in time: %w", ctx.Err())
	}
	return nil, err
}

// dialTCP dials as the library does.
func dialTCP(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config != nil {
		return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", address)
	}
	return d.DialContext(ctx, "tcp", address)
}

// bound returns a context that also ends with that of the attempt, while it lasts, or with
// the share of one server.
func (c *connecting) bound(own context.Context) (context.Context, context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over.Load() {
		return own, func() {}
	}
	var cancel context.CancelFunc
	if c.each > 0 {
		own, cancel = context.WithTimeout(own, c.each)
	} else {
		own, cancel = context.WithCancel(own)
	}
	stop := context.AfterFunc(c.ctx, cancel)
	return own, func() { stop(); cancel() }
}

// watch has a connection closed when the context ends before the client is made. It returns
// one that waits no longer for an answer than it may meanwhile.
func (c *connecting) watch(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over.Load() {
		return conn
	}
	c.keep = append(c.keep, context.AfterFunc(c.ctx, func() { _ = conn.Close() }))
	if c.each == 0 {
		return conn
	}
	a := &asked{Conn: conn, of: c}
	a.late = time.AfterFunc(c.each, func() {
		c.during(func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) }) // the reader has an i/o timeout
	})
	c.keep = append(c.keep, a.late.Stop)
	return a
}

// during calls f if the client is not made yet.
func (c *connecting) during(f func()) {
	if c.over.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over.Load() {
		f()
	}
}

// end leaves the connections to the client.
func (c *connecting) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over.Store(true)
	for _, keep := range c.keep {
		keep()
	}
	c.keep = nil
}

// asked is a connection on which an answer is waited for with a bound, while the client is
// made. The library waits for ten seconds for each but the first.
type asked struct {
	net.Conn
	of   *connecting
	late *time.Timer
}

// Write asks.
func (a *asked) Write(b []byte) (int, error) {
	a.of.during(func() { a.late.Reset(a.of.each) })
	return a.Conn.Write(b)
}

// Read hears something.
func (a *asked) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	a.of.during(func() { a.late.Stop() })
	return n, err
}
