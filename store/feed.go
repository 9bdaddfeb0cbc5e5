package store

import (
	"context"
	"math"

	"sluice"
)

// Bounds of a page of the feed.
const (
	MaxFeedRows  = 1000
	MaxFeedBytes = 1 << 20 // of texts; one event more may be read
)

// FeedStore reads the events in the order of their places: the feed. The stores of
// package sqlstore are ones.
//
// The order misses nothing. The store follower writes the events of a partition in the
// order of its log, and in the transaction that moves its cursor. So no event is ever
// stored at a place that is not behind the cursor, whatever the time of the event is.
// A reader that goes on from the last place that it has seen, up to that cursor, has
// seen all. There is no order between partitions.
type FeedStore interface {
	// FeedHeads returns, by partition, how far its log is stored: the cursors of a
	// follower. It creates none.
	FeedHeads(ctx context.Context, follower string) (map[int]sluice.Position, error)

	// FeedPage reads the events of a partition behind a place, at most limit of them and
	// about MaxFeedBytes. It has all events of an item or none, so there are more than
	// limit if the first item has. The events and the follower's cursor are of one moment.
	FeedPage(ctx context.Context, follower string, partition int, after sluice.Place, limit int) (FeedPage, error)

	// FeedCount counts events of a partition behind one place up to another, by kind and
	// name, and those of one app and one user alone if they are named. It counts some
	// most events at most.
	FeedCount(ctx context.Context, after, upTo sluice.Place, most int, app, user string) ([]FeedSum, error)
}

// FeedPage is a part of a partition's feed.
type FeedPage struct {
	Events []StoredEvent // in the order of their places

	// End is up to where nothing is left out.
	End sluice.Place

	// More says that there may be events behind End already.
	More bool
}

// FeedSum is how many events of a kind and name there are.
type FeedSum struct {
	Kind  sluice.EventKind
	Name  string
	Count int64
}

// EndOf is the place behind all items at a position.
func EndOf(partition int, at sluice.Position) sluice.Place {
	return sluice.Place{Partition: partition, Position: at, Index: math.MaxInt32}
}
