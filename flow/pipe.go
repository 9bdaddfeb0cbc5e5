package flow

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
)

// How a follower runs.
//
// A follower lives in sessions. A session begins by reading the cursors where
// the effect is stored, reads on from there, and applies batch after batch; it
// ends at the first error, whatever it was, or when its leases change. Nothing
// of it is kept: the next session asks the store again where it stands. So
// there is one way to recover, from a lost connection, an unknown commit, a
// zombie's commit, a restart, and it is exercised every day.
//
// Inside a session, reading and encoding go on beside applying (Pipe), with
// one encoded unit waiting between them: more would only hold memory, since
// one loader is the fastest that a table takes (measured; ARCHITECTURE.md).
//
// Stopping has two phases, so every follower gets two contexts: `fetch` ends
// reading, what is in hand is still applied; `work` ends everything.

// Pipe runs read and apply side by side. read hands units on by emit, which
// waits for apply. Pipe returns when read is done and all was applied, or with
// the first error. That fetch ended is no error.
func Pipe[T any](fetch, work context.Context, read func(ctx context.Context, emit func(T) error) error, apply func(ctx context.Context, unit T) error) error {
	readCtx, stopReading := context.WithCancelCause(fetch)
	defer stopReading(nil)
	units := make(chan T)
	done := make(chan error, 1)
	go func() { // ends when read returns: its context is cancelled by us at the latest
		defer close(units)
		done <- read(readCtx, func(unit T) error {
			select {
			case units <- unit:
				return nil
			case <-work.Done():
				return work.Err()
			case <-readCtx.Done():
				// Phase one: what was read is still applied, unless apply failed.
				if fetch.Err() == nil {
					return context.Cause(readCtx)
				}
			}
			select {
			case units <- unit:
				return nil
			case <-work.Done():
				return work.Err()
			}
		})
	}()
	var failed error
	for unit := range units {
		if failed != nil {
			continue // cannot be applied after the one before it failed
		}
		if failed = apply(work, unit); failed != nil {
			stopReading(failed)
		}
	}
	err := <-done
	if failed != nil {
		return failed
	}
	if fetch.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, fetch.Err())) {
		return nil
	}
	return err
}

// Backoff of a follower whose sessions fail.
const (
	backoffShortest = 20 * time.Millisecond
	backoffLongest  = 5 * time.Second
	// A session that lasted this long was healthy: its end starts over.
	backoffHealthy = 10 * time.Second
)

// Health is told how the sessions of followers fare. Its methods are called
// from several goroutines at once.
type Health interface {
	// Fine: the follower begins, or a session of it has run for a while.
	Fine(follower string)

	// Failed: a session of the follower has ended with an error. Losing a lease
	// is none.
	Failed(follower string, err error, at time.Time)
}

// Follow runs sessions until fetch ends. A session returns nil when it should
// simply be run again (its leases have changed).
func Follow(fetch, work context.Context, name string, log *slog.Logger, health Health, session func(fetch, work context.Context) error) {
	wait := backoffShortest
	health.Fine(name)
	for fetch.Err() == nil {
		started := time.Now()
		healthy := time.AfterFunc(backoffHealthy, func() { health.Fine(name) })
		err := session(fetch, work)
		healthy.Stop()
		if fetch.Err() != nil {
			if err != nil {
				log.Warn("follower stopped in the middle of its work; the next one goes on from its cursor", "follower", name, "error", err)
			}
			return
		}
		if time.Since(started) > backoffHealthy {
			wait = backoffShortest
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, sluice.ErrLeaseLost) {
			health.Failed(name, err, time.Now())
		}
		pause := wait/2 + rand.N(wait)
		switch {
		case errors.Is(err, sluice.ErrConflict), errors.Is(err, sluice.ErrLeaseLost):
			log.Info("follower starts over", "follower", name, "reason", err)
		case errors.Is(err, sluice.ErrGap):
			pause = backoffLongest
			log.Error("follower stands still: something is missing", "follower", name, "error", err)
		default:
			log.Warn("follower failed, trying again", "follower", name, "error", err, "wait", pause.Round(time.Millisecond))
		}
		wait = min(2*wait, backoffLongest)
		select {
		case <-fetch.Done():
		case <-time.After(pause):
		}
	}
}

// How a log is pulled.
const (
	pullBatches = 4               // a read: at most 4 x MaxBatchBytes in hand for each partition
	pullWait    = 1 * time.Second // a blocked read wakes up this often
)

// Pull reads logs from their cursors, each in order, and hands on what it
// reads until the context ends, a read or emit fails. emit is called from
// several goroutines, one a log. One blocked read for each log is all that an
// idle follower costs.
func Pull(ctx context.Context, logs []*Log, cursors map[int]sluice.Position, emit func([]Batch) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range logs {
		group.Go(func() error {
			cursor := cursors[l.Partition()]
			for {
				batches, err := l.Read(ctx, cursor, pullBatches, sluice.Rest(time.Now(), pullWait))
				if err != nil {
					return err
				}
				if len(batches) == 0 {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					continue
				}
				cursor = batches[len(batches)-1].Position
				if err := emit(batches); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}
