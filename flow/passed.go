package flow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sluice"
)

// For some seconds two Redis can be masters: one that a network has cut off, and the
// replica that was promoted for it. A process beside the old one stores what that one
// takes, and moves the cursor. Others write to the new one. Their entries then lie below
// a cursor that has never passed them, and nobody would read them.
//
// The idea. raise.lua notes with the log which Redis it is on (@server), where the log
// ended when that was first seen (@from), and whether a session of the store has begun on
// it since (@begun). A cursor that is beyond @from is an entry of this log, or it came
// from another Redis: applied entries go from the oldest on, so one that is gone leaves
// none before it. What lies between @from and a cursor from elsewhere was passed over.
//
// If no session has begun here, none of it was applied. It moves behind the log's end, in
// the step that raises the log, and what was written since moves with it: the order stays.
// If one has begun, a part may be applied and nobody knows which. Reading it again could
// double it. So the partition stands still as at a gap, with the number of entries.
//
// What was dropped. To move the cursor in SQL back: the old master's process could move it
// on from there and apply its own entries once more, and readers of facts and events, who
// go by place, have passed those places.

// Entries of a log that move at most. More of them are passed over, as those of which
// nobody knows whether they were applied.
const (
	maxMovedEntries = 20_000
	maxMovedBytes   = 32 << 20
)

// serverFields are those of the sources that are about one Redis, and mean nothing on
// another one.
var serverFields = []string{"@server", "@from", "@begun", "@passed"}

// Begun says what a session of the store has found of a log when it begins.
type Begun struct {
	Raised bool
	Moved  int64 // entries that lay below the cursor unread: they are behind it now
	Passed int64 // entries that lie below it, and may not have been applied
}

// Begin is Raise for a session of the store that reads on from the cursor. It finds what a
// cursor has passed over that came from another Redis. The zero cursor is one that is not
// known: nothing is found, and what the session reads counts as read.
func (l *Log) Begin(ctx context.Context, cursor sluice.Position) (b Begun, err error) {
	answer, err := l.raise(ctx, cursor, "1")
	if err != nil {
		return b, err
	}
	b.Raised = answer[0] == "1"
	var errs [2]error
	b.Moved, errs[0] = strconv.ParseInt(answer[2], 10, 64)
	b.Passed, errs[1] = strconv.ParseInt(answer[3], 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return b, fmt.Errorf("begin to read the log of partition %d: %w", l.partition.Number, err)
	}
	return b, nil
}

// StandsAt returns the gap of entries that the cursor may have passed over, as a session of
// the store has found it. nil: none has.
func (l *Log) StandsAt(ctx context.Context, cursor sluice.Position) (*GapError, error) {
	noted, err := Ask(ctx, l.redis, "read what a cursor has passed over", l.redis.B().Hget().Key(l.partition.sourcesKey()).Field("@passed").Build(), Text)
	if err != nil {
		return nil, err
	}
	at, count, _ := strings.Cut(noted, " ")
	if at != cursor.String() {
		return nil, nil
	}
	entries, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read what a cursor of partition %d has passed over: %q is no count", l.partition.Number, noted)
	}
	return l.PassedOver(cursor, entries), nil
}

// PassedOver is the gap of entries that a cursor may have passed over.
func (l *Log) PassedOver(cursor sluice.Position, entries int64) *GapError {
	return &GapError{What: l.String(), Partition: l.partition.Number, Cursor: cursor, Start: sluice.Position{Major: cursor.Major, Minor: cursor.Minor + 1}, Passed: entries}
}
