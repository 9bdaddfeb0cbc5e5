// Package filelock takes a file for one process, and makes the names of files durable.
// The lock ends with the process, however that ends, and is held by a child that
// inherits the open file.
package filelock

import (
	"errors"
	"os"
)

// ErrHeld says that another process has the file.
var ErrHeld = errors.New("another process holds it")

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
