package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// linePieceBytes is the largest piece of what is on its way on a line.
	linePieceBytes = 64 << 10

	// linePieces bounds the pieces on their way in one direction: 16 MiB, which
	// at a delay of 50 ms is 2.5 Gbit/s.
	linePieces = 256
)

// Line is a long way to a server: what is written arrives after a delay, in
// each direction, as on a network. Unlike Proxy.Delay it does not slow down
// what comes behind: a line that is long holds much.
//
// Each connection has two goroutines a direction. One reads, notes when a piece
// is due and puts it into a channel; the other takes it out, waits and writes.
type Line struct {
	network, target string
	delay           time.Duration
	listener        net.Listener
	ctx             context.Context // ends with Close
	cancel          context.CancelFunc
	running         sync.WaitGroup
}

// NewLine starts a line to a server, with a delay each way, so that a reply
// takes twice as long. It listens on a free port of 127.0.0.1.
func NewLine(network, target string, delay time.Duration) (*Line, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start line to %s: %w", target, err)
	}
	line := &Line{network: network, target: target, delay: delay, listener: l}
	line.ctx, line.cancel = context.WithCancel(context.Background())
	line.running.Go(line.accept)
	return line, nil
}

// Addr returns where clients connect to, host:port.
func (l *Line) Addr() string { return l.listener.Addr().String() }

// Close cuts all connections and returns when no goroutine of the line is left.
func (l *Line) Close() error {
	l.cancel()
	err := l.listener.Close()
	l.running.Wait()
	return err
}

func (l *Line) accept() {
	free := make(chan struct{}, maxConnections)
	for {
		client, err := l.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select { // out of file descriptors, say: not in a busy loop
			case <-l.ctx.Done():
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		select {
		case free <- struct{}{}:
			l.running.Go(func() {
				l.serve(client)
				<-free
			})
		default:
			client.Close()
		}
	}
}

// serve moves bytes both ways until both have ended.
func (l *Line) serve(client net.Conn) {
	defer client.Close()
	dialer := net.Dialer{Timeout: dialWithin}
	server, err := dialer.DialContext(l.ctx, l.network, l.target)
	if err != nil {
		return // the client sees its connection end
	}
	defer server.Close()
	stop := context.AfterFunc(l.ctx, func() { client.Close(); server.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { l.carry(server, client) })
	l.carry(client, server)
	both.Wait()
}

// piece is some bytes and when they arrive.
type piece struct {
	due   time.Time
	bytes []byte
}

// carry moves bytes one way. A write that fails ends the reading as well.
func (l *Line) carry(from, to net.Conn) {
	pieces := make(chan piece, linePieces)
	go func() {
		defer close(pieces)
		for {
			buf := make([]byte, linePieceBytes)
			n, err := from.Read(buf)
			if n > 0 {
				select {
				case pieces <- piece{time.Now().Add(l.delay), buf[:n:n]}:
				case <-l.ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	broken := false
	for p := range pieces {
		if broken {
			continue // until the reader sees that its connection is closed
		}
		t := time.NewTimer(time.Until(p.due))
		select {
		case <-t.C:
		case <-l.ctx.Done():
		}
		t.Stop()
		if _, err := to.Write(p.bytes); err != nil {
			broken = true
			from.Close()
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		to.Close()
	}
}
