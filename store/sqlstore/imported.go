package sqlstore

import (
	"context"
	"fmt"

	"sluice"
	"sluice/store"
)

var _ store.ImportStore = (*Store)(nil)

// ofImport are the arguments by which a batch's events are found: by the index
// log_position, in the days that it has events of.
func (s *Store) ofImport(b store.ImportedBatch) []any {
	return []any{b.Partition, s.d.number(b.Position.Major), s.d.number(b.Position.Minor), s.d.millis(b.FromMillis), s.d.millis(b.ToMillis)}
}

// CountImported implements store.ImportStore.
func (s *Store) CountImported(ctx context.Context, b store.ImportedBatch) (n int, err error) {
	err = s.reads.QueryRowContext(ctx, query(s.d, "imported_count"), s.ofImport(b)...).Scan(&n)
	return n, s.failed(err, "count the imported events of")
}

// RemoveImported implements store.ImportStore.
func (s *Store) RemoveImported(ctx context.Context, b store.ImportedBatch, hoursFromMillis, daysFromMillis int64) (removed int, err error) {
	err = s.names.fill(ctx, s)
	if err == nil {
		err = s.write(ctx, func(tx *txn) error {
			removed, err = tx.removeImported(ctx, b, hoursFromMillis, daysFromMillis)
			return err
		})
	}
	return removed, s.failed(err, "remove imported events of")
}

func (t *txn) removeImported(ctx context.Context, b store.ImportedBatch, hoursFromMillis, daysFromMillis int64) (removed int, err error) {
	counts, err := t.importedCounts(ctx, b)
	if err != nil || len(counts) == 0 {
		return 0, err
	}
	if removed, err = t.changed(ctx, "imported_delete", t.store.ofImport(b)...); err != nil {
		return 0, err
	}
	if removed != len(counts) {
		return 0, fmt.Errorf("%w: %d events were read and %d deleted", sluice.ErrConflict, len(counts), removed)
	}
	return removed, t.takeCounts(ctx, counts, [...]int64{hoursFromMillis, daysFromMillis})
}

// importedCounts returns what takes each event of a batch out of the series.
func (t *txn) importedCounts(ctx context.Context, b store.ImportedBatch) (counts []sluice.Count, err error) {
	err = t.each(ctx, rawQuery(t.store.d, "imported_events"), t.store.ofImport(b), func(scan scanner) error {
		c := sluice.Count{By: -1}
		var kind string
		if err := scan(&c.App, &c.Name, &kind, t.store.instant(&c.TimeMillis)); err != nil {
			return err
		}
		var ok bool
		if c.Kind, ok = sluice.ParseEventKind(kind); !ok {
			return fmt.Errorf("an event of the unknown kind %q", kind)
		}
		c.TimeMillis = sluice.RoundCountTime(c.TimeMillis) // as it was counted
		counts = append(counts, c)
		return nil
	})
	return counts, err
}

// takeCounts adds counts to the series, where they are not past the retention
// of a table: its rows of then are gone, and must not become some below zero.
func (t *txn) takeCounts(ctx context.Context, counts []sluice.Count, fromMillis [2]int64) error {
	var sums map[seriesKey]int64
	for i, table := range seriesTables {
		sums = t.store.sumCounts(counts, table.width)
		for k := range sums {
			if k.bucket < fromMillis[i] {
				delete(sums, k)
			}
		}
		if err := t.addSums(ctx, table.name, sums, 0); err != nil {
			return err
		}
	}
	return t.noteChanges(ctx, sums, 0)
}
