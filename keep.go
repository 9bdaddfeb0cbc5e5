package sluice

import "context"

// KeepStore is a store from which what is too old goes. The stores of sqlstore
// are ones. All of it may be done by several processes at once, and while
// others write: nothing here waits for a lock, or holds one, for more than
// about a second; what fails for that is tried again later. Times are
// milliseconds since 1970; days are those of UTC.
type KeepStore interface {
	// MakeEventDays makes partitions of the table events for the days that begin
	// before a moment and have none. It returns how many it made: 0 as well if
	// the database cannot divide a table, or if another process is at it.
	MakeEventDays(ctx context.Context, beforeMillis int64) (made int, err error)

	// DropEventDays drops the partitions whose days have all ended by a moment,
	// with their events, and returns their names.
	DropEventDays(ctx context.Context, endedMillis int64) (dropped []string, err error)

	// NextEvent returns the time of the oldest event that is not before a moment.
	NextEvent(ctx context.Context, fromMillis int64) (millis int64, ok bool, err error)

	// DeleteEvents deletes the oldest events of a kind in a half-open range of
	// time, some thousands at most. Before the time reached none is left; that
	// is toMillis when all are deleted.
	DeleteEvents(ctx context.Context, kind EventKind, fromMillis, toMillis int64) (deleted int, reachedMillis int64, err error)

	// DeleteSeries deletes the hours or, if days is true, the days of the series
	// that begin before a moment, in several transactions.
	DeleteSeries(ctx context.Context, days bool, beforeMillis int64) (deleted int, err error)

	// DeleteDeadLetters deletes some hundreds at most of those that were found
	// before a moment. more: there are others.
	DeleteDeadLetters(ctx context.Context, beforeMillis int64) (deleted int, more bool, err error)
}
