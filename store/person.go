package store

import (
	"context"

	"sluice"
)

// Bounds of a look for the events of a person. Rows that are looked through are
// PersonPiece at a time, and PersonRows in all.
const (
	PersonPiece = 2_000
	PersonRows  = 20_000
)

// PersonAsked asks for custom events and purchases that name a person, as one partition
// has them.
type PersonAsked struct {
	Partition int
	Names     []string     // what events call the person, one at least
	Before    sluice.Place // only events before this place, in the order of the log
	Limit     int          // how many events are wanted
}

// PersonPage are such events, the newest place first.
type PersonPage struct {
	Events []StoredEvent

	// End is down to where nothing is left out, itself included.
	End sluice.Place

	// Done says that the partition has no event before End.
	Done bool
}

// PersonStore reads the events of one person. The stores of package sqlstore are ones.
type PersonStore interface {
	// PersonEvents goes through the events of a partition by their places, backwards,
	// until it has found as many as are asked for, or has looked through PersonRows. No
	// index has the names: it would cost each event that is stored (decision 68).
	PersonEvents(ctx context.Context, asked PersonAsked) (PersonPage, error)
}
