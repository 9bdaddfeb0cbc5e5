package user

import "context"

// Segment is a rule with a name: the users for whom it holds at the moment one
// asks.
type Segment struct {
	ID             string // NewUUID
	Name           string // one segment has it; archived ones keep theirs
	Definition     string // JSON, as package rule writes it
	CreatedMillis  int64
	UpdatedMillis  int64 // when name or definition last changed
	ArchivedMillis int64 // 0: it is not; lists leave it out
}

// Bounds of segments.
const (
	// MaxSegments bounds how many there are, archived ones included.
	MaxSegments = 10_000

	// MaxSegmentNameRunes bounds a name.
	MaxSegmentNameRunes = 255
)

// SegmentQuery says which segments are listed.
type SegmentQuery struct {
	After    string // an id: only those after it; empty: all
	Newest   bool   // the newest first; else the oldest
	Archived bool   // these too
	Skip     int
	Limit    int
}

// SegmentStore is where segments are kept. The stores of package sqlstore are
// ones; what is promised of Store's methods holds for these. Refusals are
// *Errors: CodeNotFound where there is no such segment, CodeInvalid where
// another one has the name already, or there are MaxSegments.
type SegmentStore interface {
	// AddSegment stores a new one. Its id must be new.
	AddSegment(ctx context.Context, s Segment) error

	// Segment returns one, archived or not.
	Segment(ctx context.Context, id string) (Segment, error)

	// Segments lists them in the order of their ids.
	Segments(ctx context.Context, q SegmentQuery) ([]Segment, error)

	// PutSegment writes a segment anew, all but its id and its creation.
	PutSegment(ctx context.Context, s Segment) error
}
