package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/flow"
	"sluice/store"
)

// How a session of the store begins.
//
// It makes every log ready: it raises it, reads up to where its lane is filled, looks
// for a gap, and for what it keeps of what is applied. In a cluster the keys of one
// partition may fail alone: a slot whose migration was broken off refuses scripts, a
// master without a replica is gone. Such a partition is left out, as one at a gap is,
// and says so. While the session stores the others, awaitReady tries again what has
// failed, beside it, and ends the session when the partition can be taken in.
//
// Without that, each try would cost all others the seconds for which a call is repeated
// (flow/patient.go).

const (
	// A partition that is left out is tried again this soon, then less often: it may be
	// that Redis has just come back.
	readySoonest = 50 * time.Millisecond
	readyLatest  = 2 * time.Second

	// parallelReady bounds how many logs are made ready at once.
	parallelReady = 16
)

// entered is what a session begins with.
type entered struct {
	partitions []int
	cursors    map[int]sluice.Position
	logs       []*flow.Log      // those that it reads
	standing   []*flow.GapError // of those that stand still at a gap
	untold     bool             // one of these could not be recorded for operators
	failed     map[int]error    // by partition: those that are left out
	passed     map[int]int64    // by partition: entries that the cursor may have passed over
}

// leave notes that a partition is left out, unless the error is about this process.
func (e *entered) leave(partition int, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, sluice.ErrLeaseLost) || errors.Is(err, sluice.ErrConflict) {
		return err
	}
	e.failed[partition] = err
	return nil
}

// enter reads of the database, and of Redis, what a session begins with.
func (s *StoreFollower) enter(work context.Context, held map[int]*flow.Lease) (entered, error) {
	e := entered{partitions: slices.Sorted(maps.Keys(held))}
	var err error
	if e.cursors, err = s.Store.Cursors(work, StoreRole, e.partitions); err != nil {
		return e, fmt.Errorf("read cursors of %s: %w", StoreRole, err)
	}
	if err := s.readNames(work); err != nil {
		return e, err
	}
	if err := s.begin(work, &e); err != nil {
		return e, err
	}
	if s.lostUpTo, err = s.Store.Cursors(work, flow.LostRowsFollower, e.partitions); err != nil {
		return e, err
	}
	if err := s.readForwarded(work, e.partitions); err != nil {
		return e, err
	}
	if err := s.withoutGaps(work, &e); err != nil {
		return e, err
	}
	if err := s.margins.begin(work, s, held, &e); err != nil {
		return e, err
	}
	e.logs = slices.DeleteFunc(e.logs, func(l *flow.Log) bool { return e.failed[l.Partition()] != nil })
	s.stored = make(map[int]sluice.Position)
	for _, l := range e.logs {
		s.stored[l.Partition()] = e.cursors[l.Partition()]
	}
	return e, s.tellStanding(&e)
}

// tellStanding says which partitions a session does not store. If Redis fails for all of
// them, the session does.
func (s *StoreFollower) tellStanding(e *entered) error {
	standing := make(map[int]error)
	for _, gap := range e.standing {
		standing[gap.Partition] = gap
	}
	for _, p := range slices.Sorted(maps.Keys(e.failed)) {
		if len(e.logs) == 0 && len(e.standing) == 0 {
			return e.failed[p]
		}
		standing[p] = e.failed[p]
		s.Log.Error("partition is left out, the others are stored: its part of redis fails", "partition", p, "error", e.failed[p])
	}
	s.Stats.setStanding(s.Name(), standing)
	return nil
}

