package flow

import (
	"context"
	"maps"
)

// Share is what one of several followers of a role works on: those of the process's
// leases whose partition divided by Of leaves Index. A follower that is alone has all.
//
// It goes by the number of the partition, not by its rank among those held: a lease that
// comes or goes changes the share of one follower, and no partition moves from one
// follower of a process to another one.
type Share struct {
	*Leases
	Index, Of int // Of below 2: all
}

// Held is Leases.Held of the share.
func (s Share) Held(role string) (map[int]*Lease, <-chan struct{}) {
	held, changed := s.Leases.Held(role)
	if s.Of > 1 {
		maps.DeleteFunc(held, func(partition int, _ *Lease) bool { return partition%s.Of != s.Index })
	}
	return held, changed
}

// WaitForChange is Leases.WaitForChange of the share.
func (s Share) WaitForChange(ctx context.Context, role string, held map[int]*Lease) {
	for {
		now, changed := s.Held(role)
		if !maps.Equal(now, held) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// While is Leases.While of the share.
func (s Share) While(parent context.Context, role string, held map[int]*Lease) (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = context.WithCancel(parent)
	go func() { // ends with ctx
		s.WaitForChange(ctx, role, held)
		stop()
	}()
	return ctx, stop
}
