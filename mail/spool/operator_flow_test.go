package spool_test

import (
	"fmt"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/store"
	"sluice/test/spooltest"
)

// TestAPurgeLooksAtEachOnce: over all partitions, in pages and steps of any size,
// also where most of what waits is in one of them.
func TestAPurgeLooksAtEachOnce(t *testing.T) {
	const partitions, sends = 40, 2400
	b := newBed(t)
	o := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil)
	now := time.Now().UnixMilli()
	var all store.Effect
	want := 0
	for n := range sends {
		s := mail.StoredSend{Send: mail.Send{
			Message: fmt.Sprintf("%012x%020x", now-sends+int64(n/3), n/3), Number: n % 3, Recipients: 3, Priority: mail.PriorityLow, Class: mail.ClassMarketing, To: "ann@example.com", AcceptedMillis: now - 1000, Tags: "autumn",
		}}
		if n%7 == 0 {
			s.Tags, want = "spring", want+1
		}
		if n%3 > 0 {
			s.Place.Partition = n % partitions
		}
		all.Sends = append(all.Sends, s)
	}
	prepared, err := o.store.Prepare(&all)
	b.must(err)
	_, err = o.store.Apply(t.Context(), prepared)
	b.must(err)
	spring := must(mail.NewSelector(mail.SelectTag, "spring"))
	op := &spool.Operator{Ledger: o.store, Partitions: partitions, Clock: sluice.SystemClock{}}
	for _, most := range []int{50, 333, sends} {
		total := 0
		for after := ""; ; {
			n, next, err := op.Purge(t.Context(), spring, after, most, true)
			b.must(err)
			if total += n; n > most {
				t.Fatalf("%d in a step of %d", n, most)
			}
			if after = next; next == "" {
				break
			}
		}
		if total != want {
			t.Errorf("in steps of %d: %d are meant, want %d", most, total, want)
		}
	}
}
