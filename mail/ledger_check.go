package mail

import (
	"context"
	"fmt"
)

// LedgerCheck is the ledger of sends compared with itself, at one moment. Totals
// are added up by every transaction that changes rows; rows are counted. Every
// send that was ever accepted has a row, or was counted when its row was removed:
//
//	rows + removed == waiting + sent + failed + suppressed + in doubt + cancelled
//
// and so for each class and state by itself.
type LedgerCheck struct {
	Sums []LedgerSum // by class and state, in their order

	// Days are the rows by when they were accepted, newest first; Complete: all
	// rows, not only the newest MaxCountedSends.
	Days     []LedgerDay
	Complete bool
}

// MaxCountedSends bounds the rows that are counted for a LedgerCheck.
const MaxCountedSends = 1_000_000

// LedgerSum is how many sends of a class are in a state.
type LedgerSum struct {
	Class   Class
	State   SendState
	Total   int64 // of all that were accepted, as it was added up
	Removed int64 // of these, whose rows are removed
	Rows    int64 // as they were counted
}

// LedgerDay is how many rows of a day, a class and a state there are. Day is days
// since 1970, UTC.
type LedgerDay struct {
	Day   int64
	Class Class
	State SendState
	Rows  int64
}

// Off is by how much a sum differs from its rows; 0 unless all were counted.
func (c *LedgerCheck) Off(s *LedgerSum) int64 {
	if !c.Complete {
		return 0
	}
	return s.Total - s.Removed - s.Rows
}

// OffBy is by how many sends the ledger does not add up, over all classes and
// states; 0: it does, or it was not compared (Complete).
func (c *LedgerCheck) OffBy() (by int64) {
	for i := range c.Sums {
		off := c.Off(&c.Sums[i])
		by += max(off, -off)
	}
	return by
}

// Differences says of each sum that is not that of its rows what both are.
func (c *LedgerCheck) Differences() (texts []string) {
	for i := range c.Sums {
		if s := &c.Sums[i]; c.Off(s) != 0 {
			texts = append(texts, fmt.Sprintf("%s %s: %d by the totals, %d rows", s.Class, s.State, s.Total-s.Removed, s.Rows))
		}
	}
	return texts
}

// LedgerStore is where the ledger is compared with itself. The stores of sqlstore
// are ones.
type LedgerStore interface {
	SendStore

	// CheckLedger compares totals and rows at one moment. It reads up to
	// MaxCountedSends rows.
	CheckLedger(ctx context.Context) (LedgerCheck, error)

	// CountDeadLetters is that of Store.
	CountDeadLetters(ctx context.Context) (int64, error)
}

// LedgerRemedy is what to do if the ledger does not add up: the statements make
// the totals those of the rows.
const LedgerRemedy = "stop every sluice; DELETE FROM send_totals; INSERT INTO send_totals (class, state, stripe, count, removed) SELECT class, state, 0, COUNT(*), 0 FROM sends GROUP BY class, state"
