//go:build unix

package dialer

import (
	"errors"
	"net"
	"syscall"
)

// Quiet reports whether nothing is there to be read on a connection: no word, and not its
// end. It asks the system, which takes a microsecond, and takes nothing away. It does not
// wait for somebody who reads meanwhile, as pgx does in the background; what that one has
// read is not there any more.
func Quiet(conn net.Conn) bool {
	if below, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = below.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var came error
	err = raw.Control(func(fd uintptr) { // Read would wait for who reads
		var word [1]byte
		_, _, came = syscall.Recvfrom(int(fd), word[:], syscall.MSG_PEEK) // Go's sockets do not block
	})
	return err == nil && errors.Is(came, syscall.EAGAIN)
}
