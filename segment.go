package sluice

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

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

// NewUUID returns a UUID of version 7 (RFC 9562, 5.7): their order is that
// of the milliseconds in which they were made.
func NewUUID(now time.Time) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (8 * (5 - i)))
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

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
