package ingest

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"sluice/flow"
)

// Writers of the store.
//
// The idea. A transaction is some twenty statements one after the other, and each waits
// for its round trip. With a database that is 10 ms away they are as long as the load
// itself, and the database idles meanwhile. And where events name people, their users are
// read and changed before the load, and the database has little to do meanwhile. So a
// process may store by several followers, each with partitions of its own (flow.Share),
// a store of its own with its connection for transactions, and sessions, margins, gaps and
// health of its own. While one waits or computes, the others load. Users of a writer are
// of its own partitions: none of them is about to change by another.
//
// SQLite has one writer, and its followers share one store (TakeTurns). Their
// transactions follow one another.
//
// The invariants. To the database, and to the logs, a writer is what a process is. No
// partition has two, and its cursor refuses a second one. Rows that several write have
// stripes (the lowest partition of a writer), or are locked in the order of their keys.
// What is for another partition is forwarded. A writer that fails begins anew from its
// cursors, and the others go on.
//
// What was tried and dropped stands in docs/decisions/70-writers.md, 82-writers-of-sqlite.md
// and 83-two-writers.md.

// flush is where a transaction of the writer is full, by the bound of one that is alone.
// Those of several are smaller: together they hold in memory twice what one does at most,
// and their partitions end at about the same time.
func (s *StoreFollower) flush(alone int) int {
	if s.Writers > 1 {
		return alone / max(2, s.Writers/2)
	}
	return alone
}

// flushWait is how long the first row of a quiet time waits for company. Several writers wait
// twice as long each. So two of them, which is usual, make as many transactions as one alone,
// each with its sync of the disk. A writer waits as one that is alone while no other of its
// process has partitions: where processes share few of them.
func (s *StoreFollower) flushWait() time.Duration {
	if s.Writers > 1 {
		all, _ := s.Leases.Held(StoreRole)
		for p := range all {
			if p%s.Writers != s.Writer {
				return 2 * flushWait
			}
		}
	}
	return flushWait
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
