package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice"
)

// SendRows implements sluice.SendStore. Nearly all sends have the number 0: those
// of a number are named in one list.
func (s *Store) SendRows(ctx context.Context, keys []sluice.SendKey) (list []sluice.SendRow, err error) {
	for piece := range slices.Chunk(keys, maxUserRows) {
		messages := make(map[int][]string)
		for _, k := range piece {
			messages[k.Number] = append(messages[k.Number], k.Message)
		}
		for _, number := range slices.Sorted(maps.Keys(messages)) {
			rows, err := s.scanSends(ctx, strings.Replace(rawQuery(s.d, "sends_by_key"), "$NAMES", marks(len(messages[number])), 1), append([]any{number}, anys(messages[number])...))
			if err != nil {
				return nil, fmt.Errorf("read the rows of %d sends in %s: %w", len(keys), s.where, err)
			}
			list = append(list, rows...)
		}
	}
	return list, nil
}

// WaitingSends implements sluice.SendStore.
func (s *Store) WaitingSends(ctx context.Context, partition int, after sluice.SendKey, limit int) ([]sluice.SendRow, error) {
	list, err := s.scanSends(ctx, rawQuery(s.d, "sends_waiting"), []any{partition, after.Message, after.Message, after.Number, limit})
	if err != nil {
		return nil, fmt.Errorf("list sends of partition %d that wait in %s: %w", partition, s.where, err)
	}
	return list, nil
}

// LaneKeys implements sluice.SendStore. Sends in doubt are asked for up to the
// last pending send of the page. So each of those without an attempt to come,
// of which there may be many, is read for one page. A send that comes to be in
// doubt between the two questions is in both answers.
func (s *Store) LaneKeys(ctx context.Context, partition int, after sluice.SendKey, limit int) ([]sluice.LaneKey, error) {
	last := sluice.SendKey{Message: lastKey}
	list, err := s.laneKeys(ctx, "sends_waiting", false, partition, after.Message, after.Message, after.Number, limit)
	if len(list) == limit {
		last = list[limit-1].SendKey
	}
	if err == nil {
		var doubts []sluice.LaneKey
		doubts, err = s.laneKeys(ctx, "sends_again", true, partition, after.Message, after.Message, after.Number, last.Message, last.Message, last.Number, limit)
		list = append(list, doubts...)
	}
	if err != nil {
		return nil, fmt.Errorf("list sends of partition %d that are to be attempted in %s: %w", partition, s.where, err)
	}
	slices.SortStableFunc(list, func(a, b sluice.LaneKey) int {
		return cmp.Or(strings.Compare(a.Message, b.Message), cmp.Compare(a.Number, b.Number))
	})
	list = slices.CompactFunc(list, func(a, b sluice.LaneKey) bool { return a.SendKey == b.SendKey })
	return list[:min(len(list), limit)], nil
}

// lastKey is behind the ids of all messages, which are hexadecimal.
const lastKey = "g"

func (s *Store) laneKeys(ctx context.Context, name string, doubt bool, args ...any) (list []sluice.LaneKey, err error) {
	statement := strings.Replace(rawQuery(s.d, name), "$COLUMNS", "message, number", 1)
	err = s.each(ctx, statement, args, func(scan func(...any) error) error {
		k := sluice.LaneKey{Doubt: doubt}
		err := scan(&k.Message, &k.Number)
		list = append(list, k)
		return err
	})
	return list, err
}

