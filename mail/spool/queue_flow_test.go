package spool_test

import (
	"fmt"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/test/spooltest"
	"sluice/user"
)

// Several writers of the store queue by one Queuer. What one of them begins with leaves
// the cursors of the others' partitions as they are: a batch that is queued stays so.
func TestAWriterBeginsForItsPartitionsOnly(t *testing.T) {
	b := newBed(t)
	o := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil)
	to := ""
	for i := 0; to == ""; i++ { // one of partition 0
		if k := (user.Key{Kind: user.KeyEmail, Name: fmt.Sprintf("u%d@example.net", i)}); k.Partition(testPartitions) == 0 {
			to = k.Name
		}
	}
	o.submit(draft(to, mail.PriorityNormal, mail.ClassMarketing))
	batches, err := o.logs[0].Read(b.Context(), sluice.Position{}, 10, 0)
	b.must(err)
	o.leased(0, func(lease *flow.Lease) {
		for _, begun := range []int{0, 1} {
			b.must(o.queuer.Begin(b.Context(), []int{begun}))
			b.must(o.queuer.Queue(b.Context(), lease, &batches[0]))
		}
	})
	waiting := int64(0)
	for _, l := range o.lanes {
		counts, err := l.Waiting(b.Context())
		b.must(err)
		for _, n := range counts {
			waiting += n
		}
	}
	if waiting != 1 {
		t.Errorf("%d sends wait, want 1", waiting)
	}
}
