package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice"
	"sluice/store"
)

// The table events is divided by time where the database can (MariaDB, MySQL,
// PostgreSQL). So old days are dropped, with their pages, instead of being
// deleted row by row.
//
// The idea. The partitions are, in this order: `before`, for events before the
// first day of its own; one a day; `later`, for events without a day, open at
// its end. Only `later` is ever divided, when it is empty or nearly so: days
// are made ahead of time. Its events go into the new days in the same step. A
// partition's only property that matters is where it ends. It begins where the
// one before it ends, so dropping one in between does no harm. PostgreSQL then
// puts late events of that day into `later`.
//
// The invariants. An event is found in any partition: only this file names
// them. Changes of the partitions are made under a lock of the database's, one
// process at a time, after looking what there is. A process that does not get
// the lock leaves the work to the other. The statements wait for others at most
// a second, and while they wait others wait behind them.
//
// What was tried and dropped. Days of the rows that were there before the table
// was divided: PostgreSQL would have to copy all of them. As it is, its old
// table becomes `before`. Partitions below a day by kind of event: MariaDB
// cannot drop a part of a partition.

// Bounds of the partitions and of what is deleted at once.
const (
	// maxEventDays is the number of partitions from which new ones are months.
	// A query without a time locks all of them, in PostgreSQL three locks each.
	// By default the server has room for 6,400 locks or so.
	maxEventDays = 1000

	// firstDaysBack is how many days before today a new table has.
	firstDaysBack = 31

	retentionWaitSeconds = 1
	retentionPieceRows   = 5000
	retentionNames       = 10_000
	retentionLetters     = 500
)

const (
	dayMillis  = int64(24 * time.Hour / time.Millisecond)
	dateLayout = "2006-01-02"
)

var _ store.RetentionStore = (*Store)(nil)

// eventSpan is a partition of events that has an end.
type eventSpan struct {
	name  string
	begin time.Time // set of new ones only
	end   time.Time // midnight, UTC
}

