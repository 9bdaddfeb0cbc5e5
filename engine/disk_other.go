//go:build !linux && !darwin

package engine

import "errors"

// FreeBytes does not know here.
func FreeBytes(string) (free, total uint64, err error) {
	return 0, 0, errors.New("this system is not asked")
}

// freeFiles does not know here.
func freeFiles(string) (left, most uint64, err error) {
	return 0, 0, errors.New("this system is not asked")
}
