package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"sluice"
	"sluice/store"
)

// What the mirror of the series has to know (series.Mirror): which days have
// other totals since it looked last.
//
// The idea. A transaction that adds to the series notes the days it adds to, in
// series_changes, with a stamp that no other transaction has. The mirror reads
// the notes, then the totals, so the totals include at least the noted changes.
// It writes the documents, then removes the notes that still have the stamps it
// has read. A change that came in between has put another stamp there, and its
// note stays. Nothing is compared by time or by order of commits.
//
// The invariants. Whether changes are noted is said by a row of cursors, follower
// `mirror`: its position is (epoch, whole). A transaction reads it with a
// shared lock, and it is changed under an exclusive one. So a mirror that
// begins waits for the transactions that do not know it yet. After that, every
// change without a note can be read in the totals. The row is made before
// anything is stored (MirrorState), so that there is something to lock. Notes
// have stripes, as rows of the series have, so that processes do not wait for
// each other.
//
// In PostgreSQL who shares a row passes by those that wait to change it: a mirror would wait
// until no transaction of any process is behind its counts. So before the row both lock a
// number, whose queue is fair. It is a condition of the same statement: the row is read
// as it is when it is locked, which is after the number is. Older programs lock the row alone.
//
// What was tried and dropped. A version in the rows of the series, from a
// sequence, with an index. Versions become visible in another order than they
// were drawn. So the mirror would have to look back over all transactions that
// may still be open. Every row is also written twice, mirror or not.

// mirrorFollower is the cursor that says whether changes are noted.
const mirrorFollower = "mirror"

// maxTotalsDays bounds what one statement asks for, maxSettleDays what one
// removes.
const (
	maxTotalsDays = 50
	maxSettleDays = 100
)

var _ store.MirrorStore = (*Store)(nil)

// noteChanges notes the days of an effect's counts.
func (t *txn) noteChanges(ctx context.Context, sums map[seriesKey]int64, stripe int) error {
	state, err := t.mirrorState(ctx)
	if err != nil || state.Epoch == 0 {
		return err
	}
	days := make([]seriesKey, 0, len(sums))
	for k := range sums {
		k.kind = ""
		days = append(days, k)
	}
	slices.SortFunc(days, seriesKey.compare)
	days = slices.Compact(days)
	stamp := rand.Int64()
	d := t.store.d
	for part := range slices.Chunk(days, maxSeriesRows) {
		args := make([]any, 0, 5*len(part))
		for _, k := range part {
			args = append(args, k.app, k.name, d.millis(k.bucket), stripe, stamp)
		}
		if _, err := t.conn.ExecContext(ctx, d.placeholders(withRows(rawQuery(d, "changes_add"), 5, len(part))), args...); err != nil {
			return fmt.Errorf("note changes for the mirror: %w", err)
		}
	}
	return nil
}

// mirrorState reads the state and keeps it from changing until the transaction
// ends.
func (t *txn) mirrorState(ctx context.Context) (store.MirrorState, error) {
	state, err := scanMirror(t.conn.QueryRowContext(ctx, query(t.store.d, "mirror_state"), mirrorFollower))
	if errors.Is(err, sql.ErrNoRows) {
		return store.MirrorState{}, nil
	}
	if err != nil {
		return state, fmt.Errorf("look whether there is a mirror: %w", err)
	}
	return state, nil
}

func scanMirror(row *sql.Row) (state store.MirrorState, err error) {
	var epoch, whole number
	err = row.Scan(&epoch, &whole)
	return store.MirrorState{Epoch: int64(epoch), Whole: whole != 0}, err
}

// MirrorState returns the state, and makes its row if there is none.
func (s *Store) MirrorState(ctx context.Context) (store.MirrorState, error) {
	at, err := s.Cursors(ctx, mirrorFollower, []int{0})
	if err != nil {
		return store.MirrorState{}, err
	}
	return store.MirrorState{Epoch: int64(at[0].Major), Whole: at[0].Minor != 0}, nil
}

// mirrorPosition is a state as the row of cursors has it.
func mirrorPosition(state store.MirrorState) (major, minor uint64) {
	if state.Whole {
		minor = 1
	}
	return uint64(state.Epoch), minor
}

