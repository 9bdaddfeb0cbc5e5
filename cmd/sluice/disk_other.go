//go:build !linux && !darwin

package main

import "errors"

// diskSpace is not known here.
func diskSpace(string) (freeBytes, sizeBytes uint64, err error) {
	return 0, 0, errors.New("free space is not known on this system")
}
