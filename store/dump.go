package store

import (
	"context"
	"strings"

	"sluice"
)

// DumpStore is a store whose standard tables can be read as they are at one
// moment, while others write, and written back. The stores of sqlstore are
// ones.
type DumpStore interface {
	// DumpTables lists the standard tables that this program knows.
	DumpTables() []DumpTable

	// Snapshot begins to read. The schema must be this program's. What is committed later
	// is not seen. The caller closes it: an open one keeps the server from clearing up.
	Snapshot(ctx context.Context) (Snapshot, error)

	// BeginRestore marks the database as half restored and empties its standard
	// tables, but cursors, leases and secrets. Its schema may be newer, if this program can
	// use it: further tables stay as they are. Without replace it is refused
	// if one of them has a row, unless an earlier restore was never finished.
	// Until Finish, Restoring is true, and no program may work on the database.
	BeginRestore(ctx context.Context, replace bool) (Restore, error)

	// Restoring reports whether a restore was begun and not finished.
	Restoring(ctx context.Context) (bool, error)

	// OwnTableCursors returns the cursors of followers that fill tables of the
	// user's own. A restore does not touch those tables, so a restore
	// gives these cursors to Finish as they are.
	OwnTableCursors(ctx context.Context) ([]DumpCursor, error)
}

// Snapshot is the standard tables at one moment. One goroutine uses it at a time.
type Snapshot interface {
	// Dialect names the kind of database; SchemaVersion is that of its schema.
	Dialect() string
	SchemaVersion() int

	// Tables lists the standard tables.
	Tables() []DumpTable

	// Rows hands all rows of a table to fn, in the order of its key, with a cell
	// for each column. The cells' memory is fn's only until it returns.
	Rows(ctx context.Context, table string, fn func(cells []Cell) error) error

	// Events hands the events that the filter lets through to fn, in the order
	// of (time, id). An event without an id of its own has the one that its
	// place gives it.
	Events(ctx context.Context, filter EventFilter, fn func(e *StoredEvent) error) error

	Close() error
}

// DumpTable is one of the standard tables.
type DumpTable struct {
	Name    string       `json:"name"`
	Columns []DumpColumn `json:"columns"`
}

// DumpColumn is one of its columns. Kind says what its cells are in a dump,
// whatever the database makes of them.
type DumpColumn struct {
	Name string   `json:"name"`
	Kind DumpKind `json:"kind"`
}

// DumpKind is the kind of a column of a dump.
type DumpKind string

// The kinds of columns. Any cell may be a CellNull as well.
const (
	DumpText     DumpKind = "text"     // CellText
	DumpNumber   DumpKind = "number"   // CellNumber, 64 bits with a sign
	DumpPosition DumpKind = "position" // CellNumber, 64 bits without a sign
	DumpTime     DumpKind = "time"     // CellNumber, milliseconds since 1970
	DumpBytes    DumpKind = "bytes"    // CellBytes
)

// EventFilter lets some events through. What is empty lets all.
type EventFilter struct {
	FromMillis, ToMillis int64 // half open; 0: no bound
	Kind, Name, App      string
}

// Restore is a restore under way. One goroutine uses it at a time.
type Restore interface {
	// Tables lists the standard tables, as Snapshot.Tables does.
	Tables() []DumpTable

	// Write adds rows to a table, in a transaction: for each of the columns a
	// cell in each row.
	Write(ctx context.Context, table string, columns []string, cells []Cell) error

	// Finish makes these the cursors, raises the lease numbers beyond these and
	// any that the database had, and takes the mark away, in one transaction.
	Finish(ctx context.Context, cursors []DumpCursor, leases []DumpLease) error
}

// OwnTable reports whether a follower fills a table of the user's own.
func (c DumpCursor) OwnTable() bool { return strings.HasPrefix(c.Follower, "list:") }

// DumpCursor is a row of the cursors.
type DumpCursor struct {
	Follower  string
	Partition int
	Position  sluice.Position
}

// DumpLease is a row of the leases.
type DumpLease struct {
	Role      string
	Partition int
	Number    uint64
}

// Line is one line of a file that is imported: an event as a JSON object.
type Line struct {
	Number  int64 // in the file, from 1; of a record of several lines, the first
	Text    string
	Refused error // why it cannot be read as a line; Text is then what there is of it
}
