package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice"
	"sluice/user"
)

// Bounds of one statement about users.
const (
	maxUserRows     = 500
	maxUserKeys     = 1000
	maxUserRowBytes = 4 << 20 // of profiles or of items; below every server's packet

	maxSmallRows  = 4000 // of small rows
	maxSmallBytes = 1 << 20
	maxParameters = 65_535 // that PostgreSQL takes in a statement
	maxNames      = 5000   // of keys that are looked up for small rows
)

// applyUsers writes what an effect does to users. Rows go in the order of their
// keys, so that two transactions never wait for each other in a circle. What is
// dropped goes first: a key may have a new owner in the same effect.
func (t *txn) applyUsers(ctx context.Context, u *user.Changes) error {
	if u == nil {
		return nil
	}
	for _, step := range []func(context.Context, *user.Changes) error{
		t.lockUsers, t.dropUsers, t.putUsers, t.addUserKeys, t.addAddresses, t.putUserNumbers, t.putForwards, t.putErasures,
	} {
		if err := step(ctx, u); err != nil {
			return fmt.Errorf("write users: %w", err)
		}
	}
	return nil
}

// lockUsers makes sure that users that others are merged into are still there when this
// commits. They are of other partitions, whose writers change them meanwhile in the order
// of their ids. So a transaction that holds some of them, or begins with users that it
// drops, first locks all that it changes, in that order. Two merges in opposite directions
// wait for each other and never in a circle.
func (t *txn) lockUsers(ctx context.Context, u *user.Changes) error {
	if len(u.Stay)+len(u.Drop) == 0 {
		return nil
	}
	ids := slices.Concat(u.Stay, u.Drop)
	for i := range u.Put {
		ids = append(ids, u.Put[i].ID)
	}
	slices.SortFunc(ids, user.ID.Compare)
	numbers := make(map[int][]any)
	for _, id := range slices.Compact(ids) {
		numbers[id.Partition] = append(numbers[id.Partition], id.Number)
	}
	merged := make(map[user.ID]bool, len(ids)) // of those that are there
	for _, p := range slices.Sorted(maps.Keys(numbers)) {
		for piece := range slices.Chunk(numbers[p], t.store.d.keysAtOnce()) {
			err := t.each(ctx, named(rawQuery(t.store.d, "users_lock"), len(piece)), t.store.d.userArgs(p, piece...), func(scan scanner) error {
				id, to := user.ID{Partition: p}, int64(0)
				err := scan(&id.Number, &to)
				merged[id] = to != 0
				return err
			})
			if err != nil {
				return fmt.Errorf("users_lock: %w", err)
			}
		}
	}
	for _, id := range u.Stay {
		if gone, there := merged[id]; gone || !there {
			return fmt.Errorf("user %s is gone or merged: %w", id, sluice.ErrConflict)
		}
	}
	return nil
}

// rows runs a statement with rows of so many values; args has them all.
func (t *txn) rows(ctx context.Context, name string, columns int, args []any) (int64, error) {
	changed, err := t.store.d.insertRows(ctx, t, rawQuery(t.store.d, name), columns, args)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return changed, nil
}

func (plainSQL) insertRows(ctx context.Context, t *txn, statement string, columns int, args []any) (changed int64, err error) {
	for len(args) > 0 {
		piece := args[:columns*rowsAtOnce(args, columns)]
		args = args[len(piece):]
		result, err := t.conn.ExecContext(ctx, t.store.d.placeholders(withRows(statement, columns, len(piece)/columns)), piece...)
		if err != nil {
			return 0, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return 0, err
		}
		changed += n
	}
	return changed, nil
}

// rowsAtOnce is how many of the rows go by one statement: maxUserRows, and more of small
// ones. Each statement is a round trip, and some are made under locks that all wait for.
func rowsAtOnce(args []any, columns int) (rows int) {
	bytes := 0
	for most := min(len(args)/columns, maxSmallRows, maxParameters/columns); rows < most; rows++ {
		for _, a := range args[columns*rows : columns*(rows+1)] {
			switch a := a.(type) {
			case string:
				bytes += len(a)
			case []byte:
				bytes += len(a)
			}
		}
		if rows >= maxUserRows && bytes > maxSmallBytes {
			break
		}
	}
	return rows
}

// withRows writes the marks of n rows into a statement.
func withRows(statement string, columns, n int) string {
	row := "(?" + strings.Repeat(", ?", columns-1) + ")"
	return strings.Replace(statement, "$ROWS", row+strings.Repeat(", "+row, n-1), 1)
}

