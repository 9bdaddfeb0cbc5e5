package spool

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sluice/mail"
)

// standing is a ledger that nobody writes: all goes on to wait.
type standing struct{}

func (standing) WaitingSends(_ context.Context, _ int, after mail.SendKey, _ int) ([]mail.SendRow, error) {
	return []mail.SendRow{{Message: after.Message, Number: after.Number + 1}}, nil
}

// TestAPurgeIsPacedWithoutTheLedger: a database that says nothing is when a purge may
// least of all write all it has at once.
func TestAPurgeIsPacedWithoutTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages = PurgeStep / purgePage
		began, pace := time.Now(), newPurgePace(standing{}, nil)
		for i := range pages {
			rows := make([]mail.SendRow, purgePage)
			for j := range rows {
				rows[j] = mail.SendRow{Message: "m", Number: i*purgePage + j + 1}
			}
			if err := pace.written(t.Context(), 0, rows); err != nil {
				t.Fatal(err)
			}
		}
		const want = purgePatience + (pages-1)*purgeDeafRest
		if took := time.Since(began); took != want {
			t.Errorf("a step of %d pages took %s, want %s", pages, took, want)
		}
	})
}
