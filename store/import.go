package store

import (
	"context"

	"sluice"
)

// What a file that is imported has.
const (
	ImportEvents = "events"
	ImportUsers  = "users"
)

// ImportOptions say how the lines of a file become events, or updates of users.
type ImportOptions struct {
	Kind      string            `json:"kind"`
	App       string            `json:"app_id,omitempty"`    // of events that name none
	Columns   map[string]string `json:"columns,omitempty"`   // names of columns and members that are made others; "": it is left out
	Format    string            `json:"format,omitempty"`    // ndjson or csv; empty: the content tells it
	Delimiter string            `json:"delimiter,omitempty"` // between the cells of a CSV; empty: the header tells it
	Dedupe    string            `json:"dedupe,omitempty"`    // the field with an event's own id, which each must have
	Exported  bool              `json:"exported,omitempty"`  // it is one of `sluice export events`
}

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
