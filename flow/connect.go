package flow

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"

	"github.com/redis/rueidis"
)

// connecting makes the first connections of a client end with a context. The library
// bounds each question to a server by itself, and asks several one after the other: a
// server that hangs costs ten seconds, and a program that stops would have to wait.
type connecting struct {
	ctx  context.Context
	mu   sync.Mutex
	over bool // the client is made: its connections live as long as it does
	keep []func() bool
}

// newClient is rueidis.NewClient that ends soon after ctx has.
func newClient(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	c := &connecting{ctx: ctx}
	dial := option.DialCtxFn // of a socket
	if dial == nil {
		dial = dialTCP
	}
	option.DialCtxFn = func(own context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		own, stop := c.bound(own)
		defer stop()
		conn, err := dial(own, address, d, config)
		if err == nil {
			c.watch(conn)
		}
		return conn, err
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

// bound returns a context that also ends with that of the attempt, while it lasts.
func (c *connecting) bound(own context.Context) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancel(own)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return own, cancel
	}
	stop := context.AfterFunc(c.ctx, cancel)
	return own, func() { stop(); cancel() }
}

// watch has a connection closed when the context ends before the client is made.
func (c *connecting) watch(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.keep = append(c.keep, context.AfterFunc(c.ctx, func() { _ = conn.Close() }))
	}
}

// end leaves the connections to the client.
func (c *connecting) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, keep := range c.keep {
		keep()
	}
	c.keep = nil
}
