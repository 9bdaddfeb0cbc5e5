package flow

import (
	"context"
	"testing"
	"time"
)

// join starts a lease keeper over 16 partitions; the function crashes it.
func join(t *testing.T, r *Redis, n *numbers) (l *Leases, leave, crash func()) {
	t.Helper()
	l = NewLeases(r, n, quiet())
	l.AddPartitions("store", r, Partitions(16))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	dead := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx)
	}()
	leave = func() { stop(); <-done }
	crash = func() {
		select {
		case <-dead:
		default:
			close(dead)
		}
		l.mu.Lock()
		l.roles = nil // nothing is given back
		l.mu.Unlock()
		leave()
	}
	t.Cleanup(leave)
	return l, leave, crash
}

func heldBy(l *Leases) int { return l.Status().Held["store"] }

func TestLeasesAreSharedFairlyAndTakenOver(t *testing.T) {
	r := dial(t)
	n := &numbers{}
	a, _, crashA := join(t, r, n)
	eventually(t, "one process holds all", func() bool { return heldBy(a) == 16 })
	b, leaveB, _ := join(t, r, n)
	eventually(t, "two share", func() bool { return heldBy(a) == 8 && heldBy(b) == 8 })
	c, _, _ := join(t, r, n)
	eventually(t, "three share", func() bool {
		return heldBy(a) <= 6 && heldBy(b) <= 6 && heldBy(c) <= 6 && heldBy(a)+heldBy(b)+heldBy(c) == 16
	})
	leaveB()
	eventually(t, "what one gave back is taken", func() bool { return heldBy(a) == 8 && heldBy(c) == 8 })
	crashA()
	eventually(t, "the last holds all", func() bool { return heldBy(c) == 16 })
}

func TestALostLeaseIsNoticed(t *testing.T) {
	r := dial(t)
	a, _, _ := join(t, r, &numbers{})
	eventually(t, "all are held", func() bool { return heldBy(a) == 16 })
	held, changed := a.Held("store")
	lease := held[3]
	do(t, r, "HSET", lease.key, "owner", "another", "token", "another")
	<-changed
	eventually(t, "the lease is dropped", func() bool {
		held, _ := a.Held("store")
		return held[3] != lease
	})
}

func TestALeaseNumberThatDoesNotRiseIsRefused(t *testing.T) {
	r := dial(t)
	do(t, r, "HSET", "lease", "number", "5")
	n, err := r.callInt(t.Context(), "claim", "claim", []string{"lease"}, []string{"", "me", "5", "token"})
	if err != nil || n != 0 {
		t.Fatalf("claim with an old number: %d, %v; want it refused", n, err)
	}
}

func TestWaitForChangeLooksAtItsOwnRole(t *testing.T) {
	r := dial(t)
	l := NewLeases(r, &numbers{}, quiet())
	l.AddPartitions("store", r, Partitions(2))
	l.AddPartitions("other", r, Partitions(2))
	held, _ := l.Held("store")
	woken := make(chan struct{})
	go func() {
		l.WaitForChange(t.Context(), "store", held)
		close(woken)
	}()
	for range 3 { // changes of another role wake nobody, and are not the last that is looked at
		l.setHeld(l.roles[1], 0, &Lease{})
		select {
		case <-woken:
			t.Fatal("woken by another role's change")
		case <-time.After(20 * time.Millisecond):
		}
	}
	l.setHeld(l.roles[0], 1, &Lease{})
	<-woken
}
