package dialer

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boundSilence bounds how long a socket waits for an acknowledgement (tcp(7)).
func boundSilence(socket syscall.RawConn, gone time.Duration) error {
	var err error
	failed := socket.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(gone.Milliseconds()))
	})
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("set TCP_USER_TIMEOUT: %w", err)
	}
	return nil
}
