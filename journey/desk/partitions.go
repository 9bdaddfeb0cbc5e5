package desk

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/flow"
	"sluice/journey"
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

// knownNotes is notes, and refuses while a partition does not know where people are: its Redis
// was emptied, for a restore or by mishap, and no process has written it anew. It has no
// records then, which is how it also looks when nobody has ever entered. Without Notes: nil.
func (d *Desk) knownNotes(ctx context.Context, names ...string) ([]map[string]string, error) {
	if d.Notes == nil {
		return nil, nil
	}
	all, err := d.notes(ctx, append(names, journey.InStepsKept)...)
	if err != nil {
		return nil, err
	}
	for partition, fields := range all {
		if !isKnown(fields) {
			return nil, unknownIn(partition, "; a resume with overdue send or skip need not know it")
		}
	}
	return all, nil
}

// unknownIn refuses what asks where people of a partition are. otherwise is what else helps.
func unknownIn(partition int, otherwise string) error {
	return sluice.Refuse(sluice.CodeUnavailable, "where people are is not known yet in partition %d: wait until a program with the role journey has opened it%s", partition, otherwise)
}

// isKnown reports whether the records of a partition are whole, by its notes: this one is
// written behind the last record.
func isKnown(fields map[string]string) bool { return flow.NoteIn(fields, journey.InStepsKept) != "" }

// isKnownIn is isKnown of one partition. Without Notes it is true.
func (d *Desk) isKnownIn(ctx context.Context, partition int) (bool, error) {
	if d.Notes == nil || partition < 0 || partition >= d.Partitions {
		return true, nil
	}
	fields, err := d.Notes(ctx, partition)
	return err != nil || isKnown(fields), err
}
