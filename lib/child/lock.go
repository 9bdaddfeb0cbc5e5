package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice/lib/filelock"
)

// A server's directory is locked by a flock on a file in it. The open file is
// handed to the server and closed here. So the lock is held by exactly those
// processes that can write the directory, the server and its forks. It falls
// with the last of them. A lock held by us instead would fall while a server
// that outlived us for a moment was still writing. Two Redis servers on one
// append-only file destroy it, and Redis itself does not look.

const (
	// LockName is the locked file in a server's directory.
	LockName = "server.lock"

	// lockWithin is how long a predecessor may take to die. It has got SIGKILL
	// already, but a child that was rewriting the log has to be gone as well.
	// A longer time would look like a hang to a user who starts a second one by
	// mistake.
	lockWithin = 3 * time.Second
)

// lockDir makes the directory if needed and locks it.
func lockDir(ctx context.Context, dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	path := filepath.Join(dir, LockName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := filelock.Take(f)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, filelock.ErrHeld) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock %s: another server runs on this directory, of a program that still runs (%w): stop that, or use another directory", path, ctx.Err())
		case <-tick.C:
		}
	}
}

// maxSocketPathBytes is what fits into sun_path on every Unix we run on (108
// bytes on Linux, 104 elsewhere, with the terminating zero).
const maxSocketPathBytes = 100

// SocketPath returns where a socket of this name goes: into dir. Where that
// path would be too long, it goes into a short private directory. That is
// returned as well, and the caller must remove it.
func SocketPath(dir, name string) (path, private string, err error) {
	if path = filepath.Join(dir, name); len(path) <= maxSocketPathBytes {
		return path, "", nil
	}
	private, err = os.MkdirTemp("", "sluice-")
	if err != nil {
		return "", "", fmt.Errorf("make a directory for the socket: %w", err)
	}
	if path = filepath.Join(private, name); len(path) > maxSocketPathBytes {
		os.Remove(private)
		return "", "", fmt.Errorf("find a place for the socket: %s is longer than %d bytes: set TMPDIR to a shorter path", path, maxSocketPathBytes)
	}
	return path, private, nil
}
