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
	maps.DeleteFunc(held, func(place int, _ *Lease) bool { return !s.has(place) })
	return held, changed
}

func (s Share) has(place int) bool { return s.Of < 2 || place%s.Of == s.Index }

// GiveBack is Leases.GiveBack of the share: call it when the follower of it has ended,
// whatever others of the role have in hand.
func (s Share) GiveBack(role string) error { return s.Leases.giveBackOf(role, s.has) }

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
