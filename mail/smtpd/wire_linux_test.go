package smtpd

import (
	"net"
	"syscall"
	"testing"

	"sluice"
	"sluice/lib/connlimit"
)

// holdsBack asks the kernel whether it holds acknowledgements back, expecting
// that an answer will carry them.
func (w *wire) holdsBack(t *testing.T) (yes bool) {
	t.Helper()
	err := w.raw.Control(func(fd uintptr) {
		n, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK)
		if err != nil {
			t.Error(err)
		}
		yes = n == 0
	})
	if err != nil {
		t.Error(err)
	}
	return yes
}

// A client may write a message in pieces, each waiting for the acknowledgement
// of the one before. It gets that as soon as the server waits for the rest. The
// kernel gives up holding back by itself after 40 ms, so a test of a running
// server could only tell by the clock. This one fills a connection's input step
// by step.
func TestNoDelayedAcknowledgement(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := connlimit.NewListener(inner, 1, quietGrace, sluice.SystemClock{})
	defer l.Close()
	n, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, peer := newConn(New(Options{}), accepted.(*connlimit.Conn)), wrap(t, n)
	defer c.close()
	fill := func() {
		t.Helper()
		if err := c.fill(&c.in); err != nil {
			t.Fatal(err)
		}
		c.in.r = c.in.w
	}
	for range 20 {
		for range 3 { // so many answers make the kernel expect one to everything
			c.say("250 go on\r\n")
			if err := c.flush(); err != nil {
				t.Fatal(err)
			}
			peer.want("250")
			peer.send("NOOP\r\n")
			c.say("354 go on\r\n")
			fill()
			peer.want("354")
		}
		before := c.wire.holdsBack(t)
		peer.send("a piece\r\n")
		fill() // nothing was said meanwhile: this is the rest of something
		if after := c.wire.holdsBack(t); before && !after {
			return // not so where the machine was so slow that the kernel gave up
		}
	}
	t.Error("the acknowledgement of a piece is held back while the next one is waited for")
}
