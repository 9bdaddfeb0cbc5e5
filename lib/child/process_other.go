//go:build unix && !linux

package child

import "syscall"

// Elsewhere than on Linux a child survives a parent that is killed with
// SIGKILL; the directory's lock then tells the next start about it.
func childAttributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as}
}
