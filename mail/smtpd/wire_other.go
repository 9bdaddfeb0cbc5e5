//go:build !linux

package smtpd

import "syscall"

// acknowledge does nothing: there is no such wish on this system.
func acknowledge(syscall.RawConn) {}
