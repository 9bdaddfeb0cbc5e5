package flow

import (
	"context"

	"sluice"
)

// Tail hands every batch that is written to the logs to fn, partition by
// partition in order, until the context ends or fn fails. fromStart begins with
// the oldest entries that Redis still holds, else with what comes next. It
// takes nothing away from anybody.
func Tail(ctx context.Context, logs []*Log, fromStart bool, fn func(Batch) error) error {
	cursors := make(map[int]sluice.Position, len(logs))
	for _, l := range logs {
		if fromStart {
			oldest, ok, err := l.Oldest(ctx)
			if err != nil {
				return err
			}
			if ok {
				cursors[l.Partition()] = oldest.Prev
			}
			continue
		}
		last, err := l.Last(ctx)
		if err != nil {
			return err
		}
		cursors[l.Partition()] = last
	}
	return Pipe(ctx, ctx, func(ctx context.Context, emit func([]Batch) error) error {
		return Pull(ctx, logs, cursors, func(_ context.Context, batches []Batch) error { return emit(batches) })
	}, func(_ context.Context, batches []Batch) error {
		for _, b := range batches {
			if err := fn(b); err != nil {
				return err
			}
		}
		return nil
	})
}
