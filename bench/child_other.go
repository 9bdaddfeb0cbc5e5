//go:build !linux

package bench

import "syscall"

// childAttributes: elsewhere the child outlives a bench that is killed.
func childAttributes() *syscall.SysProcAttr { return nil }
