package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice/lib/child"
)

// base is what the servers with files add to child.Server: an account of their own,
// a time within which they are ready, a program that fills their directory.
type base struct {
	child.Server
	account *account // nil: it runs as ourselves
}

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
