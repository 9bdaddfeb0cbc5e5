package flow

import (
	"fmt"

	"sluice"
)

// GapError tells that what comes after a follower's cursor is no longer in
// Redis. errors.Is(err, sluice.ErrGap) holds.
type GapError struct {
	What   string          // "list NAME" or "log of partition N"
	Cursor sluice.Position // committed up to here
	Start  sluice.Position // Redis holds what comes after here
}

// Error says what happened and what an operator can do.
func (e *GapError) Error() string {
	return fmt.Sprintf("%s: %v: committed up to %s, Redis holds from %s on; was the database restored from a backup, or Redis emptied? What lies between is lost unless you bring it back; `sluice gaps accept` goes on from there", e.What, sluice.ErrGap, e.Cursor, e.Start)
}

// Unwrap returns sluice.ErrGap.
func (e *GapError) Unwrap() error { return sluice.ErrGap }

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
