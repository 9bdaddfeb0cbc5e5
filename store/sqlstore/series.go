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

// maxSeriesRows bounds a statement: 6 parameters a row, well below the 32,766
// that SQLite takes.
const maxSeriesRows = 500

// seriesKey names a row, but for its stripe.
type seriesKey struct {
	app, name, kind string
	bucket          int64 // when it begins, in milliseconds
}

func (a seriesKey) compare(b seriesKey) int {
	return cmp.Or(strings.Compare(a.app, b.app), strings.Compare(a.name, b.name), strings.Compare(a.kind, b.kind), cmp.Compare(a.bucket, b.bucket))
}

// addCounts adds an effect's counts to the series. Rows are written in the
// order of their key, so that two transactions wait for each other and never
// in a circle.
func (t *txn) addCounts(ctx context.Context, counts []sluice.Count, stripe int) error {
	if len(counts) == 0 {
		return nil
	}
	if err := t.store.names.fill(ctx, t); err != nil {
		return err
	}
	var sums map[seriesKey]int64
	for _, table := range seriesTables {
		sums = t.store.sumCounts(counts, table.width)
		for keys := range slices.Chunk(slices.SortedFunc(maps.Keys(sums), seriesKey.compare), maxSeriesRows) {
			if err := t.addSeries(ctx, table.name, keys, sums, stripe); err != nil {
				return fmt.Errorf("add to %s: %w", table.name, err)
			}
		}
	}
	return t.noteChanges(ctx, sums, stripe) // the last table's are days
}

func (s *Store) sumCounts(counts []sluice.Count, width time.Duration) map[seriesKey]int64 {
	sums := make(map[seriesKey]int64, len(counts))
	for i := range counts {
		c := &counts[i]
		into := c.TimeMillis % width.Milliseconds()
		if into < 0 {
			into += width.Milliseconds()
		}
		key := s.names.admit(seriesKey{s.d.text(c.App), s.d.text(c.Name), c.Kind.String(), c.TimeMillis - into})
		sums[key] = sluice.AddCount(sums[key], c.By)
	}
	return sums
}

func (t *txn) addSeries(ctx context.Context, table string, keys []seriesKey, sums map[seriesKey]int64, stripe int) error {
	d := t.store.d
	args := make([]any, 0, 6*len(keys))
	for _, k := range keys {
		args = append(args, k.app, k.name, k.kind, d.millis(k.bucket), stripe, sums[k])
	}
	statement := withRows(strings.ReplaceAll(rawQuery(d, "series_add"), "$TABLE", table), 6, len(keys))
	_, err := t.conn.ExecContext(ctx, d.placeholders(statement), args...)
	return err
}
