package spool_test

import (
	"fmt"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/spooltest"
)

// A message may be due for each recipient at a separate time.
func TestDueForEach(t *testing.T) {
	b := newBed(t)
	w := newWire(func(*mail.Envelope, int) mail.Result { return mail.Result{Kind: mail.ResultSent} })
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	o.run()
	d := draft("ann@example.com", mail.PriorityNormal, mail.ClassTransactional)
	later := time.Now().Add(48 * time.Hour).UnixMilli()
	d.To, d.DueMillisOf = append(d.To, "bob@example.com"), []int64{1, later}
	ids := o.submit(d)
	b.eventually("one is sent, one waits", func() bool { return o.totals() == "waiting 1, sent 1" })
	rows, err := o.store.MessageSends(t.Context(), ids[0])
	b.must(err)
	if len(rows) != 2 || rows[0].State != mail.SendSent || rows[1].State != mail.SendWaiting || rows[1].DueMillis != later {
		t.Errorf("%+v", rows)
	}
}

// highOnly takes mail of high priority alone.
type highOnly struct{ spooltest.OneRoute }

func (h *highOnly) Takes(t mail.Transport, s *mail.Send, passed []mail.Transport, now time.Time) spool.Take {
	if s.Priority != mail.PriorityHigh {
		return spool.Take{Wait: 10 * time.Millisecond}
	}
	return h.OneRoute.Takes(t, s, passed, now)
}

// TestWhatIsDueKeepsNoUrgentMailWaiting: thousands of batches are due at once. Urgent mail
// leaves while they are moved to their lane, and all of them are.
func TestWhatIsDueKeepsNoUrgentMailWaiting(t *testing.T) {
	b := newBed(t)
	var o *office
	left := make(chan int64, 1) // how many were not released when it left
	w := newWire(func(*mail.Envelope, int) mail.Result {
		left <- must(o.lanes[0].Waiting(t.Context()))[flow.LaterName]
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
	o = b.open(&highOnly{spooltest.OneRoute{Transport: w}}, nil)
	now := time.Now()
	packed := func(n int, p mail.Priority, second int64) *flow.Packed {
		send := mail.Send{
			Message: sluice.NewMessageID(now.UnixMilli()), Recipients: 1, Priority: p, Class: mail.ClassMarketing, Form: mail.ContentMIME, From: "shop@example.com",
			To: fmt.Sprintf("u%d@example.com", n), AcceptedMillis: now.UnixMilli(), ExpiresMillis: now.UnixMilli() + mail.DefaultExpiryMillis, Content: "Subject: hello\r\n\r\nhello\r\n",
		}
		return &flow.Packed{Lane: flow.LaneName(p, mail.ClassMarketing), Second: second, Size: 1, Data: mail.AppendSend(sluice.NewBatch(0), &send)}
	}
	const due = 6000
	batches := []*flow.Packed{packed(0, mail.PriorityHigh, 0)}
	for n := range due {
		batches = append(batches, packed(1+n, mail.PriorityLow, now.Unix()-1))
	}
	o.packAll(0, batches)
	o.run()
	if <-left == 0 {
		t.Errorf("all %d batches were released before the urgent mail left", due)
	}
	b.eventually("all are released", func() bool {
		lanes, later := o.inLanes()
		return lanes == due && later == 0
	})
}
