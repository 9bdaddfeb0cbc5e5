package desk

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"sluice/flow"
)

// partitionsAtOnce are asked side by side. One after the other, a deployment of 64 would take
// as many round trips as 64 times what each is asked: seconds, on a machine that is busy.
const partitionsAtOnce = 16

// eachPartition calls f for all partitions, from several goroutines, and returns the first
// error: the context of f ends with it.
func (d *Desk) eachPartition(ctx context.Context, f func(ctx context.Context, partition int) error) error {
	return eachOf(ctx, 0, d.Partitions, f)
}

// eachOf is eachPartition for the partitions from one up to another.
func eachOf(ctx context.Context, from, to int, f func(ctx context.Context, partition int) error) error {
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(partitionsAtOnce)
	for partition := from; partition < to; partition++ {
		calls.Go(func() error {
			if err := f(ctx, partition); err != nil {
				return fmt.Errorf("partition %d: %w", partition, err)
			}
			return nil
		})
	}
	return calls.Wait()
}

// notes returns what is noted under some names in each partition, all of one moment or
// nearly. What others are noted of is let go of at once: of 1,000 journeys with 200 steps each
// it is some 5 MB a partition.
func (d *Desk) notes(ctx context.Context, names ...string) ([]map[string]string, error) {
	all := make([]map[string]string, d.Partitions)
	err := d.eachPartition(ctx, func(ctx context.Context, partition int) error {
		fields, err := d.Notes(ctx, partition)
		if err != nil {
			return err
		}
		all[partition] = make(map[string]string, len(names))
		for _, name := range names {
			flow.SetNote(all[partition], name, flow.NoteIn(fields, name))
		}
		return nil
	})
	return all, err
}
