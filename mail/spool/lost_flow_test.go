package spool_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/store"
	"sluice/test/spooltest"
)

// TestWhatIsInNoLaneIsFound: sends wait in the ledger and in no lane, and nobody has
// seen a store go back. They are in doubt within two looks, and told of; what waits in
// lanes, and for a time, is let alone.
func TestWhatIsInNoLaneIsFound(t *testing.T) {
	t.Cleanup(spool.LookEvery(200 * time.Millisecond)) // when nothing runs any more
	b := newBed(t)
	w := newWire(nil)
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	o := b.startRoutes(v, nil)
	const sends = 40
	var drafts []mail.Draft
	for i := range sends {
		d := draft(fmt.Sprintf("u%d@example.com", i), mail.Priority(1+i%3), mail.ClassTransactional)
		if i%4 == 0 {
			d.DueMillis = time.Now().Add(time.Hour).UnixMilli()
		}
		drafts = append(drafts, d)
	}
	o.submit(drafts...)
	b.eventually("all wait", func() bool { return o.totals() == fmt.Sprint("waiting ", sends) })
	var past store.Effect
	now := time.Now().UnixMilli()
	for i := range 3 {
		past.Sends = append(past.Sends, mail.StoredSend{Send: mail.Send{
			Message: sluice.NewMessageID(now), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, To: fmt.Sprintf("lost%d@example.com", i), AcceptedMillis: now,
		}, Place: sluice.Place{Partition: i}})
	}
	for i := range past.Sends[:2] { // these are in doubt, with an attempt to come
		past.Outcomes = append(past.Outcomes, inDoubtAgain(past.Sends[i].Message, now+int64(i-1)*60_000))
	}
	must(o.store.Apply(t.Context(), must(o.store.Prepare(&past))))
	want := fmt.Sprintf("waiting %d, in_doubt 3", sends)
	b.eventually("they are in doubt", func() bool { return o.totals() == want && must(o.store.LostSends(t.Context())) == 3 })
	b.eventually("they are told of", func() bool { return o.sender.Stats.Lost() == 3 })
	for i := range past.Sends {
		if row := o.row(past.Sends[i].Message); row.Reason != mail.ReasonLost || row.DueMillis != 0 {
			t.Errorf("send %d: the reason is %q, and an attempt comes at %d", i, row.Reason, row.DueMillis)
		}
	}
	if !strings.Contains(b.log.String(), "sends were in no lane") {
		t.Error("the log says nothing")
	}
	v.open.Store(true)
	b.eventually("what is due is sent", func() bool {
		return o.totals() == fmt.Sprintf("waiting %d, sent %d, in_doubt 3", sends/4, sends*3/4)
	})
	w.wantOnce(t)
}

// inDoubtAgain is an outcome by which a send is in doubt and is attempted once more.
func inDoubtAgain(message string, dueMillis int64) mail.StoredOutcome {
	return mail.StoredOutcome{Outcome: mail.Outcome{
		Message: message, Recipients: 1, Was: mail.SendWaiting, State: mail.SendInDoubt, TimeMillis: time.Now().UnixMilli(), DueMillis: dueMillis, Attempts: 1, Route: "wire",
	}}
}

