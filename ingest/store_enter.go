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
// and says so; so is one that does not answer while others do (sideBySide). While the
// session stores the others, awaitReady tries again what has failed, beside it, and ends the
// session when the partition can be taken in. The next one waits for it, as long as that
// takes: it may be slow.
//
// Without that, each try would cost all others the seconds for which a call is repeated
// (flow/patient.go).

const (
	// A partition that is left out is tried again this soon, then less often: it may be
	// that Redis has just come back.
	readySoonest = 50 * time.Millisecond
	readyLatest  = 2 * time.Second
)

// entered is what a session begins with.
type entered struct {
	partitions []int
	cursors    map[int]sluice.Position
	logs       []*flow.Log      // those that it reads
	standing   []*flow.GapError // of those that stand still at a gap
	untold     bool             // one of these could not be recorded for operators
	failed     map[int]error    // by partition: those that are left out
	sure       map[int]bool     // those that were ready beside the session before
	gaps       map[int]*flow.GapError
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
	e := entered{partitions: slices.Sorted(maps.Keys(held)), sure: s.awaited}
	s.awaited = nil
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

// begin makes logs and lanes ready to be read on, and looks for gaps, or leaves logs out.
// Up to a batch of each is in memory meanwhile.
func (s *StoreFollower) begin(ctx context.Context, e *entered) error {
	var failed map[int]error
	cursors := maps.Clone(e.cursors) // steps that are left out may outlast this
	e.gaps, failed = sideBySide(ctx, e.partitions, e.sure, func(ctx context.Context, p int) (*flow.GapError, error) {
		return s.readyToRead(ctx, p, cursors[p])
	})
	return e.take(s.Logs, failed)
}

// take takes the logs of the partitions in, and leaves out those that have failed.
func (e *entered) take(logs []*flow.Log, failed map[int]error) error {
	e.failed = make(map[int]error)
	for _, p := range e.partitions {
		if failed[p] == nil {
			e.logs = append(e.logs, logs[p])
		} else if err := e.leave(p, failed[p]); err != nil {
			return err
		}
	}
	return nil
}

// readyToRead makes one log and its lane ready to be read on. It returns the gap behind
// the cursor; nil: there is none.
func (s *StoreFollower) readyToRead(ctx context.Context, partition int, cursor sluice.Position) (*flow.GapError, error) {
	log := s.Logs[partition]
	begun, err := log.Begin(ctx, cursor)
	if err != nil {
		return nil, fmt.Errorf("raise the log of partition %d: %w", partition, err)
	}
	tellRaised(s.Log, partition, cursor, begun.Raised)
	if begun.Moved > 0 {
		s.Log.Warn("entries of a log lay unread below its cursor, and are read now: two redis were masters for some time", "partition", partition, "cursor", cursor.String(), "entries", begun.Moved)
	}
	if s.Queue != nil {
		if err := s.Queue.Begin(ctx, []int{partition}); err != nil {
			return nil, err
		}
	}
	_, err = log.Read(ctx, cursor, 1, 0)
	gap, stands := errors.AsType[*flow.GapError](err)
	switch {
	case begun.Passed > 0:
		return log.PassedOver(cursor, begun.Passed), nil
	case stands:
		return gap, nil
	}
	return nil, err
}

// awaitReady ends a session that has left partitions out when one of them is ready. Each is
// tried by itself: one that hangs keeps no other waiting.
func (s *StoreFollower) awaitReady(ctx context.Context, stop func(), e *entered, try func(ctx context.Context, partition int) error) {
	var mu sync.Mutex
	ready := make(map[int]bool)
	var group sync.WaitGroup
	for p := range e.failed {
		group.Go(func() {
			pause := readySoonest
			if e.gaps[p] != nil {
				pause = readyLatest // an accepted gap could not be passed, which only the next session tries
			}
			for ; sluice.Pause(ctx, pause) == nil; pause = min(2*pause, readyLatest) {
				if try(ctx, p) == nil { // else it is tried again
					mu.Lock()
					defer mu.Unlock()
					ready[p] = true
					stop()
					return
				}
			}
		})
	}
	group.Wait()
	s.awaited = ready
}

// ready does with one partition what a session does when it begins.
func (s *StoreFollower) ready(ctx context.Context, partition int, lease *flow.Lease, cursor sluice.Position) error {
	if _, err := s.readyToRead(ctx, partition, cursor); err != nil {
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
	byPartition := make(map[int]*flow.Log, len(logs))
	for _, l := range logs {
		byPartition[l.Partition()] = l
	}
	_, failed := sideBySide(ctx, partitions, nil, func(ctx context.Context, p int) (struct{}, error) {
		return struct{}{}, raise(ctx, byPartition[p], cursors[p], log)
	})
	for _, p := range slices.Sorted(maps.Keys(failed)) {
		if len(failed) == len(logs) || ctx.Err() != nil {
			return failed[p]
		}
		log.Warn("log could not be raised, and is before anything is written to it: its part of redis fails", "partition", p, "error", failed[p])
	}
	return nil
}

// raise raises a log above a cursor.
func raise(ctx context.Context, l *flow.Log, cursor sluice.Position, log *slog.Logger) error {
	raised, err := l.Raise(ctx, cursor)
	if err != nil {
		return fmt.Errorf("raise the log of partition %d: %w", l.Partition(), err)
	}
	tellRaised(log, l.Partition(), cursor, raised)
	return nil
}

func tellRaised(log *slog.Logger, partition int, cursor sluice.Position, raised bool) {
	if raised {
		log.Warn("log was behind its cursor and has been raised: redis has gone back in time", "partition", partition, "cursor", cursor.String())
	}
}
