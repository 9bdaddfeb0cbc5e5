package smtpd

import (
	"net"
	"syscall"

	"sluice/lib/connlimit"
)

// wire is a TCP connection whose reads can ask for acknowledgements at once.
//
// A client with Nagle's algorithm on (RFC 9293, 3.7.4) may write a message in
// pieces. Its last, short piece is held back until the piece before it is
// acknowledged. A server that has nothing to answer yet acknowledges 40 ms
// later (RFC 9293, 3.8.6.3). That is the pause of symfony/mailer and others
// before many a server. So a reader that waits here for the rest of something
// acknowledges what has come first. Replies need nothing: they carry the
// acknowledgement.
type wire struct {
	*connlimit.Conn
	raw  syscall.RawConn // nil: not a connection of the kernel's
	more bool            // what is read next is the rest of what was read
}

func newWire(c *connlimit.Conn) *wire {
	w := &wire{Conn: c}
	if sys, ok := c.Conn.(syscall.Conn); ok {
		w.raw, _ = sys.SyscallConn() // fails on a closed connection, whose reads fail as well
	}
	return w
}

// Read implements net.Conn.
func (w *wire) Read(b []byte) (int, error) {
	if w.more && w.raw != nil {
		acknowledge(w.raw)
	}
	return w.Conn.Read(b)
}

var _ net.Conn = (*wire)(nil)
