package spool_test

import (
	"strings"
	"testing"
	"time"

	"sluice/mail"
	"sluice/test/spooltest"
)

// TestErasingWhatIsInDoubt: no mail in doubt to an erased user is attempted
// again, and nothing of what it says is kept. That is so whether it would be
// attempted by itself or an operator had to decide. Mail in doubt to others
// stays.
func TestErasingWhatIsInDoubt(t *testing.T) {
	b := newBed(t)
	w := doubtedOnce()
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	later := &shifted{}
	o.sender.Clock, o.sender.DoubtAfter = later, 10*time.Minute
	o.run()
	large := func(to string, c mail.Class) mail.Draft {
		d := draft(to, mail.PriorityNormal, c)
		d.Content = append(d.Content, []byte(strings.Repeat("many words\r\n", 1000))...)
		return d
	}
	ids := o.submit(large("kept@example.com", mail.ClassMarketing), large("again@example.com", mail.ClassTransactional),
		draft("stays@example.com", mail.PriorityNormal, mail.ClassMarketing))
	b.eventually("all are in doubt", func() bool { return o.totals() == "in_doubt 3" && o.kept(ids[0]+".0", ids[2]+".0") == 2 })
	rows := []mail.SendRow{o.row(ids[0]), o.row(ids[1])}
	if rows[0].DueMillis != 0 || rows[1].DueMillis == 0 {
		t.Fatalf("%+v\nwant one that waits for somebody, and one that is attempted again", rows)
	}
	if err := o.canceller().CancelSends(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	b.eventually("both have ended", func() bool { return o.totals() == "failed 1, in_doubt 1, cancelled 1" })
	later.by.Store(int64(o.sender.DoubtAfter + time.Minute))
	b.eventually("the one that was to be attempted again is met", func() bool { return o.waiting() == 0 })
	if n := o.kept(ids[0]+".0", ids[1]+".0"); n != 0 || o.kept(ids[2]+".0") != 1 {
		t.Errorf("%d of the erased are kept in doubt, and %d of the others", n, o.kept(ids[2]+".0"))
	}
	for _, id := range ids[:2] {
		body, err := o.store.Bodies(t.Context(), []string{id}, 1<<20)
		if err != nil || len(body) != 0 {
			t.Errorf("%d contents of %s are left, %v", len(body), id, err)
		}
		if r := o.row(id); strings.Contains(r.Life, "example.com") {
			t.Errorf("its life has %s", r.Life)
		}
	}
	o.stop()
	if times := w.times(); times[ids[0]+".0"] != 1 || times[ids[1]+".0"] != 1 {
		t.Errorf("attempts: %v", times)
	}
}
