package ingest

import (
	"context"
	"errors"
	"fmt"

	"sluice"
	"sluice/flow"
)

// Gaps: what comes after a cursor is no longer in Redis. Whoever meets one
// applies what comes before it and stands still, and says so, until an operator
// starts the program with AcceptGaps: then the cursor moves over the gap, by
// the compare-and-set that every other step makes, and stays there.

// accepted returns the gap that a session ended at if the operator has accepted
// it, else nil.
func (l *Lister) accepted(err error) *flow.GapError {
	var gap *flow.GapError
	if !errors.As(err, &gap) || !l.AcceptGaps {
		return nil
	}
	l.Log.Error("gap accepted: what lay between is lost", "in", gap.What, "from", gap.Cursor.String(), "to", gap.Start.String())
	return gap
}

// moveOver moves a cursor and does nothing else.
func moveOver(ctx context.Context, store sluice.Store, move sluice.Move) error {
	p, err := store.Prepare(&sluice.Effect{Moves: []sluice.Move{move}})
	if err == nil {
		_, err = store.Apply(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("move the cursor of %s over a gap: %w", move.Follower, err)
	}
	return nil
}

// withoutGaps returns the logs that go on from their cursors. The others stand
// still, alone: each partition is a log of its own, and a session that failed
// with one of them would hold up all. Cursors are moved over gaps that are
// accepted.
func (s *StoreFollower) withoutGaps(ctx context.Context, logs []*flow.Log, cursors map[int]sluice.Position) ([]*flow.Log, error) {
	var whole []*flow.Log
	standing := make(map[int]error)
	defer func() { s.Stats.setStanding(standing) }()
	for _, log := range logs {
		p := log.Partition()
		_, err := log.Read(ctx, cursors[p], 1, 0)
		var gap *flow.GapError
		switch {
		case err == nil:
		case !errors.As(err, &gap):
			return nil, err
		case !s.AcceptGaps:
			s.Log.Error("partition stands still: something is missing", "partition", p, "error", gap)
			standing[p] = gap
			continue
		default:
			s.Log.Error("gap accepted: what lay between is lost", "partition", p, "from", gap.Cursor.String(), "to", gap.Start.String())
			if err := moveOver(ctx, s.Store, sluice.Move{Follower: StoreRole, Partition: p, From: gap.Cursor, To: gap.Start}); err != nil {
				return nil, err
			}
			cursors[p] = gap.Start
		}
		whole = append(whole, log)
	}
	return whole, nil
}

// tellLoss tells of a log that goes on from before its cursor: Redis has gone
// back in time, and somebody has written before the log was raised. It is read
// on, since what lies between was applied.
func (s *StoreFollower) tellLoss(b *flow.Batch, cursor sluice.Position) {
	if b.Prev.Before(cursor) {
		s.Log.Warn("log goes on from before its cursor: redis has gone back in time", "partition", b.Partition, "cursor", cursor.String(), "from", b.Prev.String())
	}
}
