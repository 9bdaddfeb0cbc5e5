//go:build !unix

package filelock

import (
	"errors"
	"os"
)

// Take fails: this system has no flock.
func Take(*os.File) error { return errors.ErrUnsupported }
