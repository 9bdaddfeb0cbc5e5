package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice"
	"sluice/engine"
	"sluice/ops/imports"
)

// Bounds of waiting for the store behind an import.
const (
	storedEvery  = 200 * time.Millisecond
	storedStands = 10 * time.Second // without a step forward: it is not waited for any longer
)

// awaitStored waits until what was written is stored, while the store gets on,
// and says what became of it: all of it is safe in Redis already.
func (in *importing) awaitStored(ctx context.Context, running *engine.Running) error {
	written := slices.Concat(in.earlier, in.batches)
	if len(written) == 0 {
		return nil
	}
	progress := in.call.progress()
	last, moved := int64(-1), time.Now()
	for {
		left, err := imports.Unstored(ctx, running.Store, running.Config.Partitions, written)
		if err != nil {
			in.call.print("all of it is in Redis, safely; whether it is stored cannot be told: %v", err)
			return nil
		}
		if left == 0 {
			return in.tellStored(ctx, running, progress)
		}
		if left != last {
			last, moved = left, time.Now()
		}
		if ctx.Err() != nil || time.Since(moved) > storedStands {
			in.call.print("%s of them are in Redis, safely, and still to be stored; `sluice top` shows how far the store is", grouped(left))
			return nil
		}
		var all int64
		for i := range written {
			all += max(written[i].Items, 1)
		}
		progress.at(partOf(all-left, all), grouped(left)+" are still to be stored")
		if err := sluice.Pause(ctx, storedEvery); err != nil {
			return nil // what is interrupted is only the waiting
		}
	}
}

// tellStored says how many of the events that this run wrote are new.
func (in *importing) tellStored(ctx context.Context, running *engine.Running, progress *progress) error {
	if in.users || len(in.batches) == 0 {
		in.call.print("all are stored")
		return nil
	}
	var rows, counted int64
	for i := range in.batches {
		n, err := running.Store.CountImported(ctx, in.batches[i])
		if err != nil {
			return fmt.Errorf("count what is new of what is stored: %w", err)
		}
		rows, counted = rows+int64(n), counted+in.batches[i].Items
		progress.at(partOf(int64(i), int64(len(in.batches))), "counting what is new")
	}
	in.call.print("all are stored: %s are new, %s were there already", grouped(rows), grouped(counted-rows))
	return nil
}
