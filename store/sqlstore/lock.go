package sqlstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"sluice/lib/filelock"
)

// lockFile takes a lock that ends with the process, however it ends, and notes
// the holder in the file. The file stays: removing it would let two processes
// lock two files of one name.
func lockFile(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := filelock.Take(f); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 200))
		_ = f.Close()
		if errors.Is(err, filelock.ErrHeld) {
			return nil, fmt.Errorf("lock %s: %s holds it: a SQLite database is served by one process only; stop that one first", path, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	host, _ := os.Hostname()
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "process %d on %s\n", os.Getpid(), host), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("note the holder in %s: %w", path, err)
	}
	return f.Close, nil
}