// begin makes logs and lanes ready to be read on, or leaves them out.
func (s *StoreFollower) begin(ctx context.Context, e *entered) error {
	var logs []*flow.Log
	for _, p := range e.partitions {
		logs = append(logs, s.Logs[p])
	}
	e.passed = make(map[int]int64)
	var mu sync.Mutex // of passed
	e.failed = raiseEach(logs, e.cursors, s.Log, func(l *flow.Log, cursor sluice.Position) (bool, error) {
		begun, err := l.Begin(ctx, cursor)
		if begun.Moved > 0 {
			s.Log.Warn("entries of a log lay unread below its cursor, and are read now: two redis were masters for some time", "partition", l.Partition(), "cursor", cursor.String(), "entries", begun.Moved)
		}
		mu.Lock()
		defer mu.Unlock()
		e.passed[l.Partition()] = begun.Passed
		return begun.Raised, err
	})
	for _, l := range logs {
		p := l.Partition()
		err := e.failed[p]
		if err == nil && s.Queue != nil {
			err = s.Queue.Begin(ctx, []int{p})
		}
		if err == nil {
			e.logs = append(e.logs, l)
			continue
		}
		if err := e.leave(p, err); err != nil {
			return err
		}
	}
	return nil
}

// awaitReady ends a session that has left partitions out when one of them is ready.
func (s *StoreFollower) awaitReady(ctx context.Context, stop func(), held map[int]*flow.Lease, e *entered) {
	for pause := readySoonest; sluice.Pause(ctx, pause) == nil; pause = min(2*pause, readyLatest) {
		var group errgroup.Group
		group.SetLimit(parallelReady)
		for p := range e.failed {
			group.Go(func() error {
				if s.ready(ctx, p, held[p], e.cursors[p]) == nil {
					stop()
				}
				return nil
			})
		}
		_ = group.Wait() // those that fail still are tried again
	}
}

// ready does with one partition what a session does when it begins.
func (s *StoreFollower) ready(ctx context.Context, partition int, lease *flow.Lease, cursor sluice.Position) error {
	log := s.Logs[partition]
	if _, err := log.Raise(ctx, cursor); err != nil {
		return err
	}
	if s.Queue != nil {
		if err := s.Queue.Begin(ctx, []int{partition}); err != nil {
			return err
		}
	}
	if _, err := log.Read(ctx, cursor, 1, 0); err != nil && !errors.Is(err, sluice.ErrGap) {
		return err
	}
	return s.margins.look(ctx, partition, &margin{lease: lease, at: cursor}, cursor)
}

// RaiseAll makes sure that logs are not behind what the store has applied of
// them. A process calls it before it reads or writes them. A log for which Redis fails
// is told, and no other has to wait for it: each writer raises it before it writes
// (RaiseBy). If Redis fails for all of them, that is the error.
func RaiseAll(ctx context.Context, store store.Store, logs []*flow.Log, log *slog.Logger) error {
	var partitions []int
	for _, l := range logs {
		partitions = append(partitions, l.Partition())
	}
	cursors, err := store.Cursors(ctx, StoreRole, partitions)
	if err != nil {
		return fmt.Errorf("read cursors of %s: %w", StoreRole, err)
	}
	failed := raiseEach(logs, cursors, log, func(l *flow.Log, cursor sluice.Position) (bool, error) { return l.Raise(ctx, cursor) })
	for _, p := range slices.Sorted(maps.Keys(failed)) {
		if len(failed) == len(logs) || ctx.Err() != nil {
			return failed[p]
		}
		log.Warn("log could not be raised, and is before anything is written to it: its part of redis fails", "partition", p, "error", failed[p])
	}
	return nil
}

// raiseEach raises logs above cursors, and returns by partition what has failed.
func raiseEach(logs []*flow.Log, cursors map[int]sluice.Position, log *slog.Logger, raise func(l *flow.Log, cursor sluice.Position) (raised bool, err error)) (failed map[int]error) {
	failed = make(map[int]error)
	var mu sync.Mutex // of failed
	var group errgroup.Group
	group.SetLimit(parallelReady)
	for _, l := range logs {
		group.Go(func() error {
			cursor := cursors[l.Partition()]
			raised, err := raise(l, cursor)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[l.Partition()] = fmt.Errorf("raise the log of partition %d: %w", l.Partition(), err)
			}
			if raised {
				log.Warn("log was behind its cursor and has been raised: redis has gone back in time", "partition", l.Partition(), "cursor", cursor.String())
			}
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	return failed
}
