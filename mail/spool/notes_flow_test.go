package spool_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/clocktest"
	"sluice/test/spooltest"
)

// silentRecord is a ledger that says of no row how it is: it fails, or never answers.
type silentRecord struct {
	spool.Record
	hangs bool
	asked atomic.Int64
}

func (s *silentRecord) SendRows(ctx context.Context, _ []mail.SendKey) ([]mail.SendRow, error) {
	s.asked.Add(1)
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errors.New("the database is away")
}

// TestOldNotesKeepNoMailWaiting: a note of a cancelled send is to be looked up while the
// database is away. Mail of its partition that needs no database leaves all the same.
func TestOldNotesKeepNoMailWaiting(t *testing.T) {
	t.Run("the database fails", func(t *testing.T) { testOldNotes(t, false) })
	t.Run("the database hangs", func(t *testing.T) { testOldNotes(t, true) })
}

func testOldNotes(t *testing.T, hangs bool) {
	b := newBed(t)
	w := newWire(nil)
	first := b.open(&spooltest.OneRoute{Transport: w}, nil)
	clock := clocktest.At(time.Now())
	first.queuer.Clock = clock
	first.run()
	to := inOnePartition([]string{"later.example", "now.example"})
	scheduled := draft(to[0], mail.PriorityNormal, mail.ClassMarketing)
	scheduled.DueMillis = time.Now().Add(time.Hour).UnixMilli()
	id := first.submit(scheduled)[0]
	b.eventually("it waits", func() bool { return first.totals() == "waiting 1" })
	clock.Move(-time.Hour) // so that the note is old
	first.cancelLate(id)
	first.stop()

	second := b.open(&spooltest.OneRoute{Transport: w}, nil)
	record := &silentRecord{Record: second.store, hangs: hangs}
	second.sender.Record = record
	second.run()
	b.eventually("the note is looked up", func() bool { return record.asked.Load() > 0 })
	second.submit(draft(to[1], mail.PriorityHigh, mail.ClassTransactional))
	b.eventually("the mail has left", func() bool { return slices.Equal(w.came(), to[1:]) })
	b.eventually("the log says so", func() bool { return strings.Contains(b.log.String(), "records of cancelled sends could not be read") })
}
