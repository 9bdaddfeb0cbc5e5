package ingest

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/user"
	"sluice/user/users"
)

// oneUpdate is a batch of one update of the n-th user.
func oneUpdate(n int) []flow.Batch {
	up := user.Update{Op: user.OpAttributes, Key: user.Key{Kind: user.KeyExternal, Name: strconv.Itoa(n)}, Body: "{}"}
	return []flow.Batch{{Position: sluice.Position{Major: uint64(n)}, Prev: sluice.Position{Major: uint64(n - 1)}, Data: user.AppendUpdate(sluice.NewBatch(64), &up)}}
}

// gathering is a transaction that takes in more until a time from now on.
func gathering(after time.Duration) *storing {
	s := &StoreFollower{Clock: sluice.SystemClock{}, free: make(chan time.Time, 1)}
	s.free <- s.Clock.Now().Add(after)
	return newStoring(s)
}

// What comes while the store of users rests is written by one transaction.
func TestUpdatesAreGatheredWhileUsersRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		pulled := newOffers()
		go func() { // ends with ctx
			for n := 1; ; n++ {
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
					return
				}
				_ = pulled.offer(ctx, oneUpdate(n))
			}
		}()
		began := time.Now()
		g := gathering(350 * time.Millisecond)
		if err := g.gatherMore(ctx, pulled, make(chan error, 1), map[int]sluice.Position{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 350*time.Millisecond || len(g.updates) != 3 {
			t.Fatalf("%d updates were gathered in %s; want the 3 that came in 350ms", len(g.updates), took)
		}
	})
}

// A transaction does not wait when it is full or its logs cannot be read on.
func TestAFullTransactionDoesNotRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		full := gathering(time.Hour)
		full.updates = make([]users.Update, flushUpdates)
		if err := full.gatherMore(t.Context(), newOffers(), make(chan error, 1), map[int]sluice.Position{}); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		failed <- errors.New("a log cannot be read")
		if err := gathering(time.Hour).gatherMore(t.Context(), newOffers(), failed, map[int]sluice.Position{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 || len(failed) != 1 {
			t.Fatalf("it took %s, and %d failures are left; want no wait, and the failure for the next call", took, len(failed))
		}
	})
}

func TestTheRestOfUsersFollowsTheirTransaction(t *testing.T) {
	began := time.UnixMilli(1_760_000_000_000)
	for _, c := range []struct{ took, next time.Duration }{
		{0, 0}, {10 * time.Millisecond, 40 * time.Millisecond}, {200 * time.Millisecond, usersEvery}, {2 * time.Second, usersEvery},
	} {
		if got := nextUsers(began, began.Add(c.took)).Sub(began); got != c.next {
			t.Errorf("after a transaction of %s the next begins %s after it began, want %s", c.took, got, c.next)
		}
	}
}
