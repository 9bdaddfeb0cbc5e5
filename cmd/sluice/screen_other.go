//go:build !linux && !darwin

package main

import "os"

// terminalSize does not know here.
func terminalSize(*os.File) (columns, lines int, ok bool) { return 0, 0, false }
