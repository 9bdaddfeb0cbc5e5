package ingest_test

import (
	"fmt"
	"testing"
	"time"

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

// TestWriterAloneWaitsAsOne: of several writers one waits for company as if it were alone
// while the others of its process have no partitions.
func TestWriterAloneWaitsAsOne(t *testing.T) {
	alone := ingest.FlushWait(&ingest.StoreFollower{})
	for partitions, want := range map[int]time.Duration{1: alone, 2: 2 * alone} {
		b := newBed(t, "sqlite")
		e := start(b, setup{partitions: partitions, writers: 2})
		b.eventually("all partitions are held", func() bool { return e.leases.Status().Held[ingest.StoreRole] == partitions })
		if got := ingest.FlushWait(&ingest.StoreFollower{Leases: e.leases, Writer: 0, Writers: 2}); got != want {
			t.Errorf("a process of %d partitions: its first writer waits %s, want %s", partitions, got, want)
		}
	}
}
