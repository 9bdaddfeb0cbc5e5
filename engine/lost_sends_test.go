package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/tables"
)

// TestLostSendsAreKnownAfterARestart: a process that has found none itself counts
// those that the database has, until somebody has decided about them.
func TestLostSendsAreKnownAfterARestart(t *testing.T) {
	db := tables.Open(t, sqlstore.Options{})
	apply := func(e *store.Effect) {
		t.Helper()
		p, err := db.Prepare(e)
		if err == nil {
			_, err = db.Apply(t.Context(), p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	var found store.Effect
	for range 3 {
		s := mail.Send{Message: sluice.NewMessageID(now.UnixMilli()), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassTransactional, To: "a@example.com", AcceptedMillis: now.UnixMilli()}
		found.Sends = append(found.Sends, mail.StoredSend{Send: s})
		found.Outcomes = append(found.Outcomes, mail.StoredOutcome{Outcome: mail.Outcome{
			Message: s.Message, Recipients: 1, Was: mail.SendWaiting, State: mail.SendInDoubt, TimeMillis: now.UnixMilli(), Reason: mail.ReasonLost,
		}})
	}
	apply(&found)
	clock := clocktest.At(now)
	var lost lostSends
	// A count has a second, which a busy machine may not have for it.
	count := func() (n int64, err error) {
		for began := time.Now(); ; clock.Move(2 * time.Minute) {
			if n, err = lost.count(db, clock); err == nil || time.Since(began) > 3*time.Minute {
				return n, err
			}
		}
	}
	if n, err := count(); n != 3 || err != nil {
		t.Fatalf("%d are counted, want 3: %v", n, err)
	}
	decided := found.Outcomes[0].Outcome
	decided.Was, decided.State, decided.Reason = mail.SendInDoubt, mail.SendSent, mail.ReasonDecided
	apply(&store.Effect{Outcomes: []mail.StoredOutcome{{Outcome: decided}}})
	if n, err := lost.count(db, clock); n != 3 || err != nil {
		t.Errorf("%d are counted at once: they are counted again: %v", n, err)
	}
	clock.Move(2 * time.Minute)
	if n, err := count(); n != 2 || err != nil {
		t.Errorf("%d are counted when one was decided about, want 2: %v", n, err)
	}
	clock.Move(2 * time.Minute)
	uncounted := countStore{SendStore: db, err: errors.New("canceling statement due to timeout")}
	if got := strings.Join(lost.warnings(uncounted, clock), "\n"); !strings.Contains(got, "how many sends are lost could not be counted: canceling statement") || !strings.Contains(got, "\n2 sends were to leave") {
		t.Errorf("a count that failed warns %q", got)
	}
	if _, err := lost.count(db, clock); err == nil {
		t.Error("at once, a count that failed is taken for one that did not")
	}
	clock.Move(4 * time.Minute)
	if got := strings.Join(lost.warnings(countStore{n: mail.MaxLostCount}, clock), "\n"); !strings.HasPrefix(got, "100000 or more sends were to leave") {
		t.Errorf("more than are counted warn %q", got)
	}
}

// countStore is a ledger that counts so many lost sends, or fails to.
type countStore struct {
	mail.SendStore
	n   int64
	err error
}

func (s countStore) LostSends(context.Context) (int64, error) { return s.n, s.err }
