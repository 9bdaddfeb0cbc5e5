package store

import (
	"context"

	"sluice"
)

// ImportedBatch is a batch that an import has written to a log.
type ImportedBatch struct {
	Partition int             `json:"partition"`
	Position  sluice.Position `json:"-"`

	// Items is how many it has, FromMillis and ToMillis the span of the times of its
	// events. Of a batch of a run that was broken off before it noted them, Items
	// is 0, and the span has all times.
	Items      int64 `json:"items"`
	FromMillis int64 `json:"from"`
	ToMillis   int64 `json:"to"`
}

// ImportStore tells what became of the events of an import, and takes them away.
type ImportStore interface {
	// CountImported returns how many events of a batch are in the table. The
	// others were there before it, under another place, or were refused.
	CountImported(ctx context.Context, b ImportedBatch) (int, error)

	// RemoveImported deletes the events of a batch and takes them out of the
	// series, in one transaction, and returns how many there were. Hours and
	// days that begin before these times are past their retention: they stay as
	// they are.
	RemoveImported(ctx context.Context, b ImportedBatch, hoursFromMillis, daysFromMillis int64) (int, error)
}
