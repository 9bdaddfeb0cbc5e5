package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/store"
	"sluice/user"
)

// Gaps: entries after a cursor are no longer in Redis. The follower that meets
// a gap applies the entries before it, stops there and reports it. It goes on
// when an operator accepts the gap (flow.Gaps) or starts the program with
// AcceptGaps. Then the cursor moves over the gap, by the compare-and-set of
// every other step, and stays there. The gap, and that it was accepted, is forgotten
// after that: a step that fails is made again by the next session. A gap whose missing
// part has been brought back is forgotten as well: of a log by a session that begins, of a
// list when something behind its cursor is committed.

// gapEvery is how often is asked whether a gap of a log has been accepted. Lists ask with
// each session.
const gapEvery = 2 * time.Second

// tellWithin bounds the telling of a gap. It is told on the server that has the beats,
// and the partitions of other servers do not wait for that one.
const tellWithin = 2 * time.Second

// accepted returns the gap that a session ended at if the operator has accepted
// it, else nil. The gap stays accepted until passed.
func (l *Lister) accepted(ctx context.Context, err error) *flow.GapError {
	var gap *flow.GapError
	if !errors.As(err, &gap) {
		return nil
	}
	if !l.AcceptGaps {
		if l.Gaps == nil {
			return nil
		}
		accepted, err := l.Gaps.Tell(ctx, &flow.Gap{What: gap.What, Cursor: gap.Cursor, Start: gap.Start, SinceMillis: l.Clock.Now().UnixMilli()})
		if err != nil {
			l.Log.Warn("gap is not recorded for operators", "in", gap.What, "error", err)
		}
		if !accepted {
			return nil
		}
	}
	l.over = gap
	return gap
}

// moveOver moves the list's cursor over an accepted gap, and does nothing else.
func (l *Lister) moveOver(ctx context.Context, from sluice.Position, gap *flow.GapError) error {
	err := applyOver(ctx, l.Store, &store.Effect{Moves: []store.Move{{Follower: l.List.Source(), From: from, To: gap.Start}}})
	if err == nil {
		l.passed(ctx, gap.Start)
	}
	return err
}

// passed forgets the gap that was told if the cursor is behind it. A session calls it when
// it begins, too: the step of the one before may have been made, and only the answer have
// been lost; or the cursor was put back in place. A cursor at a gap says nothing: the list
// opens, and its first page is what is missing.
func (l *Lister) passed(ctx context.Context, cursor sluice.Position) {
	l.listed = nil
	if l.Gaps != nil {
		ctx, cancel := context.WithTimeout(ctx, tellWithin)
		defer cancel()
		err := l.Gaps.Forget(ctx, func(g *flow.Gap) bool {
			mine := g.What == l.List.String()
			if mine && !g.Cursor.Before(cursor) {
				l.listed = &g.Cursor
			}
			return mine && g.Cursor.Before(cursor)
		})
		if err != nil {
			l.Log.Warn("gap that is over may stay in the list of gaps", "in", l.List.String(), "error", err)
		}
	}
	if gap := l.over; gap != nil && !cursor.Before(gap.Start) {
		l.over = nil
		l.Log.Error("gap accepted: what lay between is lost", "in", gap.What, "from", gap.Cursor.String(), "to", gap.Start.String())
	}
}

// committed forgets the gap that was listed when the session began, if what is committed is
// behind it: its missing part has been brought back. Without one it asks nobody.
func (l *Lister) committed(ctx context.Context, to sluice.Position) {
	if l.listed != nil && l.listed.Before(to) {
		l.passed(ctx, to)
	}
}

