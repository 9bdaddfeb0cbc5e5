package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"sluice/config"
	"sluice/mail/route"
)

// Providers keep lists of their own, of whom they mail no more: an address that
// is good again here must come off them as well. The process that answers the
// request does it, which need not send mail. It is done while the caller waits: the
// caller is told what failed, and may repeat it, so nothing waits in memory to be
// lost. Providers are left alone where nothing goes to them (sending: off, sink).

// unlistWithin bounds it, for all addresses of a request.
const unlistWithin = 10 * time.Second

// unlister is a provider with such a list.
type unlister interface {
	Name() string
	Unlist(ctx context.Context, address string) error
	Close() error
}

// openUnlisters prepares the providers of the routes, also in a process that does
// not send. One that lacks what it takes to, a password in its environment, says
// so when it is asked.
func (e *core) openUnlisters() {
	if mode := route.Mode(e.config.Sending); mode != route.On && mode != route.AllowList {
		return
	}
	for i := range e.config.Routes {
		r := &e.config.Routes[i]
		if r.SES == (config.SESRoute{}) {
			continue
		}
		t, err := r.Transport(os.Getenv, e.clock)
		if u, ok := t.(unlister); ok && err == nil {
			e.unlisters = append(e.unlisters, u)
		} else {
			e.unlisters = append(e.unlisters, mute{r.Name, err})
		}
	}
}

// mute is a provider that this process cannot speak to.
type mute struct {
	name string
	why  error
}

func (m mute) Name() string { return m.name }

func (m mute) Unlist(context.Context, string) error { return m.why }

func (mute) Close() error { return nil }

func (e *core) closeUnlisters() error {
	var errs []error
	for _, u := range e.unlisters {
		errs = append(errs, u.Close())
	}
	return errors.Join(errs...)
}

// unlist takes addresses off the providers' lists, one after the other, since
// they take such calls once a second, and several providers at once. It returns
// and logs what failed.
func (e *core) unlist(ctx context.Context, addresses []string) map[string]error {
	if len(e.unlisters) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, unlistWithin)
	defer cancel()
	left := make(map[string]error)
	var mu sync.Mutex
	var working sync.WaitGroup
	for _, u := range e.unlisters {
		working.Go(func() {
			for _, address := range addresses {
				err := ctx.Err()
				if err == nil {
					err = u.Unlist(ctx, address)
				}
				if err == nil {
					continue
				}
				e.log.Warn("an address may be on a provider's list still, who would mail nothing to it; ask for its removal again, or remove it there",
					"route", u.Name(), "address", address, "error", err)
				mu.Lock()
				left[address] = errors.Join(left[address], fmt.Errorf("route %s: %w", u.Name(), err))
				mu.Unlock()
			}
		})
	}
	working.Wait()
	return left
}
