package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice"
	"sluice/mail"
	"sluice/store"
)

// How every process learns of every change.
//
// The idea. Changes of suppressions are counted, and a row has the number of its
// last change. The count is a row of cursors, follower `suppressions`. A
// transaction that changes suppressions raises it first: that locks it until
// the transaction ends, so changes become visible in the order of their
// numbers. A reader of the count can read all rows up to it, and later those
// above it. A removed row stays, so that its removal is such a change as well.
//
// The count is at least the time in microseconds when it was raised. A database that
// goes back, to a replica which lagged, would else give numbers a second time: a process
// that has read up to the lost ones would never read what has them now. Microseconds,
// since an import makes more than one change a millisecond, and would run ahead of those.
//
// The invariants. The count is raised last of all that a transaction locks
// before the rows themselves, and rows are read and written only under it. So
// two transactions never wait for each other in a circle, and rows that a
// decision depends on are unchanged until the commit.
//
// What was tried and dropped. Items in the logs of the partitions. Each process
// would read all events of all of them, hundreds of thousands a second, for a
// few suppressions. Rows with numbers from a sequence: they become visible in
// another order than they were drawn. A table of changes beside: it needs
// trimming, and a reader that is behind the trimmed part reads all.

// suppressionFollower is the cursor that counts the changes.
const suppressionFollower = "suppressions"

const (
	suppressionColumns = "entry, scope, app_id, reason, source, happened, ends, removed, number"
	suppressionValues  = 9
)

// suppressionKey are the columns of the primary key.
var suppressionKey = []string{"entry", "scope", "app_id", "reason"}

var _ mail.SuppressionStore = (*Store)(nil)

// Suppress implements mail.SuppressionStore.
func (s *Store) Suppress(ctx context.Context, changes []mail.Suppression) (changed int, err error) {
	if len(changes) > mail.MaxSuppressChanges {
		return 0, fmt.Errorf("suppress in %s: %d changes at once, the most is %d", s.where, len(changes), mail.MaxSuppressChanges)
	}
	err = s.write(ctx, func(tx *txn) error {
		changed, err = tx.suppress(ctx, changes)
		return err
	})
	return changed, s.failed(err, "suppress in")
}

// suppress is done last in a transaction, see above.
func (t *txn) suppress(ctx context.Context, changes []mail.Suppression) (int, error) {
	if len(changes) == 0 {
		return 0, nil
	}
	for i := range changes {
		if err := changes[i].Check(); err != nil {
			return 0, fmt.Errorf("suppression %d: %w", i, err)
		}
	}
	last, err := t.countSuppressions(ctx, len(changes))
	if err != nil {
		return 0, err
	}
	stored, err := t.suppressionsFor(ctx, changes)
	if err != nil {
		return 0, err
	}
	now, millis := make(map[mail.SuppressionKey]*mail.Suppression, len(changes)), t.store.clock.Now().UnixMilli()
	for _, c := range changes { // a copy: the transaction may be tried again
		before := now[c.Key()]
		if row, ok := stored[c.Key()]; ok && before == nil {
			before = &row
		}
		if c.Settle(before, millis); c.Changes(before, millis) {
			now[c.Key()] = &c
		}
	}
	write := make([]*mail.Suppression, 0, len(now))
	for _, c := range now {
		write = append(write, c)
	}
	slices.SortFunc(write, func(a, b *mail.Suppression) int { return compareSuppressions(a.Key(), b.Key()) })
	args := make([]any, 0, suppressionValues*len(write))
	for i, c := range write {
		args = append(args, t.store.suppressionArgs(c, last-int64(len(write)-1-i))...)
	}
	_, err = t.rows(ctx, "suppression_put", suppressionValues, args)
	return len(write), err
}

// compareSuppressions is the order of the primary key.
func compareSuppressions(a, b mail.SuppressionKey) int {
	return cmp.Or(strings.Compare(a.Entry, b.Entry), strings.Compare(a.Scope.String(), b.Scope.String()),
		strings.Compare(a.App, b.App), strings.Compare(a.Reason.String(), b.Reason.String()))
}

