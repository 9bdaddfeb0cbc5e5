package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"

	"sluice"
	"sluice/store"
)

// Checkpoints of journeys go by the writing connection, in pieces, between transactions
// of the store follower: so neither waits for more than one of the other. On a connection
// of their own they would wait for the same lock in SQLite, which has one writer.

var _ store.CheckpointStore = (*Store)(nil)

// newStamp is a stamp that no other transaction has.
func newStamp() int64 { return rand.Int64() }

func (s *Store) scanCheckpoint(scan scanner, c *store.Checkpoint) error {
	return scan(&c.Partition, &c.Stamp, (*number)(&c.At.Major), (*number)(&c.At.Minor), &c.Notes, s.instant(&c.SavedMillis))
}

// Checkpoints implements store.CheckpointStore.
func (s *Store) Checkpoints(ctx context.Context) ([]store.Checkpoint, error) {
	all, err := list(ctx, s.d, s.reads, s.scanCheckpoint, rawQuery(s.d, "checkpoint_list"))
	return all, s.failed(err, "list checkpoints of journeys in")
}

// ClaimCheckpoint implements store.CheckpointStore. If two claim at once, one of them
// may be refused.
func (s *Store) ClaimCheckpoint(ctx context.Context, partition int) (c store.Checkpoint, err error) {
	err = s.write(ctx, func(tx *txn) error {
		c, err = tx.checkpoint(ctx, partition)
		before := c.Stamp
		c.Stamp = newStamp()
		if err != nil {
			return err
		}
		if before == 0 {
			return tx.exec(ctx, "checkpoint_add", partition, c.Stamp, s.now())
		}
		return tx.stamp(ctx, partition, before, c.Stamp)
	})
	return c, s.failed(err, "claim the checkpoint of journeys of partition %d in", partition)
}

// checkpoint reads the checkpoint of a partition; its stamp is 0 if there is no row.
func (t *txn) checkpoint(ctx context.Context, partition int) (c store.Checkpoint, err error) {
	rows, err := list(ctx, t.store.d, t.conn, t.store.scanCheckpoint, rawQuery(t.store.d, "checkpoint_get"), partition)
	if len(rows) == 1 {
		c = rows[0]
	}
	c.Partition = partition
	return c, err
}

// stamp changes the stamp of a checkpoint, if it is still the one that the caller knows.
func (t *txn) stamp(ctx context.Context, partition int, from, to int64) error {
	n, err := t.changed(ctx, "checkpoint_stamp", to, partition, from)
	return stamped(n, err)
}

func stamped(n int, err error) error {
	if err == nil && n != 1 {
		err = fmt.Errorf("%w: another process has written it, or the database has gone back in time", sluice.ErrConflict)
	}
	return err
}

// UnitRows implements store.CheckpointStore.
func (s *Store) UnitRows(ctx context.Context, partition int) ([]store.UnitRow, error) {
	all, err := list(ctx, s.d, s.reads, func(scan scanner, r *store.UnitRow) error {
		return scan(&r.Journey, &r.Unit, &r.Slot, (*number)(&r.Number), &r.Hash)
	}, rawQuery(s.d, "checkpoint_units"), partition)
	return all, s.failed(err, "list what the checkpoint of journeys of partition %d has in", partition)
}

// PutUnits implements store.CheckpointStore. The rows go in the order of their key.
func (s *Store) PutUnits(ctx context.Context, c store.Checkpoint, units []store.Unit) (store.Checkpoint, error) {
	const columns = 7
	args := make([]any, 0, columns*len(units))
	for i := range units {
		u := &units[i]
		data := u.Data
		if data == nil {
			data = []byte{}
		}
		args = append(args, c.Partition, u.Journey, u.Unit, u.Slot, s.d.number(u.Number), u.Hash, data)
	}
	next := c
	next.Stamp = newStamp()
	err := s.write(ctx, func(tx *txn) error {
		if err := tx.stamp(ctx, c.Partition, c.Stamp, next.Stamp); err != nil {
			return err
		}
		return s.d.insertLarge(ctx, tx, "checkpoint_put", columns, args)
	})
	return next, s.failed(err, "write %d blocks of the checkpoint of journeys of partition %d in", len(units), c.Partition)
}

// FinishCheckpoint implements store.CheckpointStore.
func (s *Store) FinishCheckpoint(ctx context.Context, c store.Checkpoint) (store.Checkpoint, error) {
	next := c
	next.Stamp = newStamp()
	err := s.write(ctx, func(tx *txn) error {
		return stamped(tx.changed(ctx, "checkpoint_finish", next.Stamp, s.d.number(c.At.Major), s.d.number(c.At.Minor), c.Notes, s.d.millis(c.SavedMillis), c.Partition, c.Stamp))
	})
	return next, s.failed(err, "finish the checkpoint of journeys of partition %d in", c.Partition)
}

// EachUnit implements store.CheckpointStore. The statement leaves out the row of a unit that is
// not valid: its data would be read and sent for nothing, half of all. Both come where they have
// one number, one behind the other: so one row is kept back.
func (s *Store) EachUnit(ctx context.Context, c store.Checkpoint, f func(u *store.Unit) error) error {
	var kept store.Unit
	flush := func() error {
		if len(kept.Data) == 0 {
			return nil
		}
		return f(&kept)
	}
	err := s.each(ctx, rawQuery(s.d, "checkpoint_blocks"), []any{c.Partition, s.d.number(c.At.Major), s.d.number(c.At.Major)}, func(scan scanner) error {
		var r store.UnitRow
		var data sql.RawBytes
		if err := scan(&r.Journey, &r.Unit, &r.Slot, (*number)(&r.Number), &data); err != nil {
			return err
		}
		switch {
		case r.Number > c.At.Major:
			return nil
		case r.UnitKey != kept.UnitKey:
			if err := flush(); err != nil {
				return err
			}
		case r.Number < kept.Number:
			return nil
		}
		kept.UnitRow = r
		kept.Data = append(slices.Grow(kept.Data[:0], len(data)), data...)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return s.failed(err, "read the checkpoint of journeys of partition %d from", c.Partition)
}
