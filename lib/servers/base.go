package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// base is what servers with files share: a directory with a lock, a socket, a port,
// and the calls on them.
type base struct {
	child
	name       string        // for messages
	dir        string        // of its files
	patience   time.Duration // with its end, before it is killed
	account    *account      // nil: we run it as ourselves
	socketHome string        // private directory of the socket, or empty
	port       int           // on 127.0.0.1; 0: none

	begin func(ctx context.Context) error // starts it with the port and socket that it has
}

// settle gives the server its directory. option names it to a caller that has given
// none.
func (b *base) settle(name, option, dir string, patience time.Duration) (err error) {
	if dir == "" {
		return fmt.Errorf("start %s: %s is empty: name a directory for its data", name, option)
	}
	b.name, b.patience = name, patience
	if b.dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("start %s in %s: %w", name, dir, err)
	}
	return nil
}

// first starts the server for the first time, on the port that it has or on a free
// one.
func (b *base) first(ctx context.Context, free bool) error {
	run := func() error { return b.begin(ctx) }
	var err error
	if free {
		err = onFreePort(b.name, &b.port, run)
	} else {
		err = run()
	}
	if err != nil {
		b.removeSocketHome()
	}
	return err
}

// run starts the process under the directory's lock, and returns when it is ready.
func (b *base) run(ctx context.Context, s spec, prepare func(lock *os.File) error, ready func(p *process) error) error {
	lock, err := lockDir(ctx, b.dir)
	if err != nil {
		return fmt.Errorf("start %s in %s: %w", b.name, b.dir, err)
	}
	defer lock.Close() // the server holds it now, or no process
	if err := prepare(lock); err != nil {
		return fmt.Errorf("start %s in %s: %w", b.name, b.dir, err)
	}
	p, err := start(b.name, b.spec(s, lock))
	if err != nil {
		return err
	}
	if err := ready(p); err != nil {
		return errors.Join(err, p.kill())
	}
	b.set(p)
	return nil
}

// spec adds what is the same for all processes on the directory.
func (b *base) spec(s spec, lock *os.File) spec {
	s.dir, s.logPath, s.user, s.held = b.dir, b.logPath(), b.account, []*os.File{lock}
	return s
}

// awaitWithin waits until look says yes, for so long at most. what is what is waited
// for.
func (b *base) awaitWithin(ctx context.Context, p *process, what string, within time.Duration, look func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no %s within %s", what, within))
	defer cancel()
	return p.await(ctx, b.logPath(), look)
}

// install runs a program that fills the directory, and waits for its end.
func (b *base) install(ctx context.Context, lock *os.File, what, program string, args []string, within time.Duration) error {
	p, err := start(filepath.Base(program), b.spec(spec{program: program, args: args}, lock))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case <-p.exited:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s: %w", what, ctx.Err()), p.kill())
	}
	if p.err != nil {
		return fmt.Errorf("%s: %s: %w; the end of its log %s:\n%s", what, program, p.err, b.logPath(), tail(b.logPath()))
	}
	return nil
}

// give makes directories that the server's account owns and reaches; "" is none.
func (b *base) give(dirs ...string) error {
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := b.account.letThrough(dir); err != nil {
			return err
		}
		if err := b.account.own(dir); err != nil {
			return err
		}
	}
	return nil
}

// dialSocket connects for one look at a server, which ends within some time.
func dialSocket(socket string, within time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout("unix", socket, within)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (b *base) logPath() string { return filepath.Join(b.dir, b.name+".log") }

// Dir returns the directory, which the server can read.
func (b *base) Dir() string { return b.dir }

// Port returns the port on 127.0.0.1.
func (b *base) Port() int { return b.port }

// Addr returns host:port.
func (b *base) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// Stop asks the server to end, and kills it if it takes longer than ctx or its
// patience, which is then the error. It returns when the server is gone. Stopping
// one that is gone is no error.
func (b *base) Stop(ctx context.Context) error {
	err := b.current().stop(ctx, b.patience)
	b.removeSocketHome()
	return err
}

// Restart starts a stopped or killed server again, with the same directory,
// socket and port. One that still runs is stopped first.
func (b *base) Restart(ctx context.Context) error {
	err := b.current().stop(ctx, b.patience)
	if err == nil && b.socketHome != "" {
		err = os.MkdirAll(b.socketHome, 0o700)
	}
	if err != nil {
		return fmt.Errorf("restart %s: %w", b.name, err)
	}
	return b.begin(ctx)
}

func (b *base) removeSocketHome() {
	if b.socketHome != "" {
		os.RemoveAll(b.socketHome)
	}
}
