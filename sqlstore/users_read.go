package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice"
)

var _ sluice.UserStore = (*Store)(nil)

// Users implements sluice.UserStore. It is several statements, each of up to
// maxUserKeys keys: what one user is does not fall apart, since a key brings
// its user in the same statement.
func (s *Store) Users(ctx context.Context, q sluice.UserQuery) (sluice.UserAnswer, error) {
	a := sluice.UserAnswer{ByKey: make(map[sluice.UserKey][]sluice.UserID), Users: make(map[sluice.UserID]sluice.UserRow), Numbers: make(map[int]sluice.UserNumbers)}
	if n := len(q.Keys) + len(q.IDs); n > sluice.MaxUserQuery {
		return a, fmt.Errorf("read users from %s: %d keys and ids at once, at most %d", s.where, n, sluice.MaxUserQuery)
	}
	for _, read := range []func(context.Context, *sluice.UserQuery, *sluice.UserAnswer) error{s.usersByKey, s.usersByID, s.userNumbers} {
		if err := read(ctx, &q, &a); err != nil {
			return a, fmt.Errorf("read users from %s: %w", s.where, err)
		}
	}
	return a, nil
}

func (s *Store) usersByKey(ctx context.Context, q *sluice.UserQuery, a *sluice.UserAnswer) error {
	names := make(map[sluice.UserKeyKind][]any)
	for _, k := range q.Keys {
		names[k.Kind] = append(names[k.Kind], k.Name)
	}
	for _, kind := range slices.Sorted(maps.Keys(names)) {
		table := "user_keys"
		switch kind {
		case sluice.KeyExternal, sluice.KeyAlias:
		case sluice.KeyEmail, sluice.KeyPhone:
			table = "user_addresses"
		default:
			return fmt.Errorf("keys of kind %d are not looked up", kind)
		}
		// In the order of the index, pages are read once.
		slices.SortFunc(names[kind], func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		statement := strings.Replace(rawQuery(s.d, "user_by_key"), "$TABLE", table, 1)
		most := s.d.keysAtOnce()
		for piece := range slices.Chunk(names[kind], most) {
			n := len(piece)
			if most < maxUserKeys && n > 1 { // few statements, which stay prepared
				n = most
			}
			args := append(make([]any, 0, n+1), int(kind))
			for args = append(args, piece...); len(args) <= n; {
				args = append(args, piece[0])
			}
			rows, err := s.fixed(ctx, strings.Replace(statement, "$NAMES", marks(n), 1), args)
			if err == nil {
				err = s.scanUsers(rows, func(name string, u sluice.UserRow) {
					key := sluice.UserKey{Kind: kind, Name: name}
					a.ByKey[key] = append(a.ByKey[key], u.ID)
					if u.Profile != "" || !u.MergedInto.IsZero() {
						a.Users[u.ID] = u
					}
				})
			}
			if err != nil {
				return err
			}
		}
	}
	for _, ids := range a.ByKey {
		slices.SortFunc(ids, compareIDs)
	}
	return nil
}

func (s *Store) usersByID(ctx context.Context, q *sluice.UserQuery, a *sluice.UserAnswer) error {
	numbers := make(map[int][]any)
	for _, id := range q.IDs {
		numbers[id.Partition] = append(numbers[id.Partition], id.Number)
	}
	for _, p := range slices.Sorted(maps.Keys(numbers)) {
		for piece := range slices.Chunk(numbers[p], maxUserKeys) {
			statement := strings.Replace(rawQuery(s.d, "user_by_id"), "$NUMBERS", marks(len(piece)), 1)
			if err := s.userRows(ctx, statement, append([]any{p}, piece...), func(_ string, u sluice.UserRow) { a.Users[u.ID] = u }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) userNumbers(ctx context.Context, q *sluice.UserQuery, a *sluice.UserAnswer) error {
	if len(q.Numbers) == 0 {
		return nil
	}
	args := make([]any, len(q.Numbers))
	for i, p := range q.Numbers {
		args[i] = p
		a.Numbers[p] = sluice.UserNumbers{} // it has given none yet
	}
	return s.each(ctx, strings.Replace(rawQuery(s.d, "user_numbers"), "$PARTS", marks(len(args)), 1), args, func(scan func(...any) error) error {
		var p int
		var n sluice.UserNumbers
		err := scan(&p, &n.User, &n.Forward)
		a.Numbers[p] = n
		return err
	})
}

// UserPage implements sluice.UserStore.
func (s *Store) UserPage(ctx context.Context, partition int, after int64, limit int) ([]sluice.UserRow, error) {
	var all []sluice.UserRow
	err := s.userRows(ctx, rawQuery(s.d, "user_page"), []any{partition, after, limit}, func(_ string, u sluice.UserRow) { all = append(all, u) })
	if err != nil {
		return nil, fmt.Errorf("read users of partition %d after %d from %s: %w", partition, after, s.where, err)
	}
	return all, nil
}

// EachProfile implements sluice.UserStore.
func (s *Store) EachProfile(ctx context.Context, partition int, after int64, limit int, f func(number int64, profile string) bool) error {
	if err := s.eachProfile(ctx, partition, after, limit, f); err != nil {
		return fmt.Errorf("read profiles of partition %d after %d from %s: %w", partition, after, s.where, err)
	}
	return nil
}

func (s *Store) eachProfile(ctx context.Context, partition int, after int64, limit int, f func(number int64, profile string) bool) error {
	rows, err := s.reads.QueryContext(ctx, query(s.d, "user_profiles"), partition, after, limit)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var number int64
		var text string
		if err := rows.Scan(&number, &text); err != nil {
			return err
		}
		if !f(number, text) {
			return nil
		}
	}
	return rows.Err()
}

// Forwards implements sluice.UserStore.
func (s *Store) Forwards(ctx context.Context, from, limit int) ([]sluice.Forward, error) {
	var all []sluice.Forward
	err := s.each(ctx, rawQuery(s.d, "forward_list"), []any{from, limit}, func(scan func(...any) error) error {
		f := sluice.Forward{From: from}
		err := scan(&f.ID, &f.To, &f.Items)
		all = append(all, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what is on its way from partition %d in %s: %w", from, s.where, err)
	}
	return all, nil
}

// Forwarded implements sluice.UserStore.
func (s *Store) Forwarded(ctx context.Context, from, to int, id int64) error {
	err := s.write(ctx, func(tx *txn) error {
		_, err := tx.exec(ctx, "forward_done", from, to, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("remove what has arrived from partition %d in %d in %s: %w", from, to, s.where, err)
	}
	return nil
}

// userRows reads users. The first column is the key that each was found by.
func (s *Store) userRows(ctx context.Context, statement string, args []any, f func(key string, u sluice.UserRow)) error {
	rows, err := s.reads.QueryContext(ctx, s.d.placeholders(statement), args...)
	if err != nil {
		return err
	}
	return s.scanUsers(rows, f)
}

func (s *Store) scanUsers(rows *sql.Rows, f func(key string, u sluice.UserRow)) error {
	return eachRow(rows, func(scan func(...any) error) error {
		var key string
		var u sluice.UserRow
		var updated any
		var text sql.NullString
		var to [2]sql.NullInt64
		err := scan(&key, &u.ID.Partition, &u.ID.Number, &updated, &to[0], &to[1], &text)
		if err != nil {
			return err
		}
		if updated == nil { // a key of somebody who is no more
			f(key, u)
			return nil
		}
		u.MergedInto, u.Profile = sluice.UserID{Partition: int(to[0].Int64), Number: to[1].Int64}, text.String
		if u.UpdatedMillis, err = s.d.scanMillis(updated); err != nil {
			return err
		}
		f(key, u)
		return nil
	})
}

// sqliteKeysAtOnce is small, so that two statements do: parsing one costs SQLite
// as much as finding its users.
const sqliteKeysAtOnce = 100

func (plainSQL) keysAtOnce() int           { return maxUserKeys }
func (d *postgresDialect) keysAtOnce() int { return maxUserKeys }
func (d *sqliteDialect) keysAtOnce() int   { return sqliteKeysAtOnce }

// maxPrepared bounds the statements that stay prepared.
const maxPrepared = 16

// fixed runs a statement of which there are few. Where so few keys go into one
// that there are, it stays prepared.
func (s *Store) fixed(ctx context.Context, statement string, args []any) (*sql.Rows, error) {
	if s.d.keysAtOnce() == maxUserKeys {
		return s.reads.QueryContext(ctx, s.d.placeholders(statement), args...)
	}
	s.prepared.Lock()
	p := s.prepared.statements[statement]
	if p == nil {
		if len(s.prepared.statements) >= maxPrepared {
			s.prepared.Unlock()
			return s.reads.QueryContext(ctx, statement, args...)
		}
		var err error
		if p, err = s.reads.PrepareContext(ctx, statement); err != nil {
			s.prepared.Unlock()
			return nil, err
		}
		if s.prepared.statements == nil {
			s.prepared.statements = make(map[string]*sql.Stmt)
		}
		s.prepared.statements[statement] = p
	}
	s.prepared.Unlock()
	return p.QueryContext(ctx, args...)
}

// each calls f for each row of a query.
func (s *Store) each(ctx context.Context, statement string, args []any, f func(scan func(...any) error) error) error {
	rows, err := s.reads.QueryContext(ctx, s.d.placeholders(statement), args...)
	if err != nil {
		return err
	}
	return eachRow(rows, f)
}

// eachRow calls f for each of some rows.
func eachRow(rows *sql.Rows, f func(scan func(...any) error) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// marks are n of SQL's marks for values.
func marks(n int) string { return "?" + strings.Repeat(", ?", n-1) }
