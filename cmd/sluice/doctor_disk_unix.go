//go:build linux || darwin

package main

import "syscall"

// freeBytes returns how much of a directory's disk is free to this user, and
// how large it is.
func freeBytes(dir string) (free, total uint64, err error) {
	var is syscall.Statfs_t
	if err := syscall.Statfs(dir, &is); err != nil {
		return 0, 0, err
	}
	block := uint64(is.Bsize)
	return is.Bavail * block, is.Blocks * block, nil
}
