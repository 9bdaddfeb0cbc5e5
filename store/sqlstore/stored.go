package sqlstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"sluice"
)

// Stored implements user.Store.
func (s *Store) Stored(ctx context.Context, events []sluice.EventKey) (map[sluice.EventKey]bool, error) {
	found := make(map[sluice.EventKey]bool)
	for piece := range slices.Chunk(events, maxUserRows) {
		statement, args := s.d.storedEvents(piece)
		err := s.each(ctx, statement, args, func(scan scanner) error {
			var k sluice.EventKey
			err := scan(s.instant(&k.Millis), &k.ID)
			found[k] = true
			return err
		})
		if err != nil {
			return nil, s.failed(err, "look which of %d events are in", len(events))
		}
	}
	return found, nil
}

// storedEvents compares with each key by itself: each is one row of the primary key.
func (d *mysqlDialect) storedEvents(events []sluice.EventKey) (string, []any) {
	one := "time = ? AND event_id = ?"
	return strings.Replace(rawQuery(d, "events_stored"), "$KEYS", one+strings.Repeat(" OR "+one, len(events)-1), 1), eventArgs(d, events)
}

func (d *sqliteDialect) storedEvents(events []sluice.EventKey) (string, []any) {
	return withRows(rawQuery(d, "events_stored"), 2, len(events)), eventArgs(d, events)
}

func eventArgs(d dialect, events []sluice.EventKey) []any {
	args := make([]any, 0, 2*len(events))
	for _, k := range events {
		args = append(args, d.millis(k.Millis), k.ID)
	}
	return args
}

func (d *postgresDialect) storedEvents(events []sluice.EventKey) (string, []any) {
	times, ids := make([]time.Time, len(events)), make([]string, len(events))
	for i, k := range events {
		times[i], ids[i] = time.UnixMilli(k.Millis).UTC(), d.text(k.ID)
	}
	return rawQuery(d, "events_stored"), []any{times, ids}
}
