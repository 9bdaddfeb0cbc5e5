package ingest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"sluice"
	"sluice/store"
	"sluice/user"
)

// A session whose leases have changed ends its forwarder, and still stores what it has
// read. That must not wait for the forwarder: no store of the process would ever go on.
func TestNobodyWaitsForAForwarderThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it ends a test of which all wait for ever
		f := newForwarder(&StoreFollower{Clock: sluice.SystemClock{}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.run(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		u := &storeUnit{effect: &store.Effect{Users: &user.Changes{Forward: []user.Forward{{From: 3}}}}}
		for range 2 * (cap(f.wake) + 1) {
			if err := f.tell(context.WithoutCancel(t.Context()), u); err != nil {
				t.Fatal(err)
			}
		}
	})
}
