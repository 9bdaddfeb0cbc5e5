package flow

import (
	"context"
	"fmt"

	"sluice"
)

// GapError tells that what comes after a follower's cursor is no longer in
// Redis. errors.Is(err, sluice.ErrGap) holds.
type GapError struct {
	What      string          // "list NAME" or "log of partition N"
	Partition int             // of a log
	Cursor    sluice.Position // committed up to here
	Start     sluice.Position // Redis holds what comes after here

	// Passed is how many entries lie below the cursor that may not have been applied
	// (PassedOver); 0: it is another gap.
	Passed int64
}

// Error says what happened and what an operator can do.
func (e *GapError) Error() string {
	if e.Passed > 0 {
		return fmt.Sprintf("%s: %v: %d entries at most before %s may not have been stored: for some time two Redis were masters, and the other one's entries were stored; `sluice gaps accept` goes on without them", e.What, sluice.ErrGap, e.Passed, e.Cursor)
	}
	return fmt.Sprintf("%s: %v: committed up to %s, Redis holds from %s on; was the database restored from a backup, or Redis emptied? What lies between is lost unless you bring it back; `sluice gaps accept` goes on from there", e.What, sluice.ErrGap, e.Cursor, e.Start)
}

// Unwrap returns sluice.ErrGap.
func (e *GapError) Unwrap() error { return sluice.ErrGap }

// LostRowsFollower names a cursor. The log's outcomes up to it may speak of
// sends whose rows are lost. It is LostUpTo of the moment when the log's last
// gap was accepted. It moves in the transaction that moves the log's cursor
// over the gap. If the database goes back, it goes back as well, and the gap is
// met anew.
const LostRowsFollower = "gap"

// lostRowsMillis is for how long after a gap was accepted an outcome may speak
// of a lost row. Mail may be on the wire, and leaves the lanes until they are
// compared with the ledger.
const lostRowsMillis = 3_600_000

// LostUpTo returns the position up to which outcomes may speak of sends whose
// rows are lost, of a gap that is accepted now. It is an hour beyond the log's
// end. For a log without a recent write it is also an hour beyond the clock of
// Redis.
func (l *Log) LostUpTo(ctx context.Context) (sluice.Position, error) {
	end, err := l.Last(ctx)
	if err != nil {
		return sluice.Position{}, err
	}
	now, err := l.redis.timeAt(ctx, l.partition.logKey())
	if err != nil {
		return sluice.Position{}, err
	}
	return sluice.Position{Major: max(end.Major, uint64(now)) + lostRowsMillis}, nil
}

// PartitionError says that a follower cannot get on with one partition, whatever
// it does for others.
type PartitionError struct {
	Partition int
	Err       error
}

// Error is Err's, which names the partition.
func (e *PartitionError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *PartitionError) Unwrap() error { return e.Err }