// mirrorPatience is how long SetMirrorState waits for a lock, if that is more than others
// wait: transactions that have counts may take so long until they end. Each time that it
// gives up, the mirror opens one more epoch and writes all days anew. Transactions that
// come behind it meanwhile may have to begin anew.
const mirrorPatience = 10 * time.Second

// SetMirrorState changes the state. It waits for transactions of all processes, and what
// this one writes does not wait for it.
func (s *Store) SetMirrorState(ctx context.Context, from, to store.MirrorState) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		usual, err := s.d.waitLonger(ctx, tx.conn, max(mirrorPatience, s.options.SessionTimeout))
		if err != nil {
			return fmt.Errorf("set how long locks are waited for: %w", err)
		}
		toMajor, toMinor := mirrorPosition(to)
		fromMajor, fromMinor := mirrorPosition(from)
		n, err := tx.changed(ctx, "mirror_set", s.d.number(toMajor), s.d.number(toMinor), s.now(), mirrorFollower, s.d.number(fromMajor), s.d.number(fromMinor))
		if err == nil && n != 1 {
			err = fmt.Errorf("%w: it is not %+v any more", sluice.ErrConflict, from)
		}
		if err == nil && to.Epoch == 0 {
			_, err = tx.conn.ExecContext(ctx, "DELETE FROM series_changes")
		}
		if err == nil { // else the connection is closed
			err = usual()
		}
		return err
	})
	return s.failed(err, "set the state of the mirror in")
}

// behind is the condition of rows behind a key, and what it is given. MariaDB and
// MySQL find no range in a comparison of rows, the others none in the long form.
func behind(d dialect, columns []string, values []any) (string, []any) {
	if d.name() != "mysql" {
		return "(" + strings.Join(columns, ", ") + ") > (?" + strings.Repeat(", ?", len(columns)-1) + ")", values
	}
	last := len(columns) - 1
	text, args := columns[last]+" > ?", []any{values[last]}
	for i := last - 1; i >= 0; i-- {
		text = columns[i] + " > ? OR (" + columns[i] + " = ? AND (" + text + "))"
		args = append([]any{values[i], values[i]}, args...)
	}
	return "(" + text + ")", args
}

// SeriesChanges returns a page of the changes.
func (s *Store) SeriesChanges(ctx context.Context, after *store.SeriesChange, limit int) ([]store.SeriesChange, error) {
	statement, args := "SELECT app_id, name, bucket, stripe, stamp FROM series_changes", []any(nil)
	key := []string{"app_id", "name", "bucket", "stripe"}
	if after != nil {
		var where string
		where, args = behind(s.d, key, []any{after.App, after.Name, s.d.millis(after.DayMillis), after.Stripe})
		statement += " WHERE " + where
	}
	statement += fmt.Sprintf(" ORDER BY %s LIMIT %d", strings.Join(key, ", "), limit)
	page, err := list(ctx, s.d, s.reads, func(scan scanner, c *store.SeriesChange) error {
		return scan(&c.App, &c.Name, s.instant(&c.DayMillis), &c.Stripe, &c.Stamp)
	}, statement, args...)
	return page, s.failed(err, "read changes of the series from")
}

// SettleSeries removes changes, in the order in which they are noted.
func (s *Store) SettleSeries(ctx context.Context, epoch int64, changes []store.SeriesChange) error {
	changes = slices.SortedFunc(slices.Values(changes), func(a, b store.SeriesChange) int {
		return cmp.Or(strings.Compare(a.App, b.App), strings.Compare(a.Name, b.Name), cmp.Compare(a.DayMillis, b.DayMillis), cmp.Compare(a.Stripe, b.Stripe))
	})
	const one = "(app_id = ? AND name = ? AND bucket = ? AND stripe = ? AND stamp = ?)"
	err := s.write(ctx, func(tx *txn) error {
		state, err := tx.mirrorState(ctx)
		if err != nil {
			return err
		}
		if state.Epoch != epoch {
			return fmt.Errorf("%w: the epoch is %d, not %d", sluice.ErrConflict, state.Epoch, epoch)
		}
		for part := range slices.Chunk(changes, maxSettleDays) {
			args := make([]any, 0, 5*len(part))
			for _, c := range part {
				args = append(args, c.App, c.Name, s.d.millis(c.DayMillis), c.Stripe, c.Stamp)
			}
			statement := "DELETE FROM series_changes WHERE " + one + strings.Repeat(" OR "+one, len(part)-1)
			if _, err := tx.conn.ExecContext(ctx, s.d.placeholders(statement), args...); err != nil {
				return err
			}
		}
		return nil
	})
	return s.failed(err, "settle %d changes of the series in", len(changes))
}