// InDoubt implements sluice.SendStore. Where the index of sends in doubt has
// the partition first, a page is put together of one of each partition. That
// uses the keys, which the index has; then come the rows of the first of them.
func (s *Store) InDoubt(ctx context.Context, afterMessage string, afterNumber, limit int) (list []sluice.SendRow, err error) {
	statement, args := rawQuery(s.d, "sends_in_doubt"), []any{afterMessage, afterMessage, afterNumber, limit}
	if strings.Contains(statement, "$PARTS") {
		var partitions []int
		if partitions, err = s.doubtPartitions(ctx); err == nil && len(partitions) == 0 {
			return nil, nil
		}
		var pages []string
		var all []any
		for _, p := range partitions {
			pages, all = append(pages, rawQuery(s.d, "sends_in_doubt_of")), append(append(all, p), args...)
		}
		statement, args = strings.Replace(statement, "$PARTS", strings.Join(pages, " UNION ALL "), 1), append(all, limit)
	}
	if err == nil {
		list, err = s.scanSends(ctx, statement, args)
	}
	if err != nil {
		return nil, fmt.Errorf("list sends in doubt in %s: %w", s.where, err)
	}
	return list, nil
}

// doubtPartitions are the partitions that have sends in doubt: the server would
// read all of these for a DISTINCT.
func (s *Store) doubtPartitions(ctx context.Context) (list []int, err error) {
	for last, found := -1, true; found && err == nil; {
		found = false
		err = s.each(ctx, rawQuery(s.d, "sends_doubt_part"), []any{last}, func(scan func(...any) error) error {
			found = true
			return scan(&last)
		})
		if found {
			list = append(list, last)
		}
	}
	return list, err
}

// UserSends implements sluice.SendStore.
func (s *Store) UserSends(ctx context.Context, user sluice.UserID, before sluice.SendKey, limit int) ([]sluice.SendRow, error) {
	last := cmp.Or(before.Message, lastKey)
	list, err := s.sendRows(ctx, "sends_by_user", user.Partition, user.Number, last, last, before.Number, limit)
	if err != nil {
		return nil, fmt.Errorf("list sends of user %s in %s: %w", user, s.where, err)
	}
	return list, nil
}

// findUsers finds the users that new rows name: by an external id, or, of a user
// without one, by the internal id (users.NameOf). Users are written before sends, so it
// also finds those that this transaction makes. A name that the ledger does not
// keep as it is finds nobody: the row could not be found again when the user is erased.
func (t *txn) findUsers(ctx context.Context, rows []*ledgerRow) error {
	named := make(map[string][]*ledgerRow)
	for _, r := range rows {
		if r.User != "" && r.User == t.store.d.text(sluice.Clip(r.User, sluice.MaxReferenceBytes)) {
			named[r.User] = append(named[r.User], r)
		}
	}
	if len(named) == 0 {
		return nil
	}
	found := func(name string, id sluice.UserID) {
		for _, r := range named[name] {
			r.UserID = id
		}
		delete(named, name)
	}
	if err := t.eachUser(ctx, "send_users", int(sluice.KeyExternal), anys(slices.Sorted(maps.Keys(named))), found); err != nil {
		return err
	}
	numbers := make(map[int][]any)
	for name := range named {
		if id, ok := sluice.ParseUserID(name); ok {
			numbers[id.Partition] = append(numbers[id.Partition], id.Number)
		}
	}
	for _, part := range slices.Sorted(maps.Keys(numbers)) {
		err := t.eachUser(ctx, "send_users_by_id", part, numbers[part], func(_ string, id sluice.UserID) { found(id.String(), id) })
		if err != nil {
			return err
		}
	}
	return nil
}

// eachUser calls f for each user that a statement finds by one of some names.
func (t *txn) eachUser(ctx context.Context, name string, first int, names []any, f func(name string, id sluice.UserID)) error {
	d := t.store.d
	for piece := range slices.Chunk(names, d.keysAtOnce()) {
		statement := strings.Replace(rawQuery(d, name), "$NAMES", marks(len(piece)), 1)
		rows, err := t.conn.QueryContext(ctx, d.placeholders(statement), append([]any{first}, piece...)...)
		if err == nil {
			err = eachRow(rows, func(scan func(...any) error) error {
				var found string
				var id sluice.UserID
				err := scan(&found, &id.Partition, &id.Number)
				if err == nil {
					f(found, id)
				}
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
