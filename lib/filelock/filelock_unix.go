//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Take takes an open file, until it is closed. It does not wait: the error is
// ErrHeld if another process has it.
func Take(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrHeld
		}
		return err
	}
}