// TestNothingIsTakenForLostThatMoves: while mail is deferred, released, moved aside and
// sent, looks follow each other without a pause, and miss none of it.
func TestNothingIsTakenForLostThatMoves(t *testing.T) {
	t.Cleanup(spool.LookEvery(time.Millisecond)) // when nothing runs any more
	b := newBed(t)
	w := newWire(func(e *mail.Envelope, nth int) mail.Result {
		if nth == 1 && strings.HasPrefix(e.To, "d") {
			return mail.Result{Kind: mail.ResultDeferred, Code: 451, Throttled: true, RetryAfter: time.Hour}
		}
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	o := b.startRoutes(both{v, &gated{OneRoute: spooltest.OneRoute{Transport: w}, domain: "aside.example"}}, nil)
	const sends = 90
	due := time.Now().Add(3 * time.Second).UnixMilli()
	var drafts []mail.Draft
	for i := range sends {
		to := fmt.Sprintf("%c%d@example.com", "abd"[i%3], i)
		if i%3 == 1 {
			to = fmt.Sprintf("b%d@aside.example", i)
		}
		d := draft(to, mail.PriorityNormal, mail.ClassTransactional)
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

// evasive are journeys whose mail is to be asked about again in a moment. They answer just
// when a look for lost mail has passed what waits for a time, so that the mail moves to
// behind it. They are the ledger as well, which knows when a look begins.
type evasive struct {
	spool.Record
	passed chan struct{}
	done   chan struct{} // nobody waits any more
	evaded atomic.Int64  // how often mail moved so
}

func (e *evasive) LaneKeys(ctx context.Context, partition int, after mail.SendKey, limit int) ([]mail.LaneKey, error) {
	keys, err := e.Record.LaneKeys(ctx, partition, after, limit)
	if partition == 0 && err == nil {
		time.AfterFunc(100*time.Millisecond, func() {
			select {
			case e.passed <- struct{}{}:
				e.evaded.Add(1)
			default: // it waits for its time, and is met there
			}
		})
	}
	return keys, err
}

func (e *evasive) MayLeave(ctx context.Context, _ int, sends []*mail.Send) ([]mail.Leave, error) {
	select {
	case <-e.passed:
	case <-e.done:
	case <-ctx.Done():
	}
	answers := make([]mail.Leave, len(sends))
	for i := range answers {
		answers[i].AgainMillis = time.Now().Add(500 * time.Millisecond).UnixMilli()
	}
	return answers, ctx.Err()
}

// TestNothingIsTakenForLostThatMovesUnsaid: mail that is not attempted moves from its lane to
// what waits for a time, behind each look, and the log says nothing of it.
func TestNothingIsTakenForLostThatMovesUnsaid(t *testing.T) {
	t.Cleanup(spool.LookEvery(3 * time.Second)) // by when it is in its lane again
	b := newBed(t)
	o := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil)
	e := &evasive{Record: o.store, passed: make(chan struct{}), done: make(chan struct{})}
	o.sender.Record, o.sender.Journeys = e, e
	t.Cleanup(func() { close(e.done) })
	now := time.Now().UnixMilli()
	send := mail.Send{
		Message: sluice.NewMessageID(now), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassTransactional, Form: mail.ContentMIME, From: "shop@example.com",
		To: inOnePartition([]string{"moves.example"})[0], AcceptedMillis: now, DueMillis: now, ExpiresMillis: now + mail.DefaultExpiryMillis, Journey: "welcome", Step: "hello",
		Content: "Subject: hello\r\n\r\nhello\r\n",
	}
	// A look pauses while it reads these, behind the seconds that the mail waits for.
	var far []*flow.Packed
	for range 16 {
		other, p := send, &flow.Packed{Lane: "low-marketing", Second: now/1000 + 3600, Data: sluice.NewBatch(0)}
		other.Message, other.Content = sluice.NewMessageID(now), strings.Repeat("x", mail.MaxInlineBytes)
		for len(p.Data) < sluice.MaxBatchBytes {
			p.Data, p.Size = mail.AppendSend(p.Data, &other), p.Size+1
		}
		far = append(far, p)
	}
	o.packAll(0, far)
	o.run()
	b.must(o.writer.Write(t.Context(), flow.Part{Partition: 0, Items: mail.AppendSend(nil, &send), Count: 1}))
	b.eventually("it has moved behind three looks", func() bool { return e.evaded.Load() >= 3 })
	seen := o.sender.Stats.Looks()
	b.eventually("these looks are over", func() bool { return o.sender.Stats.Looks() >= seen+testPartitions })
	// A process that has rested too long takes its leases again and compares: then those of
	// later are in the ledger, too.
	if n, totals := o.sender.Stats.Lost(), o.totals(); n != 0 || totals != "waiting 1" && totals != "waiting 17" {
		t.Errorf("%d were taken for lost, %s", n, totals)
	}
}

// TestDoubtsWithAnAttemptToCome: Redis is another one, and sends are in doubt that are
// attempted once more. One that is in a lane stays there, and leaves; those that none
// has are told of, and are counted when the program runs anew.
func TestDoubtsWithAnAttemptToCome(t *testing.T) {
	b := newBed(t)
	w := newWire(func(_ *mail.Envelope, nth int) mail.Result {
		if nth == 1 {
			return mail.Result{Kind: mail.ResultInDoubt, Text: "the connection ended"}
		}
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	first := b.open(v, nil)
	first.sender.DoubtAfter = 10 * time.Minute // nothing is attempted again while this test looks
	first.run()
	first.inTheLedger(0, 4, mail.ClassTransactional)
	v.open.Store(true)
	b.eventually("all are in doubt", func() bool { return first.totals() == "in_doubt 4" })
	v.open.Store(false)
	lost := first.inTheLedger(100, 3, mail.ClassTransactional)
	first.stop()
	again := b.open(v, nil)
	var past store.Effect
	for i, id := range lost[:2] {
		past.Outcomes = append(past.Outcomes, inDoubtAgain(id, time.Now().Add(time.Duration(2*i-1)*time.Minute).UnixMilli()))
	}
	for range 2 { // some that no lane ever had
		id := sluice.NewMessageID(time.Now().UnixMilli())
		past.Sends = append(past.Sends, mail.StoredSend{Send: mail.Send{
			Message: id, Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassTransactional, To: "lost@example.com", AcceptedMillis: time.Now().UnixMilli(),
		}})
		past.Outcomes = append(past.Outcomes, inDoubtAgain(id, time.Now().UnixMilli()))
	}
	must(again.store.Apply(t.Context(), must(again.store.Prepare(&past))))
	again.compareAgain()
	again.run()
	b.eventually("lanes and ledger are compared", func() bool { found, all := again.found(); return all && found.Doubt == 2 })
	// Of two the lanes know nothing of an attempt that the ledger has: who had it is gone.
	b.eventually("nothing is known of four", func() bool { return must(again.store.LostSends(t.Context())) == 4 })
	again.stop()
	last, later := b.open(v, nil), &shifted{}
	last.sender.Clock = later
	last.run()
	if n := must(last.store.LostSends(t.Context())); n != 4 {
		t.Errorf("%d are counted when the program runs anew, want 4", n)
	}
	later.by.Store(int64(first.sender.DoubtAfter + time.Minute))
	v.open.Store(true)
	b.eventually("what lanes had has left", func() bool { return last.totals() == "sent 5, in_doubt 4" })
}
