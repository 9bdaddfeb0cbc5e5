package httponce

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sluice/mail"
)

// Base is what all transports by HTTP have in common: a request carries one mail.
type Base struct {
	*Client
	name    string
	workers int
	send    func(context.Context, *mail.Envelope) mail.Result
}

// NewBase returns the base of a transport that attempts a mail by send.
func NewBase(name string, o Options, send func(context.Context, *mail.Envelope) mail.Result) Base {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	return Base{Client: NewClient(o), name: name, workers: o.Workers, send: send}
}

// Name implements mail.Transport.
func (b *Base) Name() string { return b.name }

// Window implements mail.Transport.
func (b *Base) Window() int { return 1 }

// Workers implements mail.Transport.
func (b *Base) Workers() int { return b.workers }

// Close implements mail.Transport: it ends connections that are idle.
func (b *Base) Close() error {
	b.Client.Close()
	return nil
}

// Deliver implements mail.Transport.
func (b *Base) Deliver(ctx context.Context, envelopes []mail.Envelope, done func(i int, r mail.Result)) {
	for i := range envelopes {
		e := &envelopes[i]
		r, held := e.Held()
		if !held {
			r = b.send(ctx, e)
		}
		done(i, r)
	}
}

// Bounds of a route.
const (
	DefaultTimeout = time.Minute
	MaxTimeout     = 10 * time.Minute
	MaxWorkers     = 1024
)

// CheckBounds says what is wrong with how many workers a route has, and with the time
// that a request may take. 0 is what applies where nothing is set.
func CheckBounds(workers int, timeout time.Duration) (errs []error) {
	if workers < 0 || workers > MaxWorkers {
		errs = append(errs, fmt.Errorf("workers is %d, want 0 to %d", workers, MaxWorkers))
	}
	if timeout < 0 || timeout > MaxTimeout {
		errs = append(errs, fmt.Errorf("timeout is %v, want at most %v", timeout, MaxTimeout))
	}
	return errs
}
