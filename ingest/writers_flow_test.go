package ingest_test

import (
	"fmt"
	"testing"

	"sluice/ingest"
)

// Several writers store the partitions of a process, each its share, and what two
// processes with such writers have is stored once.
func TestWritersStoreOnce(t *testing.T) {
	onEach(t, func(b *bed) {
		const writers, batches = 3, 20
		first := newEngine(b, setup{writers: writers})
		for p := range testPartitions {
			for i := range batches {
				first.write(p, fmt.Sprintf("early-%d", i), named("a", "b"))
			}
		}
		first.run()
		b.eventually("the first batches are stored", func() bool { return b.count("events") == testPartitions*batches*2 })
		b.eventually("all partitions are held", func() bool { return first.leases.Status().Held[ingest.StoreRole] == testPartitions })
		for p := range testPartitions {
			first.write(p, "between", named("d"))
		}
		b.eventually("those are stored", func() bool { return b.count("events") == testPartitions*(batches*2+1) })
		stripes := writers
		if b.dialect == "sqlite" { // they take turns
			stripes = 1
		}
		if got := b.query("SELECT COUNT(DISTINCT stripe) FROM series_hours WHERE name = 'd'"); got[0] != fmt.Sprint(stripes) {
			t.Errorf("%s stripes of what is counted, want %d", got[0], stripes)
		}
		second := newEngine(b, setup{writers: writers})
		second.run()
		for p := range testPartitions {
			for i := range batches {
				first.write(p, fmt.Sprintf("late-%d", i), named("c"))
			}
		}
		first.stop()
		b.eventually("all batches are stored", func() bool { return b.count("events") == testPartitions*(batches*3+1) })
		second.stop()
		b.checkCounts("events", testPartitions*(batches*3+1), 0)
	})
}
