//go:build linux || darwin

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize is how large a terminal is.
func terminalSize(f *os.File) (columns, lines int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col < 20 || size.Row < 5 {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}
