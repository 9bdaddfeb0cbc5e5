// Package filelock takes a file for one process. The lock ends with the
// process, however that ends, and is held by a child that inherits the open
// file.
package filelock

import "errors"

// ErrHeld says that another process has the file.
var ErrHeld = errors.New("another process holds it")