// inOrder returns rows in an order: themselves, if they are in it.
func inOrder[T any](rows []T, compare func(a, b T) int) []T {
	if slices.IsSortedFunc(rows, compare) {
		return rows
	}
	rows = slices.Clone(rows)
	slices.SortFunc(rows, compare)
	return rows
}

func keyArgs(rows []user.KeyRow) []any {
	sorted := inOrder(rows, func(a, b user.KeyRow) int {
		if c := strings.Compare(a.Key.Name, b.Key.Name); c != 0 && a.Key.Kind == b.Key.Kind {
			return c // nearly always
		}
		return cmp.Or(cmp.Compare(a.Key.Kind, b.Key.Kind), strings.Compare(a.Key.Name, b.Key.Name), a.ID.Compare(b.ID))
	})
	args := make([]any, 0, 4*len(rows))
	for _, r := range sorted {
		args = append(args, int(r.Key.Kind), r.Key.Name, r.ID.Partition, r.ID.Number)
	}
	return args
}

func (t *txn) putUsers(ctx context.Context, u *user.Changes) error {
	sorted := inOrder(u.Put, func(a, b user.Row) int { return a.ID.Compare(b.ID) })
	for from := 0; from < len(sorted); {
		to, bytes := from, 0
		for to < len(sorted) && (to == from || bytes+len(sorted[to].Profile) <= maxUserRowBytes) {
			bytes += len(sorted[to].Profile)
			to++
		}
		if err := t.store.d.putUsers(ctx, t, sorted[from:to]); err != nil {
			return fmt.Errorf("user_put: %w", err)
		}
		from = to
	}
	return nil
}

func (plainSQL) putUsers(ctx context.Context, t *txn, rows []user.Row) error {
	args := make([]any, 0, 6*len(rows))
	for i := range rows {
		r := &rows[i]
		args = append(args, r.ID.Partition, r.ID.Number, t.store.d.millis(r.UpdatedMillis), r.MergedInto.Partition, r.MergedInto.Number, r.Profile)
	}
	_, err := t.store.d.insertRows(ctx, t, rawQuery(t.store.d, "user_put"), 6, args)
	return err
}

// addUserKeys refuses the whole transaction if another user has taken one of
// the keys since they were looked up.
func (t *txn) addUserKeys(ctx context.Context, u *user.Changes) error {
	if _, err := t.rows(ctx, "user_key_move", 4, keyArgs(u.MoveKeys)); err != nil {
		return err
	}
	added, err := t.rows(ctx, "user_key_add", 4, keyArgs(u.AddKeys))
	if err != nil {
		return err
	}
	if added != int64(len(u.AddKeys)) {
		return fmt.Errorf("%d of %d new keys have an owner already: %w", int64(len(u.AddKeys))-added, len(u.AddKeys), sluice.ErrConflict)
	}
	return nil
}

func (t *txn) addAddresses(ctx context.Context, u *user.Changes) error {
	_, err := t.rows(ctx, "user_address_add", 4, keyArgs(u.AddAddress))
	return err
}

// putUserNumbers notes the last numbers that were given. They only rise, whatever was read.
func (t *txn) putUserNumbers(ctx context.Context, u *user.Changes) error {
	var args []any
	for _, p := range slices.Sorted(maps.Keys(u.Numbers)) {
		args = append(args, p, u.Numbers[p].User, u.Numbers[p].Forward)
	}
	_, err := t.rows(ctx, "user_numbers_put", 3, args)
	return err
}

func (t *txn) putForwards(ctx context.Context, u *user.Changes) error {
	for _, f := range u.Forward {
		if err := t.exec(ctx, "forward_add", f.From, f.ID, f.To, f.Items); err != nil {
			return fmt.Errorf("forward_add: %w", err)
		}
	}
	return nil
}

func (t *txn) putErasures(ctx context.Context, u *user.Changes) error {
	var args []any
	for _, name := range slices.Compact(slices.Sorted(slices.Values(u.Erase))) {
		args = append(args, name, t.store.now())
	}
	_, err := t.rows(ctx, "user_erase", 2, args)
	return err
}

func (t *txn) dropUsers(ctx context.Context, u *user.Changes) error {
	for _, id := range slices.SortedFunc(slices.Values(u.Drop), user.ID.Compare) {
		if err := t.exec(ctx, "user_drop", t.store.d.userArgs(id.Partition, id.Number)...); err != nil {
			return fmt.Errorf("user_drop: %w", err)
		}
	}
	for query, rows := range map[string][]user.KeyRow{"user_key_drop": u.DropKeys, "user_address_drop": u.DropAddress} {
		for args := range slices.Chunk(keyArgs(rows), 4) {
			if err := t.exec(ctx, query, args...); err != nil {
				return fmt.Errorf("%s: %w", query, err)
			}
		}
	}
	return nil
}