// spanAfter returns the span that begins at an end, a day or the rest of a month.
func spanAfter(end time.Time, prefix string, month bool) eventSpan {
	next := end.AddDate(0, 0, 1)
	if month {
		next = time.Date(end.Year(), end.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return eventSpan{prefix + end.Format("20060102"), end, next}
}

func midnight(millis int64) time.Time {
	return time.UnixMilli(millis).UTC().Truncate(24 * time.Hour)
}

// missingSpans returns what must follow those that there are.
func missingSpans(have []eventSpan, prefix string, before, now int64) (missing []eventSpan) {
	end := midnight(now)
	if len(have) > 0 {
		end = have[len(have)-1].end
	}
	for end.UnixMilli() < before {
		s := spanAfter(end, prefix, len(have)+len(missing) >= maxEventDays)
		missing, end = append(missing, s), s.end
	}
	return missing
}

// MakeEventDays makes partitions for days that have none.
func (s *Store) MakeEventDays(ctx context.Context, beforeMillis int64) (made int, err error) {
	missing := func(have []eventSpan) []eventSpan {
		return missingSpans(have, s.d.spanPrefix(), beforeMillis, s.clock.Now().UnixMilli())
	}
	err = s.divide(ctx, func(have []eventSpan) bool { return len(missing(have)) > 0 }, func(conn *sql.Conn, have []eventSpan) error {
		add := missing(have)
		made = len(add)
		return s.d.addSpans(ctx, conn, add)
	})
	return done(made, err), s.failed(err, "make days of events in")
}

// DropEventDays drops partitions that have ended.
func (s *Store) DropEventDays(ctx context.Context, endedMillis int64) (dropped []string, err error) {
	old := func(span eventSpan) bool { return span.end.UnixMilli() <= endedMillis }
	err = s.divide(ctx, func(have []eventSpan) bool { return len(have) > 0 && old(have[0]) }, func(conn *sql.Conn, have []eventSpan) error {
		for _, span := range have {
			if !old(span) {
				break
			}
			if err := s.d.dropSpan(ctx, conn, span); err != nil {
				return fmt.Errorf("drop %s: %w", span.name, err)
			}
			dropped = append(dropped, span.name)
		}
		return nil
	})
	return dropped, s.failed(err, "drop days of events in")
}

// divide changes the partitions of events, if they need it, under the lock. The
// connection is a reader's: the writer's may be at work. It is closed after,
// for its short patience and its lock.
func (s *Store) divide(ctx context.Context, needed func([]eventSpan) bool, change func(*sql.Conn, []eventSpan) error) error {
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		discard(conn)
	}()
	have, err := s.eventSpans(ctx, conn)
	if err != nil || have == nil || !needed(have) {
		return err
	}
	if s.options.ReadOnly {
		return errors.New("it was opened read-only")
	}
	unlock, err := s.d.lockSpans(ctx, s, conn)
	if err != nil {
		return fmt.Errorf("take the lock of the days: %w", err)
	}
	if unlock == nil {
		return nil // another process does it
	}
	defer unlock()
	if have, err = s.eventSpans(ctx, conn); err != nil || !needed(have) {
		return err
	}
	return change(conn, have)
}

// eventSpans lists the partitions that have an end, ascending. It returns nil
// for a table that is not divided, and for one that its operator has divided in another way
// than by time, as over the servers behind Spider: such partitions have no end.
func (s *Store) eventSpans(ctx context.Context, conn *sql.Conn) ([]eventSpan, error) {
	statement := s.d.spanQuery()
	if statement == "" {
		return nil, nil
	}
	var spans []eventSpan
	endless := false
	err := eachOf(ctx, s.d, conn, statement, nil, func(scan scanner) error {
		var name string
		var end sql.NullString
		err := scan(&name, &end)
		if spans == nil {
			spans = []eventSpan{}
		}
		endless = endless || err == nil && !end.Valid
		if err != nil || end.String == "" { // later
			return err
		}
		t, err := time.Parse(dateLayout, end.String)
		if err != nil {
			return fmt.Errorf("%s ends at %q, which is not a day: was it made by another program? %w", name, end.String, err)
		}
		spans = append(spans, eventSpan{name: name, end: t})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	if endless {
		return nil, nil
	}
	return spans, nil
}

// firstDay returns the end of the partition `before` of a table that is about
// to be divided. It is some days back, or, if the table has rows, tomorrow, so
// that they all go there.
func (s *Store) firstDay(ctx context.Context, q querier) (string, error) {
	today := midnight(s.clock.Now().UnixMilli())
	has, err := exists(ctx, q, "SELECT 1 FROM events LIMIT 1")
	if err != nil {
		return "", fmt.Errorf("look for events: %w", err)
	}
	days := -firstDaysBack
	if has {
		days = 1
	}
	return today.AddDate(0, 0, days).Format(dateLayout), nil
}

// NextEvent returns the time of the oldest event from a moment on.
func (s *Store) NextEvent(ctx context.Context, fromMillis int64) (millis int64, ok bool, err error) {
	if fromMillis > sluice.MaxEventTimeMillis { // databases refuse the year 10000, or compare nothing with it
		return 0, false, nil
	}
	millis, ok, err = s.scanTime(s.reads.QueryRowContext(ctx, query(s.d, "event_next"), s.d.millis(fromMillis)))
	return millis, ok, s.failed(err, "look for the oldest event in")
}

func (s *Store) scanTime(row *sql.Row) (millis int64, ok bool, err error) {
	err = row.Scan(s.instant(&millis))
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return millis, err == nil, err
}

// upTo returns where a piece of a range ends: just behind the time of its last row, which
// a query finds. If it finds none there is no more, and the piece ends with the range.
func (s *Store) upTo(ctx context.Context, toMillis int64, name string, args ...any) (reachedMillis int64, more bool, err error) {
	last, more, err := s.scanTime(s.reads.QueryRowContext(ctx, query(s.d, name), args...))
	if more {
		toMillis = last + 1
	}
	return toMillis, more, err
}

// DeleteEvents deletes a piece of a range. Its events are looked for first, by a
// read that takes no locks, since no index has them by kind. They are deleted by their
// keys, and where there are none nothing is written: the writer has others to serve. The
// next piece begins where this one ends. To find its place from the first would be to read
// over rows that are deleted and not cleared away yet.
func (s *Store) DeleteEvents(ctx context.Context, kind sluice.EventKind, fromMillis, toMillis int64) (deleted int, reachedMillis int64, err error) {
	keys, err := list(ctx, s.d, s.reads, func(scan scanner, k *sluice.EventKey) error {
		return scan(s.instant(&k.Millis), &k.ID)
	}, rawQuery(s.d, "event_keys"), s.d.millis(fromMillis), s.d.millis(toMillis), kind.String(), retentionPieceRows)
	if err == nil && len(keys) > 0 {
		err = s.write(ctx, func(tx *txn) error {
			deleted, err = tx.dropEvents(ctx, keys)
			return err
		})
	}
	if len(keys) == retentionPieceRows {
		toMillis = keys[retentionPieceRows-1].Millis // others of this moment may be left
	}
	return done(deleted, err), toMillis, s.failed(err, "delete %s events of", kind)
}

// DeleteSeries deletes old rows of one of the tables of the series, name by
// name: that is what its key begins with.
func (s *Store) DeleteSeries(ctx context.Context, days bool, beforeMillis int64, staying ...string) (deleted int, err error) {
	table := seriesTables[0].name
	if days {
		table = seriesTables[1].name
	}
	names, err := s.oldSeries(ctx, table, beforeMillis, staying)
	for len(names) > 0 && err == nil {
		rest, rows := names, 0
		err = s.write(ctx, func(tx *txn) error {
			for len(rest) > 0 && rows < retentionPieceRows {
				n, more, err := tx.deleteSeries(ctx, table, rest[0], beforeMillis)
				if err != nil {
					return err
				}
				if rows += n; !more {
					rest = rest[1:]
				}
			}
			return nil
		})
		if err == nil {
			names, deleted = rest, deleted+rows
		}
		if err == nil && len(names) == 0 {
			names, err = s.oldSeries(ctx, table, beforeMillis, staying)
		}
	}
	return deleted, s.failed(err, "delete old rows of %s in", table)
}

// oldSeries returns names that have rows before a moment, at most retentionNames,
// without those that stay.
func (s *Store) oldSeries(ctx context.Context, table string, beforeMillis int64, staying []string) (names []seriesKey, err error) {
	statement := strings.ReplaceAll(rawQuery(s.d, "series_old"), "$TABLE", table)
	names, err = list(ctx, s.d, s.reads, func(scan scanner, k *seriesKey) error { return scan(&k.app, &k.name, &k.kind) }, statement, s.d.millis(beforeMillis), retentionNames)
	return slices.DeleteFunc(names, func(k seriesKey) bool {
		return k.kind == sluice.KindSystem.String() && slices.Contains(staying, k.name)
	}), err
}

// deleteSeries deletes a piece of a name's old rows.
func (t *txn) deleteSeries(ctx context.Context, table string, k seriesKey, beforeMillis int64) (deleted int, more bool, err error) {
	d := t.store.d
	before := d.millis(beforeMillis)
	nth := strings.ReplaceAll(query(d, "series_nth"), "$TABLE", table)
	last, more, err := t.store.scanTime(t.conn.QueryRowContext(ctx, nth, k.app, k.name, k.kind, before, retentionPieceRows-1))
	if err != nil {
		return 0, false, err
	}
	if more {
		before = d.millis(last + 1)
	}
	deleted, err = t.changes(ctx, strings.ReplaceAll(query(d, "series_delete"), "$TABLE", table), k.app, k.name, k.kind, before)
	return deleted, more, err
}

// DeleteDeadLetters deletes a piece of the old dead letters.
func (s *Store) DeleteDeadLetters(ctx context.Context, beforeMillis int64) (deleted int, more bool, err error) {
	ids, err := list(ctx, s.d, s.reads, cell[int64], rawQuery(s.d, "dead_old"), s.d.millis(beforeMillis), retentionLetters)
	if err == nil && len(ids) > 0 {
		err = s.write(ctx, func(tx *txn) error {
			for _, id := range ids {
				if err := tx.dropLetter(ctx, id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return 0, false, s.failed(err, "delete old dead letters of")
	}
	return len(ids), len(ids) == retentionLetters, nil
}
