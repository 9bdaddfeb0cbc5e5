package ingest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"sluice"
	"sluice/flow"
)

func batchAt(partition int, major uint64) flow.Batch {
	return flow.Batch{Partition: partition, Position: sluice.Position{Major: major}}
}

// The oldest batch of all logs is taken first, whichever offer came first. An
// offer waits for the last of its batches.
func TestTheOldestOfferIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffers()
		returned := make(map[int]bool)
		for p, batches := range [][]flow.Batch{
			{batchAt(0, 10), batchAt(0, 40)},
			{batchAt(1, 30), batchAt(1, 50), batchAt(1, 60)},
			{batchAt(2, 20)},
		} {
			go func() {
				if err := o.offer(t.Context(), batches); err != nil {
					t.Error(err)
				}
				returned[p] = true
			}()
			synctest.Wait() // each waits before the next comes
		}
		var taken []uint64
		for want := range 6 {
			b := o.take()
			taken = append(taken, b.Position.Major)
			synctest.Wait()
			if done := []bool{want >= 3, want >= 5, want >= 1}; returned[0] != done[0] || returned[1] != done[1] || returned[2] != done[2] {
				t.Errorf("after %d the offers have returned: %v, want %v", taken, returned, done)
			}
		}
		if want := []uint64{10, 20, 30, 40, 50, 60}; !slices.Equal(taken, want) || o.take() != nil {
			t.Errorf("taken: %d, want %d and no more", taken, want)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := o.offer(ctx, []flow.Batch{batchAt(0, 70)}); err == nil {
			t.Error("an offer whose context has ended is taken")
		}
	})
}

// noted is a Queue that notes what it is given.
type noted []uint64

func (*noted) Begin(context.Context, []int) error  { return nil }
func (*noted) GoneBack(context.Context, int) error { return nil }

func (n *noted) Queue(_ context.Context, _ *flow.Lease, b *flow.Batch) error {
	*n = append(*n, b.Position.Major)
	return nil
}

// What was looked at ahead is not queued once more when the store comes to it.
func TestWhatWasLookedAtAheadIsQueuedOnce(t *testing.T) {
	var got noted
	a := &ahead{store: &StoreFollower{Queue: &got}, after: sluice.Position{Major: 10}}
	for _, batches := range [][]flow.Batch{{batchAt(0, 10), batchAt(0, 20)}, {batchAt(0, 30)}, {batchAt(0, 20), batchAt(0, 30), batchAt(0, 40)}} {
		if err := a.queue(t.Context(), batches); err != nil {
			t.Fatal(err)
		}
	}
	if want := (noted{20, 30, 40}); !slices.Equal(got, want) {
		t.Errorf("queued: %d, want %d", got, want)
	}
}
