package spool_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/mail"
	"sluice/mail/spool"
	"sluice/store"
	"sluice/test/spooltest"
)

// looked counts how often rows of sends are looked up.
type looked struct {
	spool.Record
	rows atomic.Int64
}

func (l *looked) SendRows(ctx context.Context, keys []mail.SendKey) ([]mail.SendRow, error) {
	l.rows.Add(1)
	return l.Record.SendRows(ctx, keys)
}

// TestDecidedAgainAfterAMove: sends in doubt are decided to be sent again,
// within ten minutes of a move. The ledger is behind its logs: its rows say
// that they are in doubt for good. They are sent once more all the same,
// whether a comparison meets them first or the sender.
func TestDecidedAgainAfterAMove(t *testing.T) {
	for _, meets := range []string{"sender", "comparison"} {
		t.Run(meets, func(t *testing.T) {
			b := newBed(t)
			w := doubtedOnce()
			o := b.open(&spooltest.OneRoute{Transport: w}, nil)
			l, seen := &lock{Store: o.store, open: make(chan struct{})}, &looked{Record: o.store}
			gate := &gatedRecord{Record: seen, gate: make(chan struct{})}
			o.stored.Store, o.sender.Record = l, gate
			o.run()
			const sends = 20
			var drafts []mail.Draft
			for i := range sends {
				drafts = append(drafts, draft(fmt.Sprintf("u%d@example.com", i), mail.PriorityNormal, mail.ClassMarketing))
			}
			ids := o.submit(drafts...)
			b.eventually("all are in doubt", func() bool { return o.totals() == fmt.Sprint("in_doubt ", sends) })
			open := sync.OnceFunc(func() { close(gate.gate) })
			o.compareAgain()
			if meets == "sender" {
				open()
				b.eventually("all is compared", func() bool { _, all := o.found(); return all })
			} else {
				b.eventually("all are about to be compared", func() bool { return gate.waits.Load() > 0 })
			}
			l.shut.Store(true)
			before := seen.rows.Load()
			var deciding sync.WaitGroup
			for _, id := range ids {
				deciding.Go(func() { _, _, _ = o.decider().Decide(t.Context(), id+".0", spool.DecideAgain, "ann", "") })
			}
			b.eventually("the decisions are carried out", func() bool { return meets == "sender" || o.waiting() == sends })
			open()
			b.eventually("somebody has looked", func() bool { return seen.rows.Load() > before })
			l.shut.Store(false)
			close(l.open)
			deciding.Wait()
			b.eventually("all are sent again", func() bool { return o.totals() == fmt.Sprint("sent ", sends) && o.waiting() == 0 })
			for _, id := range ids {
				if n := w.times()[id+".0"]; n != 2 {
					t.Errorf("%s was on the wire %d times, want 2", id, n)
				}
			}
		})
	}
}

// TestMoreHasEndedThanNotesHaveRoom: the ledger has more sends of a partition as
// ended than may be noted as cancelled. The comparison comes to its end all the same,
// they leave lanes and later, and everything else is sent.
func TestMoreHasEndedThanNotesHaveRoom(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	first := b.startRoutes(v, nil)
	const sends = 40
	var drafts []mail.Draft
	for i := range sends {
		d := draft(fmt.Sprintf("u%d@example.com", i), mail.PriorityNormal, mail.ClassMarketing)
		if i%2 == 1 {
			d.DueMillis = time.Now().Add(time.Hour).UnixMilli()
		}
		drafts = append(drafts, d)
	}
	ids := first.submit(drafts...)
	b.eventually("all wait", func() bool { return first.waiting() == sends && first.totals() == fmt.Sprint("waiting ", sends) })
	first.stop()
	second := b.open(v, nil)
	second.compareAgain()
	var past store.Effect
	for _, id := range ids[:sends/2] { // of both kinds
		past.Outcomes = append(past.Outcomes, mail.StoredOutcome{Outcome: mail.Outcome{
			Message: id, Recipients: 1, Was: mail.SendWaiting, State: mail.SendSent, TimeMillis: time.Now().UnixMilli(), Attempts: 1, Route: "wire", Code: 250,
		}})
	}
	prepared := must(second.store.Prepare(&past))
	must(second.store.Apply(t.Context(), prepared))
	for _, l := range second.lanes {
		l.CancelsAtMost = 0
	}
	second.run()
	b.eventually("all is compared", func() bool {
		found, all := second.found()
		return all && found.Ended == sends/2 && found.Doubt == 0
	})
	if n := second.waiting(); n != sends/2 {
		t.Errorf("%d wait, want the %d that have not ended", n, sends/2)
	}
	v.open.Store(true)
	b.eventually("what is due is sent", func() bool { return second.totals() == fmt.Sprintf("waiting %d, sent %d", sends/4, sends*3/4) })
	w.wantOnce(t)
	if n := len(w.times()); n != sends/4 {
		t.Errorf("%d were on the wire, want the %d that were due and had not ended", n, sends/4)
	}
	if n := second.waiting(); n != sends/4 {
		t.Errorf("%d wait, want the %d that are not due", n, sends/4)
	}
}