// SeriesDays returns the days of a page of hours.
func (s *Store) SeriesDays(ctx context.Context, from *store.SeriesHour, limit int) (days []store.SeriesDay, next *store.SeriesHour, err error) {
	key := []string{"app_id", "name", "kind", "bucket"}
	statement, args := "SELECT "+strings.Join(key, ", ")+" FROM series_hours", []any(nil)
	if from != nil {
		var where string
		where, args = behind(s.d, key, []any{from.App, from.Name, from.Kind, s.d.millis(from.HourMillis)})
		statement += " WHERE " + where
	}
	statement += fmt.Sprintf(" ORDER BY %s LIMIT %d", strings.Join(key, ", "), limit)
	read := 0
	err = s.each(ctx, statement, args, func(scan scanner) error {
		var h store.SeriesHour
		err := scan(&h.App, &h.Name, &h.Kind, s.instant(&h.HourMillis))
		if day := (store.SeriesDay{App: h.App, Name: h.Name, DayMillis: startOfDay(h.HourMillis)}); len(days) == 0 || days[len(days)-1] != day {
			days = append(days, day)
		}
		next = &h
		read++
		return err
	})
	if err != nil {
		return nil, nil, s.failed(err, "read the days of the series from")
	}
	if read < limit {
		next = nil
	}
	return days, next, nil
}

// startOfDay is the midnight at or before a moment, which may be before 1970.
func startOfDay(millis int64) int64 {
	into := millis % dayMillis
	if into < 0 {
		into += dayMillis
	}
	return millis - into
}

// DayTotals adds up the hours of days, over kinds and stripes.
func (s *Store) DayTotals(ctx context.Context, days []store.SeriesDay) ([]store.DayTotals, error) {
	var all []store.DayTotals
	for part := range slices.Chunk(days, maxTotalsDays) {
		found, err := s.dayTotals(ctx, part)
		if err != nil {
			return nil, s.failed(err, "read totals of %d days from", len(part))
		}
		all = append(all, found...)
	}
	return all, nil
}

// seriesKinds are all kinds there are. Naming them makes the hours of a day a
// few short ranges of the key, in which the kind stands before the time.
var seriesKinds = []string{
	sluice.KindMail.String(), sluice.KindCustom.String(), sluice.KindPurchase.String(), sluice.KindSystem.String(), sluice.KindCounter.String(),
}

func (s *Store) dayTotals(ctx context.Context, days []store.SeriesDay) ([]store.DayTotals, error) {
	one := "(app_id = ? AND name = ? AND kind IN ('" + strings.Join(seriesKinds, "', '") + "') AND bucket >= ? AND bucket < ?)"
	args := make([]any, 0, 4*len(days))
	for _, day := range days {
		to := min(day.DayMillis+dayMillis, sluice.MaxEventTimeMillis) // see seriesStatement
		args = append(args, day.App, day.Name, s.d.millis(day.DayMillis), s.d.millis(to))
	}
	statement := "SELECT app_id, name, bucket, " + s.d.sumCount() + " FROM series_hours WHERE " + one + strings.Repeat(" OR "+one, len(days)-1) +
		" GROUP BY app_id, name, bucket ORDER BY app_id, name, bucket"
	var all []store.DayTotals
	err := s.each(ctx, statement, args, func(scan scanner) error {
		var day store.SeriesDay
		var hour, count int64
		err := scan(&day.App, &day.Name, s.instant(&hour), &count)
		day.DayMillis = startOfDay(hour)
		if len(all) == 0 || all[len(all)-1].SeriesDay != day {
			all = append(all, store.DayTotals{SeriesDay: day})
		}
		last := &all[len(all)-1]
		last.Hours = append(last.Hours, store.HourTotal{Hour: int((hour - day.DayMillis) / time.Hour.Milliseconds()), Count: count})
		return err
	})
	return all, err
}
