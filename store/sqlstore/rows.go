package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"sluice"
)

// scanner is the Scan of a row.
type scanner = func(...any) error

// rowsQuerier is a connection or a pool of them.
type rowsQuerier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// failed says of an error what was tried, on which database; nil stays nil.
func (s *Store) failed(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", fmt.Sprintf(format, args...), s.where, explained(err))
}

// each calls f for each row of a query.
func (s *Store) each(ctx context.Context, statement string, args []any, f func(scan scanner) error) error {
	return eachOf(ctx, s.d, s.reads, statement, args, f)
}

// each is Store.each in the transaction.
func (t *txn) each(ctx context.Context, statement string, args []any, f func(scan scanner) error) error {
	return eachOf(ctx, t.store.d, t.conn, statement, args, f)
}

func eachOf(ctx context.Context, d dialect, from rowsQuerier, statement string, args []any, f func(scan scanner) error) error {
	rows, err := from.QueryContext(ctx, d.placeholders(statement), args...)
	if err != nil {
		return err
	}
	return eachRow(rows, f)
}

// eachRow calls f for each of some rows.
func eachRow(rows *sql.Rows, f func(scan scanner) error) error {
	defer rows.Close()
	scan := rows.Scan
	for rows.Next() {
		if err := f(scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// list returns what read makes of the rows of a query, in their order.
func list[T any](ctx context.Context, d dialect, from rowsQuerier, read func(scanner, *T) error, statement string, args ...any) (all []T, err error) {
	err = eachOf(ctx, d, from, statement, args, func(scan scanner) error {
		var v T
		err := read(scan, &v)
		all = append(all, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// exists reports whether a query of a number has a row.
func exists(ctx context.Context, from querier, statement string, args ...any) (bool, error) {
	var one int
	err := from.QueryRowContext(ctx, statement, args...).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// cell reads the rows of a query of one column.
func cell[T any](scan scanner, v *T) error { return scan(v) }

// one returns what read makes of the row of a named query; missing: there is none. what
// says in errors what is read.
func one[T any](ctx context.Context, s *Store, read func(scanner, *T) error, missing error, what, name string, args ...any) (v T, err error) {
	err = read(s.reads.QueryRowContext(ctx, query(s.d, name), args...).Scan, &v)
	if err == nil {
		return v, nil
	}
	var none T
	if errors.Is(err, sql.ErrNoRows) {
		return none, missing
	}
	return none, s.failed(err, "read %s in", what)
}

// discard closes a connection for good, instead of giving it back to the pool with a
// transaction open on it, or with settings that others do not want.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

func notFound(format string, args ...any) error {
	return sluice.Refuse(sluice.CodeNotFound, format, args...)
}

func invalid(format string, args ...any) error {
	return sluice.Refuse(sluice.CodeInvalid, format, args...)
}

// count returns the number that a query has found, 0 if there is no row; what says in
// errors what was tried.
func (s *Store) count(ctx context.Context, what, statement string, args ...any) (n int64, err error) {
	err = s.each(ctx, statement, args, func(scan scanner) error { return scan(&n) })
	return n, s.failed(err, "%s", what)
}

// below refuses, unless a named count finds less than most. full says why, with %d for
// the count.
func (t *txn) below(ctx context.Context, most int64, full, name string, args ...any) error {
	var many int64
	err := t.conn.QueryRowContext(ctx, query(t.store.d, name), args...).Scan(&many)
	if err == nil && many >= most {
		err = invalid(full, many)
	}
	return err
}

// execSmall runs one named statement by writeSmall.
func (s *Store) execSmall(ctx context.Context, name string, args ...any) error {
	return s.writeSmall(ctx, func(tx *txn) error { return tx.exec(ctx, name, args...) })
}

// instant scans a time as milliseconds since 1970; NULL is 0.
type instant struct {
	d  dialect
	to *int64
}

// Scan implements sql.Scanner.
func (i instant) Scan(v any) (err error) {
	*i.to = 0
	if v != nil {
		*i.to, err = i.d.scanMillis(v)
	}
	return err
}

func (s *Store) instant(to *int64) instant { return instant{s.d, to} }

// millisOrNull is how a time is bound that is NULL if it is 0.
func (s *Store) millisOrNull(ms int64) any {
	if ms == 0 {
		return nil
	}
	return s.d.millis(ms)
}

// marks are n of SQL's marks for values.
func marks(n int) string { return "?" + strings.Repeat(", ?", n-1) }

// named writes the marks of n values into a statement.
func named(statement string, n int) string { return strings.Replace(statement, "$NAMES", marks(n), 1) }

func anys[T any](values []T) []any {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return args
}

// done is how many rows a transaction has changed: none if it has failed.
func done(changed int, err error) int {
	if err != nil {
		return 0
	}
	return changed
}
