package bench

import "syscall"

// childAttributes: a group of its own, so that Ctrl-C reaches the bench only,
// and the end of the bench, however it comes, is the child's.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
