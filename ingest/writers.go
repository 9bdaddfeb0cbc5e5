package ingest

import (
	"maps"
	"slices"
	"strconv"

	"sluice/flow"
)

// Writers of the store.
//
// The idea. A transaction is some twenty statements one after the other, and each waits
// for its round trip. With a database that is near they are nothing. With one that is
// 10 ms away they are as long as the load itself, and the database idles meanwhile. So a
// process may store by several followers, each with partitions of its own (flow.Share),
// a store of its own with its connection for transactions, and sessions, margins, gaps and
// health of its own. While one waits, the others load.
//
// SQLite has one writer, and two followers share one store (TakeTurns). Their
// transactions follow one another. While one is written, the other resolves the users of
// its next one, which are of its own partitions: so none of them is about to change.
//
// The invariants. To the database, and to the logs, a writer is what a process is. No
// partition has two, and its cursor refuses a second one. Rows that several write have
// stripes (the lowest partition of a writer), or are locked in the order of their keys.
// What is for another partition is forwarded. A writer that fails begins anew from its
// cursors, and the others go on.
//
// What was tried and dropped stands in docs/decisions/70-writers.md and
// 82-writers-of-sqlite.md.

// flush is where a transaction of the writer is full, by the bound of one that is alone.
// Those of several are smaller: together they hold in memory twice what one does at most,
// and their partitions end at about the same time.
func (s *StoreFollower) flush(alone int) int {
	if s.Writers > 1 {
		return alone / max(2, s.Writers/2)
	}
	return alone
}

// Name is what health, log and alerts call a writer of the store: the first as the role,
// the others with their number behind it.
func (s *StoreFollower) Name() string {
	if s.Writer == 0 {
		return StoreRole
	}
	return StoreRole + " " + strconv.Itoa(s.Writer+1)
}

// stripe is that of the rows to which several add: the lowest partition that the writer
// holds. Writers that take turns never add at once, and have one together.
func (s *StoreFollower) stripe(held map[int]*flow.Lease) int {
	if s.TakeTurns {
		if all, _ := s.Leases.Held(StoreRole); len(all) > 0 {
			held = all
		}
	}
	return slices.Min(slices.Collect(maps.Keys(held)))
}
