//go:build linux || darwin

package engine

import "syscall"

// FreeBytes returns how much of a directory's disk is free to this user, and
// how large it is.
func FreeBytes(dir string) (free, total uint64, err error) {
	var is syscall.Statfs_t
	if err := syscall.Statfs(dir, &is); err != nil {
		return 0, 0, err
	}
	block := uint64(is.Bsize)
	return is.Bavail * block, is.Blocks * block, nil
}

// freeFiles returns how many files more a directory's file system takes, and how
// many in all; 0 of 0 if it has no bound.
func freeFiles(dir string) (left, most uint64, err error) {
	var is syscall.Statfs_t
	if err := syscall.Statfs(dir, &is); err != nil {
		return 0, 0, err
	}
	return is.Ffree, is.Files, nil
}
