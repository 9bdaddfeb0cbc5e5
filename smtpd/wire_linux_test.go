package smtpd

import (
	"net"
	"syscall"
	"testing"
)

// acknowledgesAtOnce asks the kernel whether it holds back no acknowledgements.
func acknowledgesAtOnce(t *testing.T, w *wire) (yes bool) {
	t.Helper()
	err := w.raw.Control(func(fd uintptr) {
		n, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK)
		if err != nil {
			t.Error(err)
		}
		yes = n == 1
	})
	if err != nil {
		t.Error(err)
	}
	return yes
}

// Whoever writes a message in pieces, each waiting for the acknowledgement of
// the one before, gets it at once: the kernel does not hold it back.
func TestNoDelayedAcknowledgement(t *testing.T) {
	r := start(t, open)
	c := r.dial()
	for range 10 { // so many answers make the kernel expect one to everything
		c.say("NOOP", "250")
	}
	c.say("EHLO me", "250")
	c.say("MAIL FROM:<a@b.test>", "250")
	c.say("RCPT TO:<a@b.test>", "250")
	c.say("DATA", "354")
	c.send("From: a@b.test\r\n")
	var w *wire
	r.each(func(c *conn) { w = c.wire })
	await(t, "what came is acknowledged, and will be", func() bool { return acknowledgesAtOnce(t, w) })
	c.send("\r\n")
	c.say(".", "250")
	if err := c.Conn.(*net.TCPConn).Close(); err != nil {
		t.Error(err)
	}
}
