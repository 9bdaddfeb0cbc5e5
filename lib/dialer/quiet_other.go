//go:build !unix

package dialer

import "net"

// Quiet is not known here.
func Quiet(net.Conn) bool { return false }
