package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"sluice/lib/child"
)

// look is how often a condition of another process is looked at.
const look = 5 * time.Millisecond

// busyWithin bounds what a server does in seconds, on a machine that is busy.
const busyWithin = 4 * time.Minute

// base is what the servers with files add to child.Server: an account of their own,
// a time within which they are ready, a program that fills their directory.
type base struct {
	child.Server
	account *account // nil: it runs as ourselves
	port    int      // on 127.0.0.1; 0: none

	begin func(ctx context.Context) error // starts it with the port and socket that it has
}

// settle is child.Server.Settle.
func (b *base) settle(name, option, dir string, port int, patience time.Duration, begin func(ctx context.Context) error) error {
	b.port, b.begin = port, begin
	return b.Settle(name, option, dir, patience)
}

// first starts the server for the first time, on the port that it has or on a free
// one.
func (b *base) first(ctx context.Context, name string, free bool) error {
	run := func() error { return b.begin(ctx) }
	var err error
	if free {
		err = onFreePort(name, &b.port, run)
	} else {
		err = run()
	}
	if err != nil && b.SocketHome != "" {
		os.RemoveAll(b.SocketHome)
	}
	return err
}

// Port returns the port on 127.0.0.1.
func (b *base) Port() int { return b.port }

// Addr returns host:port.
func (b *base) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// Restart starts a stopped or killed server again, with the same directory, socket
// and port. One that still runs is stopped first.
func (b *base) Restart(ctx context.Context) error { return restart(ctx, &b.Server, b.begin) }

func restart(ctx context.Context, s *child.Server, begin func(context.Context) error) error {
	err := s.Stop(ctx)
	if err == nil && s.SocketHome != "" {
		err = os.MkdirAll(s.SocketHome, 0o700)
	}
	if err != nil {
		return fmt.Errorf("restart %s: %w", s.Dir(), err)
	}
	return begin(ctx)
}

// Pause stops the server with SIGSTOP: connections stay open, nothing is answered. It
// returns when every thread has stopped.
func (b *base) Pause() error { return pause(b.Current()) }

// Continue lets a paused server go on.
func (b *base) Continue() error { return b.Current().Signal(syscall.SIGCONT) }

// as makes the server run as an account, which has to exist if we are root.
func (b *base) as(name, remedy string) (err error) {
	b.account, err = databaseAccount(name, remedy)
	b.Credential = b.account.credential()
	return err
}

// awaitWithin waits until look says yes, for so long at most. what is what is waited
// for.
func (b *base) awaitWithin(ctx context.Context, p *child.Process, what string, within time.Duration, look func() (bool, error)) error {
	return awaitWithin(ctx, p, b.LogPath(), what, within, look)
}

func awaitWithin(ctx context.Context, p *child.Process, log, what string, within time.Duration, look func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no %s within %s", what, within))
	defer cancel()
	return p.Await(ctx, log, look)
}

// install runs a program that fills the directory, and waits for its end.
func (b *base) install(ctx context.Context, lock *os.File, what, program string, args []string, within time.Duration) error {
	p, err := child.Start(filepath.Base(program), b.Complete(child.Spec{Program: program, Args: args}, lock))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ended, err := p.Wait(ctx)
	switch {
	case !ended:
		return errors.Join(fmt.Errorf("%s: %w", what, err), p.Kill())
	case err != nil:
		return fmt.Errorf("%s: %s: %w; the end of its log %s:\n%s", what, program, err, b.LogPath(), child.Tail(b.LogPath()))
	}
	return nil
}
