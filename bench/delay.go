package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// delayer puts a distance between two ends on loopback: every octet arrives so
// much later, in both directions, and nothing is slower for it. (proxy.Proxy
// delays one read after the other, which limits the rate as well.)
type delayer struct {
	listener net.Listener
	target   string
	each     time.Duration // one way
	conns    sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]bool
}

const (
	delayedReadBytes = 64 << 10
	delayedReads     = 256 // of a direction under way; beyond, the sender waits
)

// startDelayer listens on loopback for a target that is away by a round trip.
func startDelayer(target string, roundTrip time.Duration) (*delayer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the delaying proxy: %w", err)
	}
	d := &delayer{listener: l, target: target, each: roundTrip / 2, open: make(map[net.Conn]bool)}
	d.conns.Go(d.accept)
	return d, nil
}

func (d *delayer) address() string { return d.listener.Addr().String() }

// close ends all connections.
func (d *delayer) close() error {
	err := d.listener.Close()
	d.mu.Lock()
	for c := range d.open {
		_ = c.Close() // it may be over
	}
	d.mu.Unlock()
	d.conns.Wait()
	return err
}

func (d *delayer) accept() {
	for {
		client, err := d.listener.Accept()
		if err != nil {
			return // closed
		}
		d.conns.Go(func() { d.serve(client) })
	}
}

// keep notes a connection to close, or takes note that it is closed.
func (d *delayer) keep(c net.Conn, open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if open {
		d.open[c] = true
		return
	}
	if d.open[c] {
		delete(d.open, c)
		_ = c.Close() // both directions are over
	}
}

func (d *delayer) serve(client net.Conn) {
	d.keep(client, true)
	defer d.keep(client, false)
	time.Sleep(2 * d.each) // the handshake
	server, err := net.Dial("tcp", d.target)
	if err != nil {
		return
	}
	d.keep(server, true)
	defer d.keep(server, false)
	var both sync.WaitGroup
	both.Go(func() { d.pump(client, server) })
	both.Go(func() { d.pump(server, client) })
	both.Wait()
}

// delayed is what one read gave, and when it arrives.
type delayed struct {
	data []byte
	at   time.Time
}

// pump carries one direction.
func (d *delayer) pump(from, to net.Conn) {
	under := make(chan delayed, delayedReads)
	var writing sync.WaitGroup
	writing.Go(func() {
		for x := range under {
			time.Sleep(time.Until(x.at))
			if _, err := to.Write(x.data); err != nil {
				_ = from.Close()
			}
		}
		if c, ok := to.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite() // it may be closed
		}
	})
	for {
		data := make([]byte, delayedReadBytes)
		n, err := from.Read(data)
		if n > 0 {
			under <- delayed{data[:n], time.Now().Add(d.each)}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = to.Close()
			}
			break
		}
	}
	close(under)
	writing.Wait()
}
