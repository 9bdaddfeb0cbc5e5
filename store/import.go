package store

import (
	"context"
	"fmt"

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

// Bounds of imports whose file comes in pieces.
const (
	MaxImports         = 10_000   // that are kept
	MaxImportBytes     = 16 << 30 // of a file
	MaxImportNameBytes = 255      // of its name
	MaxImportColumns   = 1000     // that are made others
	MaxImportRefused   = 1000     // lines that are kept of an import, the first
	MaxImportReason    = 300      // bytes of a reason
)

// The states of an import whose file comes in pieces.
const (
	ImportOpen    = "open"    // pieces come
	ImportDone    = "done"    // its file has been read to the end
	ImportUndoing = "undoing" // what it put in is removed
	ImportUndone  = "undone"  // that was removed
)

// FileImport is an import whose file comes in pieces.
type FileImport struct {
	ID        string // a UUID, which rises with time
	Name      string // of the file
	Options   ImportOptions
	SizeBytes int64  // of the file
	Account   string // who began it: an account, or the id of a key
	State     string

	NextOffset int64  // where the next piece begins
	Lines      int64  // that were read: of what follows the sum
	Taken      int64  // written to the logs
	Refused    int64  // that were not
	Removed    int64  // events that undoing it has removed
	Reader     string // where reading stands; package imports knows what it says
	Claim      string // of the piece that is being written; empty: none is
	LastPiece  string // what became of the one before it

	CreatedMillis int64
	UpdatedMillis int64
	EndedMillis   int64 // when its file was read to the end; 0: it is not
}

// ImportMove is what a piece that is in the logs changes of its import.
type ImportMove struct {
	ID         string
	From       int64 // where the piece begins
	Claim      string
	NextOffset int64

	Lines, Taken, Refused int64 // of the piece
	Reader, LastPiece     string
	RefusedLines          []RefusedLine // that are kept
	NowMillis             int64
}

// RefusedLine is a line that is not taken.
type RefusedLine struct {
	Line   int64
	Reason string
}

// ImportPiece is what became of a piece.
type ImportPiece struct {
	NextOffset            int64 // where the next piece begins
	Lines, Taken, Refused int64
	RefusedLines          []RefusedLine // the first of them
	Repeated              bool          // it had been taken before; the lines are those of then, without RefusedLines

	// WantBytes, if it is not 0, says that the piece has no whole line or record, so that
	// nothing was done: it is sent again with at least so much behind it.
	WantBytes int
}

// OtherOffset says that a piece begins elsewhere than the next one of its import.
type OtherOffset struct{ Want int64 }

func (e *OtherOffset) Error() string {
	return fmt.Sprintf("the import goes on at offset %d of the file", e.Want)
}

// Unwrap makes it a conflict.
func (e *OtherOffset) Unwrap() error {
	return &sluice.Error{Code: sluice.CodeConflict, Index: -1, Message: e.Error()}
}

// ImportPreview is what an import would make of the beginning of a file.
type ImportPreview struct {
	Options ImportOptions  // as they would be: with the delimiter and the columns that were found
	Columns []ImportColumn // in the order of the file
	Fields  []string       // what a column may become, beside what it is called itself
	Lines   int64
	Rows    []ImportRow
	Refused int64
	Reasons []RefusedLine // the first that are refused
}

// ImportColumn is a column of a CSV, or a member of objects.
type ImportColumn struct {
	Name    string
	To      string // what it is called in the line; empty: it is left out
	As      string // what that is: a field, a property or attribute, or nothing
	Samples []string
}

// ImportRow is a line as it would be understood. Of users User and Named say who it is.
type ImportRow struct {
	Line int64

	Event, Kind, App, Email, UserRef, Message, ID string
	TimeMillis                                    int64

	User, Named string
	Values      string // a JSON object: of an event the properties, of a user the attributes
}

// ImportUnit is what an import has written to the logs in one go.
type ImportUnit struct {
	ID      string
	Batches []ImportedBatch
}

// FileImportStore keeps imports whose files come in pieces. The stores of package
// sqlstore are ones.
type FileImportStore interface {
	ImportStore

	// AddImport adds one. An *Error with CodeInvalid says that there are MaxImports.
	AddImport(ctx context.Context, i FileImport) error

	// FileImport returns one, or an *Error with CodeNotFound. FileImports returns those
	// before an id, the newest first, without Reader and LastPiece, which may be large;
	// before is empty for all.
	FileImport(ctx context.Context, id string) (FileImport, error)
	FileImports(ctx context.Context, before string, limit int) ([]FileImport, error)

	// ClaimImport says that a piece at an offset is about to be written, also one that is
	// claimed already; nowMillis is later than the import's UpdatedMillis. ErrConflict: the
	// import is not open, is elsewhere, or another piece is claimed.
	ClaimImport(ctx context.Context, id string, offset int64, claim string, nowMillis int64) error

	// NoteImported notes what a piece has written, under an id that rises.
	NoteImported(ctx context.Context, id string, unit ImportUnit) error

	// MoveImport says that a claimed piece is in the logs. ErrConflict: it is not claimed,
	// or was moved over.
	MoveImport(ctx context.Context, m ImportMove) error

	// SetImportState changes the state of one that is as it was read. ErrConflict: it is not.
	SetImportState(ctx context.Context, was FileImport, state string, nowMillis int64) error

	// ImportUnits returns what one has written and not yet undone, the last first, before
	// an id; before is empty for all.
	ImportUnits(ctx context.Context, id, before string, limit int) ([]ImportUnit, error)

	// RefusedLines returns lines behind one that were refused, as far as they are kept.
	RefusedLines(ctx context.Context, id string, afterLine int64, limit int) ([]RefusedLine, error)

	// UndoImported is RemoveImported of a batch of an import, which counts what it
	// removed in the same transaction. last: the unit has no other, and is forgotten.
	UndoImported(ctx context.Context, id, unit string, b ImportedBatch, last bool, hoursFromMillis, daysFromMillis int64) (int, error)
}
