package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one client's connection and the one to the server that goes with it.
type conn struct {
	proxy  *Proxy
	client net.Conn
	stall  gate
	ctx    context.Context // ends when the connection is cut or over
	cancel context.CancelFunc
	asked  atomic.Bool // the client has sent something since the server has

	mu     sync.Mutex
	server net.Conn // nil until dialled
	over   bool
	mute   muting // of what goes to the client
}

// muting limits what still goes to the client, after a rule has acted on a
// request.
type muting struct {
	on    bool
	left  int  // bytes that may still pass
	rule  Rule // what to do when the answer has come this far
	opens int  // of the stall, when the rule fired
}

// run dials the server, moves bytes until both directions have ended, and
// closes both connections.
func (c *conn) run() {
	defer c.close()
	dialer := net.Dialer{Timeout: dialWithin}
	network, target := c.proxy.to()
	server, err := dialer.DialContext(c.ctx, network, target)
	if err != nil {
		return // the client sees its connection end, as it would without us
	}
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		server.Close()
		return
	}
	c.server = server
	c.mu.Unlock()

	var back sync.WaitGroup
	back.Go(func() { c.pump(ToClient, server, c.client) })
	c.pump(ToServer, c.client, server)
	back.Wait()
}

// close ends both connections in order: what was forwarded arrives.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	c.cancel()
	c.client.Close()
	if c.server != nil {
		c.server.Close()
	}
}

// reset ends both connections as a broken network does.
func (c *conn) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	c.cancel()
	reset(c.client)
	if c.server != nil {
		reset(c.server)
	}
}

// reset closes a connection so that its peer sees "connection reset", where
// the network has that.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		// Fails on a connection that is gone already: then there is no one to tell.
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// pump moves bytes one way until an end, an error or a rule stops it.
func (c *conn) pump(d Direction, from, to net.Conn) {
	buf := make([]byte, chunkBytes)
	watches := make(map[*Armed]*watch)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			c.turn(d)
		}
		if n > 0 && !c.forward(d, to, buf[:n], watches) {
			c.close()
			return
		}
		if err != nil {
			if half, ok := to.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
				return // the other direction may still have something to say
			}
			c.close()
			return
		}
	}
}

// turn counts a round trip when the server says something after the client.
func (c *conn) turn(d Direction) {
	if d == ToServer {
		c.asked.Store(true)
	} else if c.asked.Swap(false) {
		c.proxy.turns.Add(1)
	}
}

// forward sends a chunk on its way, as far as the rules let it. It returns
// false if the connection is to be cut.
func (c *conn) forward(d Direction, to net.Conn, chunk []byte, watches map[*Armed]*watch) bool {
	if !c.wait() {
		return false
	}
	// A test that sees that a rule has fired may resume before the rule has
	// shut the gate. Then it stays open, or nothing would open it again.
	opens := c.stall.opened()
	rule, at, acts := c.judge(d, chunk, watches)
	if !acts {
		return c.write(d, to, chunk)
	}
	switch {
	case rule.Moment == Before:
		return c.write(d, to, chunk[:at]) && c.end(rule, opens) && c.write(d, to, chunk[at:])
	case rule.Moment == After && rule.Stall:
		c.stall.shutSince(opens) // before the request is on its way: the answer meets it
		return c.write(d, to, chunk)
	}
	c.silence(rule, opens)
	return c.write(d, to, chunk) && rule.Moment == Replied
}

// end does what the rule says: false is a cut, true goes on after a stall.
func (c *conn) end(rule Rule, opens int) bool {
	if !rule.Stall {
		return false
	}
	c.stall.shutSince(opens)
	return c.wait()
}

// wait holds a chunk while the proxy or the connection is stalled, then for
// the proxy's delay. It returns false if the connection has been cut.
func (c *conn) wait() bool {
	if !c.proxy.stall.pass(c.ctx) || !c.stall.pass(c.ctx) {
		return false
	}
	d := time.Duration(c.proxy.delay.Load())
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// judge shows the chunk to every rule of its direction and returns the one
// that acts first in it.
func (c *conn) judge(d Direction, chunk []byte, watches map[*Armed]*watch) (rule Rule, at int, acts bool) {
	rules := c.proxy.armed()
	for _, a := range rules {
		if a.rule.Direction != d {
			continue
		}
		w := watches[a]
		if w == nil {
			w = &watch{armed: a}
			watches[a] = w
		}
		if i, ok := w.look(chunk); ok && (!acts || i < at) {
			rule, at, acts = a.rule, i, true
		}
	}
	for a := range watches { // forget rules that were replaced
		if a.spent() {
			delete(watches, a)
		}
	}
	return rule, at, acts
}

// silence limits what goes to the client, from before the request is
// forwarded, so that the answer cannot be faster than the limit.
func (c *conn) silence(rule Rule, opens int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = muting{on: true, left: rule.ReplyBytes, rule: rule, opens: opens}
}

// write sends bytes on, to the client only as many as it may still get. It
// returns false if the connection is to be cut.
func (c *conn) write(d Direction, to net.Conn, b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if d == ToServer {
		_, err := to.Write(b)
		return err == nil
	}
	c.mu.Lock()
	m := c.mute
	n := len(b)
	if m.on {
		n = min(n, m.left)
		c.mute.left -= n
	}
	c.mu.Unlock()
	if n > 0 {
		if _, err := to.Write(b[:n]); err != nil {
			return false
		}
	}
	if !m.on || m.left > n {
		return true
	}
	if m.rule.Moment == After {
		return true // dropped; the direction to the server cuts
	}
	if !c.end(m.rule, m.opens) {
		return false
	}
	c.mu.Lock()
	c.mute = muting{}
	c.mu.Unlock()
	return c.write(d, to, b[n:])
}
