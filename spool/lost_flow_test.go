package spool_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/spool"
)

// TestWhatIsInNoLaneIsFound: sends wait in the ledger and in no lane, and nobody has
// seen a store go back. They are in doubt within two looks, and told of; what waits in
// lanes, and for a time, is let alone.
func TestWhatIsInNoLaneIsFound(t *testing.T) {
	t.Cleanup(spool.LookEvery(200 * time.Millisecond)) // when nothing runs any more
	b := newBed(t)
	w := newWire(nil)
	v := &valve{OneRoute: spool.OneRoute{Transport: w}}
	o := b.startRoutes(v, nil)
	const sends = 40
	var drafts []sluice.Draft
	for i := range sends {
		d := draft(fmt.Sprintf("u%d@example.com", i), sluice.Priority(1+i%3), sluice.ClassTransactional)
		if i%4 == 0 {
			d.DueMillis = time.Now().Add(time.Hour).UnixMilli()
		}
		drafts = append(drafts, d)
	}
	o.submit(drafts...)
	b.eventually("all wait", func() bool { return o.totals() == fmt.Sprint("waiting ", sends) })
	var past sluice.Effect
	now := time.Now().UnixMilli()
	for i := range 3 {
		past.Sends = append(past.Sends, sluice.StoredSend{Send: sluice.Send{
			Message: sluice.NewMessageID(now), Recipients: 1, Priority: sluice.PriorityNormal, Class: sluice.ClassMarketing, To: fmt.Sprintf("lost%d@example.com", i), AcceptedMillis: now,
		}, Place: sluice.Place{Partition: i}})
	}
	must(o.store.Apply(t.Context(), must(o.store.Prepare(&past))))
	want := fmt.Sprintf("waiting %d, in_doubt 3", sends)
	b.eventually("they are in doubt", func() bool { return o.totals() == want })
	if n := o.sender.Stats.Lost(); n != 3 {
		t.Errorf("%d are told of, want 3", n)
	}
	row := o.row(past.Sends[0].Message)
	if row.Reason != "lost" || !strings.Contains(b.log.String(), "waited in no lane") {
		t.Errorf("the reason is %q, and the log says nothing", row.Reason)
	}
	v.open.Store(true)
	b.eventually("what is due is sent", func() bool {
		return o.totals() == fmt.Sprintf("waiting %d, sent %d, in_doubt 3", sends/4, sends*3/4)
	})
	w.wantOnce(t)
}

// TestNothingIsTakenForLostThatMoves: while mail is deferred, released, moved aside and
// sent, looks follow each other without a pause, and miss none of it.
func TestNothingIsTakenForLostThatMoves(t *testing.T) {
	t.Cleanup(spool.LookEvery(time.Millisecond)) // when nothing runs any more
	b := newBed(t)
	w := newWire(func(e *sluice.Envelope, nth int) sluice.Result {
		if nth == 1 && strings.HasPrefix(e.To, "d") {
			return sluice.Result{Kind: sluice.ResultDeferred, Code: 451, Throttled: true}
		}
		return sluice.Result{Kind: sluice.ResultSent, Code: 250}
	})
	v := &valve{OneRoute: spool.OneRoute{Transport: w}}
	o := b.startRoutes(both{v, &gated{OneRoute: spool.OneRoute{Transport: w}, domain: "aside.example"}}, nil)
	const sends = 90
	due := time.Now().Add(3 * time.Second).UnixMilli()
	var drafts []sluice.Draft
	for i := range sends {
		to := fmt.Sprintf("%c%d@example.com", "abd"[i%3], i)
		if i%3 == 1 {
			to = fmt.Sprintf("b%d@aside.example", i)
		}
		d := draft(to, sluice.PriorityNormal, sluice.ClassTransactional)
		if i%2 == 0 {
			d.DueMillis = due
		}
		drafts = append(drafts, d)
	}
	o.submit(drafts...)
	v.open.Store(true)
	want := fmt.Sprintf("waiting %d, sent %d", sends*2/3, sends/3)
	b.eventually("some are sent, the others are deferred or wait aside", func() bool { return o.totals() == want })
	for range 3 {
		seen := o.sender.Stats.Looks()
		b.eventually("all partitions are looked through once more", func() bool { return o.sender.Stats.Looks() >= seen+testPartitions })
	}
	if n := o.sender.Stats.Lost(); n != 0 || o.totals() != want {
		t.Errorf("%d were taken for lost, %s", n, o.totals())
	}
}
