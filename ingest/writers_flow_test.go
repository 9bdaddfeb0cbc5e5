package ingest_test

import (
	"fmt"
	"testing"
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
		second := newEngine(b, setup{writers: writers})
		second.run()
		for p := range testPartitions {
			for i := range batches {
				first.write(p, fmt.Sprintf("late-%d", i), named("c"))
			}
		}
		first.stop()
		b.eventually("all batches are stored", func() bool { return b.count("events") == testPartitions*batches*3 })
		second.stop()
		b.checkCounts("events", testPartitions*batches*3, 0)
	})
}
