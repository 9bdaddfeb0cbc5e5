package ingest

import (
	"context"
	"fmt"
	"math"

	"sluice"
	"sluice/store"
)

// maxEventMillis is beyond the time of any event: the end of the year 9999.
const maxEventMillis = 253_402_300_799_999

// note counts an item of a batch, and its time.
func note(b *store.ImportedBatch, millis int64) {
	if b.Items == 0 {
		b.FromMillis, b.ToMillis = millis, millis
	}
	b.Items++
	b.FromMillis, b.ToMillis = min(b.FromMillis, millis), max(b.ToMillis, millis)
}

func (im *Import) wrote(batches []store.ImportedBatch) error {
	if im.Wrote == nil || len(batches) == 0 {
		return nil
	}
	return im.Wrote(batches)
}

// Recall tells Wrote what an attempt at a part has written, and could not tell.
func (im *Import) Recall(ctx context.Context) error {
	at, err := im.positions(ctx)
	if err == nil {
		err = im.wroteBefore(ctx, at)
	}
	return err
}

// wroteBefore tells of the last batch of an earlier run in each log: it may have
// died before it could. Each log answers where that is to a repeat of its seq. No
// seq is "?", so nothing is written. Of parts that were imported that was told.
func (im *Import) wroteBefore(ctx context.Context, at []int64) error {
	if im.Wrote == nil || im.whole {
		return nil
	}
	var batches []store.ImportedBatch
	for p, line := range at {
		if line == 0 || line == math.MaxInt64 || im.Part != nil && line <= im.Part.Line {
			continue
		}
		marker := sluice.AppendItem(sluice.NewBatch(16), sluice.ItemMarker, func(b []byte) []byte { return b })
		done, err := im.Logs[p].Append(ctx, im.source, "?", seqOf(line), marker, false)
		if err != nil {
			return fmt.Errorf("ask where the batch of line %d is: %w", line, err)
		}
		batches = append(batches, store.ImportedBatch{Partition: p, Position: done.Position, ToMillis: maxEventMillis})
	}
	return im.wrote(batches)
}