// countSuppressions raises the count by as many changes, or to the time, and returns it.
func (t *txn) countSuppressions(ctx context.Context, by int) (last int64, err error) {
	for range 2 {
		now := t.store.clock.Now().UnixMicro()
		last, err := t.store.d.raise(ctx, t, "suppression_count", by, now, now, by, t.store.now(), suppressionFollower)
		if err == nil {
			return last, nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return 0, fmt.Errorf("count changes of suppressions: %w", err)
		}
		if err := t.exec(ctx, "cursor_create", suppressionFollower, 0, t.store.now()); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("count changes of suppressions: the cursor %s cannot be made", suppressionFollower)
}

// recountSuppressions makes the count anew from the rows. It has none.
func (t *txn) recountSuppressions(ctx context.Context) error {
	var last int64
	if err := t.conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(number), 0) FROM suppressions").Scan(&last); err != nil || last == 0 {
		return err
	}
	return t.addCursor(ctx, store.DumpCursor{Follower: suppressionFollower, Position: sluice.Position{Major: uint64(last)}})
}

// suppressionsFor reads the rows of what is to be changed.
func (t *txn) suppressionsFor(ctx context.Context, changes []mail.Suppression) (map[mail.SuppressionKey]mail.Suppression, error) {
	entries := make([]string, len(changes))
	for i := range changes {
		entries[i] = changes[i].Entry
	}
	stored := make(map[mail.SuppressionKey]mail.Suppression)
	err := t.store.suppressionsOf(ctx, t.conn, entries, func(s mail.Suppression) { stored[s.Key()] = s })
	return stored, err
}

func (s *Store) suppressionArgs(c *mail.Suppression, number int64) []any {
	source := s.d.text(strings.ToValidUTF8(c.Source[:min(len(c.Source), mail.MaxSuppressSourceBytes)], ""))
	return []any{c.Entry, c.Scope.String(), c.App, c.Reason.String(), source, s.d.millis(c.TimeMillis), s.millisOrNull(c.EndMillis), b2i(c.Removed), number}
}

// suppressionsOf reads the rows of entries, in the order of their keys.
func (s *Store) suppressionsOf(ctx context.Context, from rowsQuerier, entries []string, f func(mail.Suppression)) error {
	names := slices.Compact(slices.Sorted(slices.Values(entries)))
	statement := strings.Replace(rawQuery(s.d, "suppression_of"), "$COLUMNS", suppressionColumns, 1)
	for piece := range slices.Chunk(names, namesAtOnce(s.d)) {
		found, err := list(ctx, s.d, from, s.scanSuppression, named(statement, len(piece)), anys(piece)...)
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b mail.Suppression) int { return compareSuppressions(a.Key(), b.Key()) })
		for _, r := range found {
			f(r)
		}
	}
	return nil
}

// scanSuppression reads a row of all columns.
func (s *Store) scanSuppression(scan scanner, r *mail.Suppression) error {
	var scope, reason string
	err := scan(&r.Entry, &scope, &r.App, &reason, &r.Source, s.instant(&r.TimeMillis), s.instant(&r.EndMillis), &r.Removed, &r.Number)
	if err == nil {
		err = setWords(r, scope, reason)
	}
	return err
}

// SuppressionsOf implements mail.SuppressionStore.
func (s *Store) SuppressionsOf(ctx context.Context, entries []string) (all []mail.Suppression, err error) {
	if len(entries) > mail.MaxSuppressChanges {
		return nil, fmt.Errorf("read suppressions from %s: %d entries at once, the most is %d", s.where, len(entries), mail.MaxSuppressChanges)
	}
	if err = s.suppressionsOf(ctx, s.reads, entries, func(r mail.Suppression) { all = append(all, r) }); err != nil {
		return nil, s.failed(err, "read suppressions from")
	}
	return all, nil
}

