package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice"
)

// seriesTables are the tables of the series, each with the width of its
// buckets. Days are those of UTC.
var seriesTables = []struct {
	name  string
	width time.Duration
}{
	{"series_hours", time.Hour},
	{"series_days", 24 * time.Hour},
}

// quarterStripes is what the stripes of rows that are of one quarter of an hour lie
// above: those of the first from here on, those of the fourth from four times that.
// All stripes of an hour are added up, so who asks for hours sees nothing of it.
// Dropped: columns for the quarters. They make each row wider, also of the hours in
// which no day begins, and are a migration of the largest table of the series.
const quarterStripes = 8192

// maxSeriesRows bounds a statement: 6 parameters a row, well below the 32,766
// that SQLite takes.
const maxSeriesRows = 500

// seriesKey names a row, but for its stripe.
type seriesKey struct {
	app, name, kind string
	bucket          int64 // when it begins, in milliseconds
	quarter         int   // of the hour; 0: the row is of all of it
}

func (a seriesKey) compare(b seriesKey) int {
	return cmp.Or(strings.Compare(a.app, b.app), strings.Compare(a.name, b.name), strings.Compare(a.kind, b.kind), cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.quarter, b.quarter))
}

// addCounts adds an effect's counts to the series. Rows are written in the
// order of their key, so that two transactions wait for each other and never
// in a circle. The names are filled before the transaction begins.
func (t *txn) addCounts(ctx context.Context, counts []sluice.Count, stripe int) error {
	if len(counts) == 0 {
		return nil
	}
	var sums map[seriesKey]int64
	for _, table := range seriesTables {
		sums = t.store.sumCounts(counts, table.width)
		if err := t.addSums(ctx, table.name, sums, stripe); err != nil {
			return err
		}
	}
	return t.noteChanges(ctx, sums, stripe) // the last table's are days
}

// addSums adds sums to a table of the series.
func (t *txn) addSums(ctx context.Context, table string, sums map[seriesKey]int64, stripe int) error {
	for keys := range slices.Chunk(slices.SortedFunc(maps.Keys(sums), seriesKey.compare), maxSeriesRows) {
		if err := t.addSeries(ctx, table, keys, sums, stripe); err != nil {
			return fmt.Errorf("add to %s: %w", table, err)
		}
	}
	return nil
}

func (s *Store) sumCounts(counts []sluice.Count, width time.Duration) map[seriesKey]int64 {
	sums := make(map[seriesKey]int64, len(counts))
	for i := range counts {
		c := &counts[i]
		into := c.TimeMillis % width.Milliseconds()
		if into < 0 {
			into += width.Milliseconds()
		}
		key := s.names.admit(seriesKey{app: s.d.text(c.App), name: s.d.text(c.Name), kind: c.Kind.String(), bucket: c.TimeMillis - into})
		if width == time.Hour {
			key.quarter = c.Quarter()
		}
		sums[key] = sluice.AddCount(sums[key], c.By)
	}
	return sums
}

func (t *txn) addSeries(ctx context.Context, table string, keys []seriesKey, sums map[seriesKey]int64, stripe int) error {
	d := t.store.d
	args := make([]any, 0, 6*len(keys))
	for _, k := range keys {
		args = append(args, k.app, k.name, k.kind, d.millis(k.bucket), stripe+k.quarter*quarterStripes, sums[k])
	}
	statement := withRows(strings.ReplaceAll(rawQuery(d, "series_add"), "$TABLE", table), 6, len(keys))
	_, err := t.conn.ExecContext(ctx, d.placeholders(statement), args...)
	return err
}
