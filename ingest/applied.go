package ingest

import (
	"context"
	"fmt"
	"time"

	"sluice"
	"sluice/flow"
)

// appliedLook is how often AwaitApplied looks.
const appliedLook = 20 * time.Millisecond

// AwaitApplied returns when all that stands in logs by now has been applied by
// the store follower, wherever that runs; or an error, when ctx ends before.
// What the follower sends on to another partition is not waited for.
func AwaitApplied(ctx context.Context, store sluice.Store, logs []*flow.Log) error {
	ends := make(map[int]sluice.Position, len(logs))
	var partitions []int
	for _, l := range logs {
		last, err := l.Last(ctx)
		if err != nil {
			return fmt.Errorf("read the end of the log of partition %d: %w", l.Partition(), err)
		}
		if _, ok := ends[l.Partition()]; !ok {
			partitions = append(partitions, l.Partition())
		}
		ends[l.Partition()] = last
	}
	ticker := time.NewTicker(appliedLook)
	defer ticker.Stop()
	for {
		cursors, err := store.Cursors(ctx, StoreRole, partitions)
		if err != nil {
			return fmt.Errorf("read cursors of %s: %w", StoreRole, err)
		}
		behind := 0
		for p, end := range ends {
			if cursors[p].Before(end) {
				behind++
			}
		}
		if behind == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %d partitions are applied: %w", behind, ctx.Err())
		}
	}
}
