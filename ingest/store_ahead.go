package ingest

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/flow"
)

const (
	// aheadAfter is how long batches wait for the store before the entries
	// behind them are looked at for sends. It is also how often this is
	// repeated.
	aheadAfter = 100 * time.Millisecond

	aheadBatches = 4
)

// ahead hands the batches of one log to the store. One goroutine calls it.
//
// A send waits in the log for the store follower, which queues what it reads.
// But the store may be behind, by seconds, and an urgent mail would be too. So
// while batches wait for the store, the log is read on for its sends alone.
// They are queued before their batches are stored, as always, only earlier. The
// other items of the batches are forgotten, and read again when the store comes
// to them. A store that keeps up reads every log once.
type ahead struct {
	store *StoreFollower
	log   *flow.Log
	lease *flow.Lease
	after sluice.Position // up to there sends are queued
}

// offer queues the sends of batches and hands the batches over, when the store
// takes them.
func (a *ahead) offer(ctx context.Context, batches []flow.Batch, to *offers) error {
	if err := a.queue(ctx, batches); err != nil {
		return err
	}
	if a.store.Queue == nil {
		return to.offer(ctx, batches)
	}
	group, ctx := errgroup.WithContext(ctx)
	taken := make(chan struct{})
	group.Go(func() error {
		defer close(taken)
		return to.offer(ctx, batches)
	})
	group.Go(func() error { return a.readOn(ctx, taken) })
	return group.Wait()
}

// readOn queues the sends behind batches that wait, until they are taken.
func (a *ahead) readOn(ctx context.Context, taken <-chan struct{}) error {
	for pause := aheadAfter; ; {
		timer := time.NewTimer(pause)
		select {
		case <-taken:
			timer.Stop()
			return nil
		case <-timer.C:
		}
		more, err := a.log.Read(ctx, a.after, aheadBatches, 0)
		if err != nil {
			return err
		}
		if err := a.queue(ctx, more); err != nil {
			return err
		}
		if pause = 0; len(more) == 0 {
			pause = aheadAfter
		}
	}
}

// readable returns ErrNewer if a batch is to wait for a newer program.
func (s *StoreFollower) readable(ctx context.Context, b *flow.Batch) error {
	if _, ok := sluice.KnownForms().Beyond(b.Data); ok {
		return nil
	}
	if err := s.Logs[b.Partition].Readable(ctx, b.Data); err != nil {
		return fmt.Errorf("read entry %s of the log of partition %d: %w", b.Position, b.Partition, err)
	}
	return nil
}

// queue hands batches that were not looked at before to the lanes' queue
// (Queue).
func (a *ahead) queue(ctx context.Context, batches []flow.Batch) error {
	for i := range batches {
		b := &batches[i]
		if !a.after.Before(b.Position) {
			continue
		}
		if err := a.store.readable(ctx, b); err != nil {
			return err
		}
		if a.store.Queue != nil {
			if err := a.store.Queue.Queue(ctx, a.lease, b); err != nil {
				return err
			}
		}
		a.after = b.Position
	}
	return nil
}