// applyOver applies an effect whose first move goes over a gap.
func applyOver(ctx context.Context, db store.Store, e *store.Effect) error {
	p, err := db.Prepare(e)
	if err == nil {
		_, err = db.Apply(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("move the cursor of %s over a gap: %w", e.Moves[0].Follower, err)
	}
	return nil
}

// numbersOver are the user numbers of a partition behind a gap: above all that users had
// whom the database has lost. Records of journeys in Redis, and other systems, name these
// still: a new user would have the place of another. The records say how high they are, the
// jump is for the other systems.
func (s *StoreFollower) numbersOver(ctx context.Context, log *flow.Log) (*user.Changes, error) {
	partition := log.Partition()
	a, err := s.Users.Users(ctx, user.Query{Numbers: []int{partition}})
	if err != nil {
		return nil, err
	}
	recorded, err := log.RecordsEnd(ctx)
	if err != nil {
		return nil, &flow.PartitionError{Partition: partition, Err: err}
	}
	n := a.Numbers[partition]
	n.User = max(n.User+user.NumberJump, recorded)
	return &user.Changes{Numbers: map[int]user.Numbers{partition: n}}, nil
}

// withoutGaps leaves a session the logs that go on from their cursors. The others
// stop, each alone: each partition is a log of its own, and a session that failed
// with one of them would delay all. Cursors are moved over gaps that are
// accepted.
func (s *StoreFollower) withoutGaps(ctx context.Context, e *entered) error {
	logs := e.logs
	e.logs = nil
	for _, log := range logs {
		p := log.Partition()
		if gap := e.gaps[p]; gap != nil {
			accepted, err := s.judge(ctx, e, log, gap)
			if part, is := errors.AsType[*flow.PartitionError](err); is {
				if err := e.leave(p, part.Err); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return err
			}
			if !accepted {
				e.standing = append(e.standing, gap)
				continue
			}
			e.cursors[p] = gap.Start
		}
		e.logs = append(e.logs, log)
	}
	return nil
}

// judge moves the cursor over a gap that is accepted, and says so of any. A
// *flow.PartitionError is about the server of this partition alone.
func (s *StoreFollower) judge(ctx context.Context, e *entered, log *flow.Log, gap *flow.GapError) (accepted bool, err error) {
	p := log.Partition()
	lost := flow.Lost{Entries: gap.Passed, Known: true}
	if gap.Passed == 0 {
		if lost, err = log.Lost(ctx, gap.Cursor); err != nil {
			return false, &flow.PartitionError{Partition: p, Err: err}
		}
	}
	if accepted = s.AcceptGaps || s.tellGap(ctx, e, gap, lost); !accepted {
		s.Log.Error("partition stands still: something is missing", "partition", p, "lost", lost.String(), "error", gap)
		return false, nil
	}
	s.Log.Error("gap accepted: what lay between is lost", "partition", p, "lost", lost.String(), "from", gap.Cursor.String(), "to", gap.Start.String())
	if s.Queue != nil {
		if err := s.Queue.GoneBack(ctx, p); err != nil {
			return false, &flow.PartitionError{Partition: p, Err: err}
		}
	}
	lostTo, err := log.LostUpTo(ctx)
	if err != nil {
		return false, &flow.PartitionError{Partition: p, Err: err}
	}
	moves := []store.Move{{Follower: StoreRole, Partition: p, From: gap.Cursor, To: gap.Start}}
	before := s.lostUpTo[p]
	if before.Before(lostTo) {
		moves = append(moves, store.Move{Follower: flow.LostRowsFollower, Partition: p, From: before, To: lostTo})
	}
	users, err := s.numbersOver(ctx, log)
	if err != nil {
		return false, err
	}
	if err := applyOver(ctx, s.Store, &store.Effect{Moves: moves, Users: users}); err != nil {
		return false, err
	}
	if before.Before(lostTo) {
		s.lostUpTo[p] = lostTo
	}
	return true, nil
}

// forgetGaps forgets the gaps of partitions that go on: those that were passed, and those
// whose missing part has been brought back.
func (s *StoreFollower) forgetGaps(ctx context.Context, e *entered) {
	going := make(map[string]sluice.Position)
	for _, l := range e.logs {
		going[l.String()] = e.cursors[l.Partition()]
	}
	err := s.Gaps.Forget(ctx, func(g *flow.Gap) bool {
		cursor, goes := going[g.What]
		return goes && !cursor.Before(g.Cursor)
	})
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("gaps that are over may stay in the list of gaps", "error", err)
	}
}

// tellGap records a gap for operators, and reports whether it is accepted. What cannot be
// asked is not: the partition stands still, and the gap is told by a later session
// (awaitAccepted). Once that has failed, a session tries no further one.
func (s *StoreFollower) tellGap(ctx context.Context, e *entered, gap *flow.GapError, lost flow.Lost) bool {
	if s.Gaps == nil || e.untold {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	accepted, err := s.Gaps.Tell(ctx, &flow.Gap{What: gap.What, Cursor: gap.Cursor, Start: gap.Start, SinceMillis: s.Clock.Now().UnixMilli(), Lost: lost})
	if err != nil {
		e.untold = true
		s.Log.Warn("gap is not recorded for operators, and is again when redis answers", "in", gap.What, "error", err)
	}
	return accepted && err == nil
}

// awaitAccepted ends a session in which some logs stand still, when one of their
// gaps is accepted, or can be told that was not.
func (s *StoreFollower) awaitAccepted(ctx context.Context, stop func(), e *entered) {
	for {
		if sluice.Pause(ctx, sluice.Rest(time.Now(), gapEvery)) != nil {
			return
		}
		if accepted, err := s.Gaps.Accepted(ctx, e.standing); err == nil && (accepted || e.untold) { // else it is asked again
			stop()
			return
		}
	}
}

// tellLoss logs that a log goes on from before its cursor. Redis has gone back
// in time, and a process has written before the log was raised. The log is read
// on, since the entries between were applied.
func (s *StoreFollower) tellLoss(b *flow.Batch, cursor sluice.Position) {
	if b.Prev.Before(cursor) {
		s.Log.Warn("log goes on from before its cursor: redis has gone back in time", "partition", b.Partition, "cursor", cursor.String(), "from", b.Prev.String())
	}
}
