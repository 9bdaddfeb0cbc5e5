package spool_test

import (
	"testing"
	"time"

	"sluice/mail"
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
