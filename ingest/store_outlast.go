package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/store"
)

// How often a session asks whether the database is back, and how long it waits for
// an answer.
const (
	outlastEvery  = 500 * time.Millisecond
	outlastAnswer = 15 * time.Second // longer than any connecting takes
)

// outlast returns failed, the error of a transaction, when the database answers
// again or reading ends. If the database answers now, or failed is nil, it
// returns at once.
//
// Mail gets from the logs into the lanes by the reading half of a session (ahead),
// which needs Redis alone. But a session begins with cursors of the database. A
// session that ended because the database is away would have no successor until the
// database is back, and urgent mail would wait in the logs. So the session stays,
// and its reading half queues what comes, while one transaction waits here. What
// that transaction had done is not known: the next session reads it in the cursors.
//
// A database that goes away may answer once more behind the error: a server that
// stops ends its connections one after the other. Then the session ends, and the next
// one cannot begin. Redis may fail too, which ends the reading half: nobody would queue
// mail any more, so the session does not stay. In both cases meanwhile does the same
// for the next session, which cannot begin.
func (s *StoreFollower) outlast(reading context.Context, partition int, failed error) error {
	if failed == nil || errors.Is(failed, sluice.ErrConflict) || errors.Is(failed, store.ErrPublished) {
		return failed // the database has answered
	}
	for told := ""; ; {
		err := s.answers(reading, partition)
		if err == nil || reading.Err() != nil {
			return failed
		}
		s.Stats.Failed(s.Name(), errors.Join(failed, err), s.Clock.Now())
		if err.Error() != told {
			told = err.Error()
			s.Log.Warn("the database does not answer: what the logs have waits to be stored, and mail is still queued", "follower", s.Name(), "failed", failed, "error", err)
		}
		if sluice.Pause(reading, sluice.Rest(time.Now(), outlastEvery)) != nil {
			return failed
		}
	}
}

// meanwhile returns failed, the error of a session that could not begin, when the
// database answers again or the session is to end. Until then mail is queued from the
// logs that an earlier session of this process has read, without a gap: that one had
// raised them, and has said what of them is stored. What the lanes have is left out by
// their own cursors, which are in Redis. Of logs that no session here has read nothing is known, so
// their mail waits.
//
// A partition for which Redis fails is left out, and tried again, as in any session
// (store_enter.go). sure are those that were ready beside the session before.
func (s *StoreFollower) meanwhile(fetch context.Context, held map[int]*flow.Lease, sure map[int]bool, failed error) error {
	e := entered{sure: sure}
	for _, p := range slices.Sorted(maps.Keys(held)) {
		if _, known := s.stored[p]; known {
			e.partitions = append(e.partitions, p)
		}
	}
	if s.Queue == nil || len(e.partitions) == 0 {
		return failed
	}
	if err := s.beginQueueing(fetch, &e); err != nil {
		return errors.Join(failed, err)
	}
	reading := make(map[int]*ahead) // by partition, each of one goroutine
	for _, l := range e.logs {
		p := l.Partition()
		reading[p] = &ahead{store: s, log: l, lease: held[p], after: s.stored[p]}
	}
	var awaiting sync.WaitGroup
	defer awaiting.Wait() // behind stop
	ctx, stop := context.WithCancel(fetch)
	defer stop()
	if len(e.failed) > 0 {
		awaiting.Go(func() { s.awaitReady(ctx, stop, &e, s.readyToQueue) })
	}
	pulled := make(chan error, 1)
	go func() { // ends with ctx
		pulled <- flow.Pull(ctx, e.logs, maps.Clone(s.stored), func(ctx context.Context, b []flow.Batch) error {
			return reading[b[0].Partition].queue(ctx, b)
		})
		stop()
	}()
	err := s.outlast(ctx, e.partitions[0], failed)
	stop()
	if ended := <-pulled; fetch.Err() == nil && !errors.Is(ended, context.Canceled) {
		err = errors.Join(err, ended)
	}
	return err
}

// beginQueueing makes logs and lanes ready for mail to be queued, or leaves logs out. If
// Redis fails for all of them, that is the error.
func (s *StoreFollower) beginQueueing(ctx context.Context, e *entered) error {
	_, failed := sideBySide(ctx, e.partitions, e.sure, func(ctx context.Context, p int) (struct{}, error) {
		return struct{}{}, s.readyToQueue(ctx, p)
	})
	if err := e.take(s.Logs, failed); err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(e.failed)) {
		if len(e.logs) == 0 {
			return e.failed[p]
		}
		s.Log.Error("partition is left out, mail of the others is queued while the database is away: its part of redis fails", "partition", p, "error", e.failed[p])
	}
	return nil
}

// readyToQueue makes one log and its lane ready.
func (s *StoreFollower) readyToQueue(ctx context.Context, partition int) error {
	if _, err := s.Logs[partition].Begin(ctx, sluice.Position{}); err != nil { // what is queued counts as read
		return fmt.Errorf("raise the log of partition %d: %w", partition, err)
	}
	return s.Queue.Begin(ctx, []int{partition})
}

// answers returns nil if the database reads a cursor, and else why it does not.
func (s *StoreFollower) answers(ctx context.Context, partition int) error {
	ctx, stop := context.WithTimeout(ctx, outlastAnswer)
	defer stop()
	_, err := s.Store.Cursors(ctx, StoreRole, []int{partition})
	return err
}
