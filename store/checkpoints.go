package store

import (
	"context"

	"sluice"
)

// Checkpoint is how the journeys of a partition were in Redis at one commit: its row.
type Checkpoint struct {
	Partition int

	// At is the number of the commit, and its session's. Zero: there is none yet.
	At sluice.Position

	// Notes is what the partition noted beside its records, a JSON object of texts: up
	// to where facts were applied, how far scans are, how many chunks journeys have.
	Notes       string
	SavedMillis int64

	// Stamp is a number at random that each transaction changes. A writer names the one
	// that it left. So a writer that was replaced, or whose database has gone back in
	// time, is refused (ErrConflict).
	Stamp int64
}

// UnitKey names a list or a block of records of a partition. Unit is what flow makes of
// it.
type UnitKey struct {
	Journey, Unit int64
}

// UnitRow is one of its two rows, without the records.
type UnitRow struct {
	UnitKey
	Slot   int    // 0 or 1
	Number uint64 // Major of the commit of which the records are
	Hash   int64  // of the records
}

// Unit is a row to write.
type Unit struct {
	UnitRow
	Data []byte // empty: it is not there
}

// CheckpointStore keeps checkpoints of journeys. The stores of package sqlstore are
// ones; what is promised of Store's methods holds for these.
//
// How a checkpoint of any size is one consistent picture. A unit has two rows. One is
// valid: that of the highest number up to the checkpoint's. A writer puts new records in
// the other, in as many transactions as it likes. The last one, FinishCheckpoint, raises
// the checkpoint's number, and all become valid at once. A writer that ends in the middle
// leaves rows above that number: the next one writes these units again, first of all.
type CheckpointStore interface {
	// ClaimCheckpoint makes the caller the only writer of a partition's checkpoint, and
	// returns it. Every earlier writer is refused from now on.
	ClaimCheckpoint(ctx context.Context, partition int) (Checkpoint, error)

	// UnitRows lists the rows of a partition's units, valid or not, by journey, unit and
	// slot.
	UnitRows(ctx context.Context, partition int) ([]UnitRow, error)

	// PutUnits writes rows in one transaction, and returns the checkpoint with its new
	// stamp. ErrConflict: another has written meanwhile, and nothing was.
	PutUnits(ctx context.Context, c Checkpoint, units []Unit) (Checkpoint, error)

	// FinishCheckpoint makes c the checkpoint, with its At, Notes and SavedMillis, and
	// returns it with its new stamp. ErrConflict as of PutUnits.
	FinishCheckpoint(ctx context.Context, c Checkpoint) (Checkpoint, error)

	// EachUnit hands the valid units of a checkpoint to f, by journey and unit, with
	// their records. Those that are not there are left out. Data is only for the call.
	EachUnit(ctx context.Context, c Checkpoint, f func(u *Unit) error) error

	// Checkpoints lists those of all partitions, without units.
	Checkpoints(ctx context.Context) ([]Checkpoint, error)
}
