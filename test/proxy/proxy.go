package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// chunkBytes is what one direction of a connection buffers: one read.
	chunkBytes = 32 << 10

	// maxConnections bounds the connections of a proxy; further ones are cut.
	maxConnections = 1024

	// dialWithin bounds the dial to the target.
	dialWithin = 10 * time.Second

	// acceptPause is how long a failed accept waits before the next.
	acceptPause = 5 * time.Millisecond
)

// Proxy stands between clients and one server and breaks their connections as
// told. It knows no protocol: it counts bytes and looks for patterns.
//
// Each connection has two goroutines, one a direction, each with one buffer:
// it reads, asks the rules, forwards, reads again. So nothing is queued, a slow
// receiver slows its sender, and Close knows all goroutines that it has to wait
// for.
//
// A rule cuts with an orderly close, since it promises exactly which bytes
// arrive, and a reset could overtake them. Cut resets, as a network does.
type Proxy struct {
	listener net.Listener
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup
	refuse   atomic.Bool
	delay    atomic.Int64 // nanoseconds
	turns    atomic.Int64
	stall    gate

	mu              sync.Mutex
	network, target string
	closed          bool
	conns           map[*conn]struct{}
	rules           []*Armed // replaced, never changed: goroutines read it without mu
}

// New starts a proxy to a server, such as ("unix", "/dir/redis.sock") or
// ("tcp", "127.0.0.1:3306"). It listens on a free port of 127.0.0.1.
func New(network, target string) (*Proxy, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // whose sockets take no filter (Vanish)
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy to %s: %w", target, err)
	}
	p := &Proxy{network: network, target: target, listener: l, conns: make(map[*conn]struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running.Add(1)
	go p.accept()
	return p, nil
}

// Addr returns where clients connect to, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close cuts everything and returns when no goroutine of the proxy is left.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.running.Wait()
		return nil
	}
	p.closed = true
	p.cancel()
	p.mu.Unlock()
	err := p.listener.Close()
	p.Cut()
	p.running.Wait()
	return err
}

// Cut resets all connections now, with whatever is on its way in them, and
// returns how many there were.
func (p *Proxy) Cut() int {
	conns := p.list()
	for _, c := range conns {
		c.reset()
	}
	return len(conns)
}

// Refuse makes the proxy reset new connections as soon as they are made (true)
// or serve them again (false). Those that are there go on.
func (p *Proxy) Refuse(refuse bool) { p.refuse.Store(refuse) }

// Redirect has new connections go to another server: it takes the place of the
// first one. Those that are there go on.
func (p *Proxy) Redirect(network, target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.network, p.target = network, target
}

func (p *Proxy) to() (network, target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.network, p.target
}

// Delay holds every chunk, in both directions, for so long before it is
// forwarded; 0 ends it. What is delayed is one read of a connection, so a long
// delay also limits the rate.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Stall forwards nothing more, on no connection, until Resume: connections
// stay open and their peers wait.
func (p *Proxy) Stall() { p.stall.shut() }

// Resume ends Stall and the stalls of rules.
func (p *Proxy) Resume() {
	p.stall.open()
	for _, c := range p.list() {
		c.stall.open()
	}
}

// Arm adds a rule. Bytes that a connection has forwarded before are not looked
// at. When two rules meet in the same read, both count it and the one whose
// place comes first acts. The error says what is wrong with the rule.
func (p *Proxy) Arm(r Rule) (*Armed, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("arm rule on proxy to %s: %w", p.target, err)
	}
	a := newArmed(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	rules := make([]*Armed, 0, len(p.rules)+1)
	for _, old := range p.rules {
		if !old.spent() {
			rules = append(rules, old)
		}
	}
	p.rules = append(rules, a)
	return a, nil
}

// Turns returns how many round trips there were so far, over all connections: how often a
// server has said something after its client had.
func (p *Proxy) Turns() int64 { return p.turns.Load() }

// Connections returns how many connections are open now.
func (p *Proxy) Connections() int { return len(p.list()) }

func (p *Proxy) list() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	return conns
}

func (p *Proxy) armed() []*Armed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules
}

func (p *Proxy) accept() {
	defer p.running.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select { // out of file descriptors, say: not in a busy loop
			case <-p.ctx.Done():
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		if p.refuse.Load() {
			reset(client)
			continue
		}
		p.serve(client)
	}
}

// serve registers a connection and starts its goroutines.
func (p *Proxy) serve(client net.Conn) {
	c := &conn{proxy: p, client: client}
	c.ctx, c.cancel = context.WithCancel(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.conns) >= maxConnections {
		c.reset()
		return
	}
	p.conns[c] = struct{}{}
	p.running.Add(1)
	go func() {
		defer p.running.Done()
		c.run()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
	}()
}

// gate lets pass, or makes wait. The zero gate is open.
type gate struct {
	mu    sync.Mutex
	ch    chan struct{} // nil: open; else closed by open
	opens int           // how often it was opened, shut or not
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ch == nil {
		g.ch = make(chan struct{})
	}
}

// opened returns how often the gate was opened.
func (g *gate) opened() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opens
}

// shutSince shuts the gate, unless it was opened since opened returned that.
func (g *gate) shutSince(opens int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ch == nil && g.opens == opens {
		g.ch = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opens++
	if g.ch != nil {
		close(g.ch)
		g.ch = nil
	}
}

// pass waits until the gate is open and returns true, or false once ctx ends.
func (g *gate) pass(ctx context.Context) bool {
	g.mu.Lock()
	ch := g.ch
	g.mu.Unlock()
	if ch == nil {
		return true
	}
	select {
	case <-ch:
		return true
	case <-ctx.Done():
		return false
	}
}
