package smtpd

import "syscall"

// acknowledge sends the acknowledgement that the kernel holds back, if there is
// one. The kernel forgets the wish with the next reply, so it is made again and
// again.
func acknowledge(raw syscall.RawConn) {
	_ = raw.Control(func(fd uintptr) { // a wish: nothing fails without it
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
	})
}
