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

func (im *Import) wrote(b store.ImportedBatch) error {
	if im.Wrote == nil {
		return nil
	}
	return im.Wrote(b)
}

// wroteBefore tells of the last batch of an earlier run in each log: it may have
// died before it could. Each log answers where that is to a repeat of its seq. No
// seq is "?", so nothing is written.
func (im *Import) wroteBefore(ctx context.Context, at []int64) error {
	if im.Wrote == nil || im.whole {
		return nil
	}
	for p, line := range at {
		if line == 0 || line == math.MaxInt64 {
			continue
		}
		marker := sluice.AppendItem(sluice.NewBatch(16), sluice.ItemMarker, func(b []byte) []byte { return b })
		done, err := im.Logs[p].Append(ctx, im.source, "?", seqOf(line), marker, false)
		if err != nil {
			return fmt.Errorf("ask where the batch of line %d is: %w", line, err)
		}
		if err := im.wrote(store.ImportedBatch{Partition: p, Position: done.Position, ToMillis: maxEventMillis}); err != nil {
			return err
		}
	}
	return nil
}
