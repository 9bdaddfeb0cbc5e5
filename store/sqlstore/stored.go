package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"sluice"
)

// Stored implements user.Store. In the order of time, a piece has few days to look at.
func (s *Store) Stored(ctx context.Context, events []sluice.EventKey) (map[sluice.EventKey]bool, error) {
	found := make(map[sluice.EventKey]bool)
	events = inOrder(events, func(a, b sluice.EventKey) int { return cmp.Compare(a.Millis, b.Millis) })
	for piece := range slices.Chunk(events, maxUserRows) {
		statement, args := s.d.ofEvents("events_stored", piece)
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

// dropEvents deletes events by their keys.
func (t *txn) dropEvents(ctx context.Context, events []sluice.EventKey) (deleted int, err error) {
	for piece := range slices.Chunk(events, maxUserRows) {
		statement, args := t.store.d.ofEvents("events_drop", piece)
		n, err := t.changes(ctx, t.store.d.placeholders(statement), args...)
		if err != nil {
			return 0, err
		}
		deleted += n
	}
	return deleted, nil
}

func (d *mysqlDialect) ofEvents(name string, events []sluice.EventKey) (string, []any) {
	return eventKeys(d, name, events)
}

func (d *sqliteDialect) ofEvents(name string, events []sluice.EventKey) (string, []any) {
	statement, args := eventKeys(d, name, events)
	return withRows(statement, 2, len(events)), args
}

// eventKeys compares with each key by itself: each is one row of the primary key.
func eventKeys(d dialect, name string, events []sluice.EventKey) (string, []any) {
	args := make([]any, 0, 2*len(events))
	for _, k := range events {
		args = append(args, d.millis(k.Millis), k.ID)
	}
	one := "time = ? AND event_id = ?"
	return strings.Replace(rawQuery(d, name), "$KEYS", one+strings.Repeat(" OR "+one, len(events)-1), 1), args
}

// ofEvents also has the first and the last time: by a list of times the server would plan
// over all days there are, and lock them.
func (d *postgresDialect) ofEvents(name string, events []sluice.EventKey) (string, []any) {
	times, ids := make([]time.Time, len(events)), make([]string, len(events))
	for i, k := range events {
		times[i], ids[i] = time.UnixMilli(k.Millis).UTC(), d.text(k.ID)
	}
	return rawQuery(d, name), []any{times, ids, slices.MinFunc(times, time.Time.Compare), slices.MaxFunc(times, time.Time.Compare)}
}
