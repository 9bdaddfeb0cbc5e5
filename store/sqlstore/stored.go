package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice"
)

// Stored implements sluice.UserStore.
func (s *Store) Stored(ctx context.Context, events []sluice.EventKey) (map[sluice.EventKey]bool, error) {
	found := make(map[sluice.EventKey]bool)
	for piece := range slices.Chunk(events, maxUserRows) {
		statement, args := s.d.storedEvents(piece)
		rows, err := s.reads.QueryContext(ctx, s.d.placeholders(statement), args...)
		if err == nil {
			err = eachRow(rows, func(scan func(...any) error) error {
				var k sluice.EventKey
				var at any
				err := scan(&at, &k.ID)
				if err == nil {
					k.Millis, err = s.d.scanMillis(at)
				}
				found[k] = true
				return err
			})
		}
		if err != nil {
			return nil, fmt.Errorf("look which of %d events are in %s: %w", len(events), s.where, err)
		}
	}
	return found, nil
}

// storedEvents compares with each key by itself: each is one row of the primary key.
func (d *mysqlDialect) storedEvents(events []sluice.EventKey) (string, []any) {
	args := make([]any, 0, 2*len(events))
	for _, k := range events {
		args = append(args, d.millis(k.Millis), k.ID)
	}
	one := "time = ? AND event_id = ?"
	return strings.Replace(rawQuery(d, "events_stored"), "$KEYS", one+strings.Repeat(" OR "+one, len(events)-1), 1), args
}

func (d *sqliteDialect) storedEvents(events []sluice.EventKey) (string, []any) {
	args := make([]any, 0, 2*len(events))
	for _, k := range events {
		args = append(args, d.millis(k.Millis), k.ID)
	}
	return withRows(rawQuery(d, "events_stored"), 2, len(events)), args
}

func (d *postgresDialect) storedEvents(events []sluice.EventKey) (string, []any) {
	times, ids := make([]time.Time, len(events)), make([]string, len(events))
	for i, k := range events {
		times[i], ids[i] = time.UnixMilli(k.Millis).UTC(), d.text(k.ID)
	}
	return rawQuery(d, "events_stored"), []any{times, ids}
}
