//go:build unix && !linux

package servers

import "syscall"

// Elsewhere than on Linux a child survives a parent that is killed with
// SIGKILL; the directory's lock then tells the next start about it.
func childAttributes(user *account) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if user != nil {
		a.Credential = &syscall.Credential{Uid: user.uid, Gid: user.gid}
	}
	return a
}

func awaitStopped(*process) error { return nil }