// Suppressions implements mail.SuppressionStore.
func (s *Store) Suppressions(ctx context.Context, q mail.SuppressionQuery) (all []mail.Suppression, err error) {
	statement, args := "SELECT "+suppressionColumns+" FROM suppressions WHERE removed = 0", []any(nil)
	order := strings.Join(suppressionKey, ", ")
	switch {
	case q.Reason != 0:
		statement += " AND reason = ? AND happened >= ? AND happened < ? AND (ends IS NULL OR ends > ?)"
		args = append(args, q.Reason.String(), s.d.millis(q.FromMillis), s.d.millis(q.ToMillis), s.d.millis(q.NowMillis))
		if q.Addresses {
			statement += " AND entry LIKE '%@%'"
		}
		order = "happened DESC, entry, scope, app_id"
		if q.Oldest {
			order = "happened, entry, scope, app_id"
		}
	case q.After.Entry != "":
		where, values := behind(s.d, suppressionKey, []any{q.After.Entry, q.After.Scope.String(), q.After.App, q.After.Reason.String()})
		statement, args = statement+" AND "+where, values
	}
	statement += " ORDER BY " + order + " LIMIT ? OFFSET ?"
	all, err = list(ctx, s.d, s.reads, s.scanSuppression, statement, append(args, q.Limit, q.Skip)...)
	return all, s.failed(err, "list suppressions in")
}

// LastSuppression implements mail.SuppressionStore.
func (s *Store) LastSuppression(ctx context.Context) (int64, error) {
	return s.count(ctx, "read the number of the last suppression in", rawQuery(s.d, "suppression_last"), suppressionFollower)
}

// CountSuppressions implements mail.SuppressionStore.
func (s *Store) CountSuppressions(ctx context.Context) (int64, error) {
	return s.count(ctx, "count suppressions in", "SELECT COUNT(*) FROM suppressions")
}

// SuppressionChanges implements mail.SuppressionStore.
func (s *Store) SuppressionChanges(ctx context.Context, after int64, limit int, f func(*mail.Suppression)) error {
	statement := "SELECT " + suppressionColumns + " FROM suppressions WHERE number > ? ORDER BY number LIMIT ?"
	err := s.each(ctx, statement, []any{after, limit}, func(scan scanner) error {
		var r mail.Suppression
		err := s.scanSuppression(scan, &r)
		if err == nil {
			f(&r)
		}
		return err
	})
	return s.failed(err, "read changes of suppressions after %d from", after)
}

// HeldSuppressions implements mail.SuppressionStore.
func (s *Store) HeldSuppressions(ctx context.Context, after mail.SuppressionKey, limit int, f func(*mail.Suppression)) (n int, err error) {
	statement, args := "SELECT entry, scope, app_id, reason, ends FROM suppressions WHERE removed = 0", []any(nil)
	if after.Entry != "" {
		where, values := behind(s.d, suppressionKey, []any{after.Entry, after.Scope.String(), after.App, after.Reason.String()})
		statement, args = statement+" AND "+where, values
	}
	statement += " ORDER BY " + strings.Join(suppressionKey, ", ") + " LIMIT ?"
	var r mail.Suppression
	var scope, reason sql.RawBytes
	into := []any{&r.Entry, &scope, &r.App, &reason, s.instant(&r.EndMillis)}
	err = s.each(ctx, statement, append(args, limit), func(scan scanner) error {
		err := scan(into...)
		if err == nil {
			err = setWords(&r, string(scope), string(reason))
		}
		if err == nil {
			n++
			f(&r)
		}
		return err
	})
	return n, s.failed(err, "read suppressions from")
}

// setWords sets what is stored as words.
func setWords(r *mail.Suppression, scope, reason string) error {
	var ok, ok2 bool
	r.Scope, ok = mail.ParseScope(scope)
	if r.Reason, ok2 = mail.ParseSuppressReason(reason); !ok || !ok2 {
		return fmt.Errorf("suppression of %s has scope %.32q and reason %.32q, and one of them is none", r.Entry, scope, reason)
	}
	return nil
}
