//go:build linux || darwin

package main

import (
	"fmt"
	"syscall"
)

// diskSpace returns how large the file system of a directory is, and how much
// of it an ordinary user may still fill.
func diskSpace(dir string) (freeBytes, sizeBytes uint64, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, 0, fmt.Errorf("ask for the free space of %s: %w", dir, err)
	}
	return fs.Bavail * uint64(fs.Bsize), fs.Blocks * uint64(fs.Bsize), nil
}
