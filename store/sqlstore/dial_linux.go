package sqlstore

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundSilence bounds how long a socket waits for an acknowledgement (tcp(7)).
func boundSilence(_, _ string, socket syscall.RawConn) error {
	var err error
	failed := socket.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(goneAfter.Milliseconds()))
	})
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("set TCP_USER_TIMEOUT: %w", err)
	}
	return nil
}
