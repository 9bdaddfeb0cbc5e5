package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"sluice"
	"sluice/store"
)

var _ store.SeriesStore = (*Store)(nil)

// Series adds up rows of the series, over the stripes in any case.
func (s *Store) Series(ctx context.Context, q store.SeriesQuery) ([]store.SeriesRow, error) {
	statement, args := s.seriesStatement(q)
	all, err := addUp(ctx, s, func(scan scanner, r *store.SeriesRow) error {
		return scan(s.instant(&r.Millis), &r.Quarter, &r.App, &r.Name, &r.Kind, &r.Count)
	}, statement, args)
	return all, s.failed(err, "read series from")
}

// addUp is list for a statement that may read a whole table. At most half of the reading
// connections are busy with such statements: the others stay for the store and for leases.
func addUp[T any](ctx context.Context, s *Store, read func(scanner, *T) error, statement string, args []any) ([]T, error) {
	select {
	case s.adding <- struct{}{}:
		defer func() { <-s.adding }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for others that read counts: %w", context.Cause(ctx))
	}
	return list(ctx, s.d, s.reads, read, statement, args...)
}

// seriesStatement composes the query. What is not told apart is left out of
// its grouping; a sum beyond 64 bits stays at their end.
func (s *Store) seriesStatement(q store.SeriesQuery) (string, []any) {
	table := "series_hours"
	if q.Days {
		table = "series_days"
	}
	columns, group := []string{"bucket", "0"}, []string{"bucket"}
	if q.Whole {
		columns, group = []string{"MIN(bucket)", "0"}, nil
	}
	if q.Quarters {
		quarter := "CASE"
		for n := sluice.Quarters; n > 0; n-- {
			quarter += fmt.Sprintf(" WHEN stripe >= %d THEN %d", n*quarterStripes, n)
		}
		quarter += " ELSE 0 END"
		columns[1], group = quarter, append(group, quarter)
	}
	for _, c := range []struct {
		name  string
		apart bool
	}{{"app_id", q.ByApp}, {"name", q.ByName}, {"kind", q.ByKind}} {
		if !c.apart {
			columns = append(columns, "''")
			continue
		}
		columns, group = append(columns, c.name), append(group, c.name)
	}
	// A bucket never begins later than an event can be. MariaDB compares
	// nothing with the year 10000, in which the widened end of a range may lie.
	to := min(q.ToMillis, sluice.MaxEventTimeMillis)
	where, args := []string{"bucket >= ?", "bucket < ?"}, []any{s.d.millis(q.FromMillis), s.d.millis(to)}
	only := func(column string, value string) {
		where, args = append(where, column+" = ?"), append(args, value)
	}
	if q.App != nil {
		only("app_id", s.d.text(*q.App))
	}
	if q.Name != nil {
		only("name", s.d.text(*q.Name))
	}
	if q.Kind != nil {
		only("kind", q.Kind.String())
	}
	if last := len(q.Under) - 1; last >= 0 {
		// Names are compared byte by byte, so those lie together in the primary key.
		where = append(where, "name >= ?", "name < ?")
		args = append(args, s.d.text(q.Under), s.d.text(q.Under[:last]+string(q.Under[last]+1)))
	}
	from := "SELECT " + strings.Join(columns, ", ") + ", " + s.d.sumCount() + " FROM " + table + " WHERE " + strings.Join(where, " AND ")
	by := strings.Join(group, ", ")
	if by == "" { // one row, unless there is nothing
		return from + " HAVING COUNT(*) > 0", args
	}
	return from + " GROUP BY " + by + " ORDER BY " + by + fmt.Sprintf(" LIMIT %d", q.Limit), args
}
