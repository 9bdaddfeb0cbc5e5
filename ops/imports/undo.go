package imports

import (
	"context"
	"errors"
	"time"

	"sluice"
	"sluice/store"
)

// Bounds of what is looked through at once.
const (
	unitsAtOnce = 8 // each has a batch of each partition

	// unitsLooked bounds for how many units is looked whether they are stored: an import may
	// have nothing for some partition. An undo looks at each unit before it removes it.
	unitsLooked = 128

	// undoTime and countTime are how long a request undoes and counts; the next one goes on.
	undoTime  = 10 * time.Second
	countTime = 10 * time.Second

	// pieceTime is behind the end of each request that writes a piece.
	pieceTime = time.Minute
)

// place is where a batch is.
type place struct {
	partition int
	position  sluice.Position
}

// Left counts the items of an import that are still to be stored. It looks at what was
// written last, back to where each partition has stored a batch: of the same partition the
// older is, too.
func (d *Desk) Left(ctx context.Context, id string) (left int64, err error) {
	cursors, err := cursorsOf(ctx, d.Store, len(d.Logs))
	if err != nil {
		return 0, err
	}
	stored, looked := make(map[int]bool, len(d.Logs)), 0 // stored: partitions
	err = d.eachUnit(ctx, id, func(u *store.ImportUnit) (more bool, err error) {
		left += unstored(cursors, u.Batches)
		for i := range u.Batches {
			if b := &u.Batches[i]; !cursors[b.Partition].Before(b.Position) {
				stored[b.Partition] = true
			}
		}
		looked++
		return len(stored) < len(d.Logs) && looked < unitsLooked, nil
	})
	return left, err
}

// eachUnit calls f for what an import has written, the last first, while f wants more.
func (d *Desk) eachUnit(ctx context.Context, id string, f func(*store.ImportUnit) (more bool, err error)) error {
	for before := ""; ; {
		units, err := d.Store.ImportUnits(ctx, id, before, unitsAtOnce)
		if err != nil {
			return err
		}
		for i := range units {
			if more, err := f(&units[i]); err != nil || !more {
				return err
			}
			before = units[i].ID
		}
		if len(units) < unitsAtOnce {
			return nil
		}
	}
}

// Count returns how many events are in the table that an import has put there. whole is
// false if it had no time for all, so that there may be more.
func (d *Desk) Count(ctx context.Context, id string) (events int64, whole bool, err error) {
	if _, err := d.undoable(ctx, id); err != nil {
		return 0, false, err
	}
	end := d.Clock.Now().Add(countTime)
	whole = true
	known := make(map[place]bool)
	err = d.eachUnit(ctx, id, func(u *store.ImportUnit) (more bool, err error) {
		for i := range u.Batches {
			b := &u.Batches[i]
			if whole = d.Clock.Now().Before(end); !whole || ctx.Err() != nil {
				return false, ctx.Err()
			}
			if at := (place{b.Partition, b.Position}); !known[at] {
				known[at] = true
				n, err := d.Store.CountImported(ctx, *b)
				if events += int64(n); err != nil {
					return false, err
				}
			}
		}
		return true, nil
	})
	return events, whole, err
}

// undoable returns an import of events.
func (d *Desk) undoable(ctx context.Context, id string) (store.FileImport, error) {
	i, err := d.Store.FileImport(ctx, id)
	if err == nil && i.Options.Kind == store.ImportUsers {
		err = conflict("an import of users cannot be undone: what a profile was before is kept nowhere. Delete the users by /users/delete, or restore a backup of before")
	}
	return i, err
}

// Undo removes the events that an import has put in, also from the series, for undoTime at
// most. The import it returns says whether all are gone; a repeat goes on. It takes no more
// pieces from the first call on. What else came of the events stays.
func (d *Desk) Undo(ctx context.Context, id string) (store.FileImport, error) {
	i, err := d.undoable(ctx, id)
	if err != nil || i.State == store.ImportUndone {
		return i, err
	}
	if i.State != store.ImportUndoing {
		if err := d.beginUndo(ctx, &i); err != nil {
			return i, err
		}
	}
	if err := d.remove(ctx, id); err != nil {
		return i, err
	}
	if i, err = d.Store.FileImport(ctx, id); err != nil || i.State != store.ImportUndoing {
		return i, err
	}
	if units, err := d.Store.ImportUnits(ctx, id, "", 1); err != nil || len(units) > 0 {
		return i, err
	}
	if err = d.Store.SetImportState(ctx, i, store.ImportUndone, d.Clock.Now().UnixMilli()); errors.Is(err, sluice.ErrConflict) {
		err = nil // another call has done it
	}
	if err == nil {
		i, err = d.Store.FileImport(ctx, id)
	}
	return i, err
}

// beginUndo has an import take no more pieces, once all that it has written is known and
// stored.
func (d *Desk) beginUndo(ctx context.Context, i *store.FileImport) error {
	if i.Claim != "" {
		if d.Clock.Now().UnixMilli()-i.UpdatedMillis < pieceTime.Milliseconds() {
			return conflict("a piece of it is being written, or its sender has died: ask again in a minute")
		}
		p := &piece{desk: d, of: i}
		if err := p.stand(); err != nil {
			return err
		}
		im := d.Import(&i.Options)
		im.Source, im.Known, im.Part, im.Wrote = source(i.ID), true, &p.at.Point, d.noting(ctx, i.ID)
		if err := im.Recall(ctx); err != nil {
			return err
		}
	}
	left, err := d.Left(ctx, i.ID)
	if err != nil {
		return err
	}
	if left > 0 {
		return errUnstored(left)
	}
	err = d.Store.SetImportState(ctx, *i, store.ImportUndoing, d.Clock.Now().UnixMilli())
	if errors.Is(err, sluice.ErrConflict) {
		return conflict("somebody else changes it at the moment; ask again")
	}
	return err
}

func errUnstored(left int64) error {
	return conflict("%d events of it are still to be stored; undo it when they are", left)
}

// remove undoes batches, until all are or its time is over. What is still to be stored
// would come behind the undo: a sender of long ago may have written it all the same.
func (d *Desk) remove(ctx context.Context, id string) error {
	cursors, err := cursorsOf(ctx, d.Store, len(d.Logs))
	if err != nil {
		return err
	}
	now := d.Clock.Now()
	end := now.Add(undoTime)
	hours, days := SeriesFrom(&d.Kept, now)
	return d.eachUnit(ctx, id, func(u *store.ImportUnit) (more bool, err error) {
		if left := unstored(cursors, u.Batches); left > 0 {
			return false, errUnstored(left)
		}
		for i := range u.Batches {
			if !d.Clock.Now().Before(end) {
				return false, nil
			}
			if _, err := d.Store.UndoImported(ctx, id, u.ID, u.Batches[i], i == len(u.Batches)-1, hours, days); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}
