package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice"
	"sluice/mail"
	"sluice/user"
)

// SendRows implements mail.SendStore. Nearly all sends have the number 0: those
// of a number are named in one list.
func (s *Store) SendRows(ctx context.Context, keys []mail.SendKey) (list []mail.SendRow, err error) {
	for piece := range slices.Chunk(keys, maxUserRows) {
		messages := byNumber(piece)
		for _, number := range slices.Sorted(maps.Keys(messages)) {
			rows, err := s.scanSends(ctx, named(rawQuery(s.d, "sends_by_key"), len(messages[number])), append([]any{number}, anys(messages[number])...))
			if err != nil {
				return nil, s.failed(err, "read the rows of %d sends in", len(keys))
			}
			list = append(list, rows...)
		}
	}
	return list, nil
}

// WaitingSends implements mail.SendStore.
func (s *Store) WaitingSends(ctx context.Context, partition int, after mail.SendKey, limit int) ([]mail.SendRow, error) {
	list, err := s.scanSends(ctx, rawQuery(s.d, "sends_waiting"), []any{partition, after.Message, after.Message, after.Number, limit})
	return list, s.failed(err, "list sends of partition %d that wait in", partition)
}

// LaneKeys implements mail.SendStore. Sends in doubt are asked for up to the
// last pending send of the page. So each of those without an attempt to come,
// of which there may be many, is read for one page. A send that comes to be in
// doubt between the two questions is in both answers.
func (s *Store) LaneKeys(ctx context.Context, partition int, after mail.SendKey, limit int) ([]mail.LaneKey, error) {
	last := mail.SendKey{Message: lastKey}
	list, err := s.laneKeys(ctx, "sends_waiting", false, partition, after.Message, after.Message, after.Number, limit)
	if len(list) == limit {
		last = list[limit-1].SendKey
	}
	if err == nil {
		var doubts []mail.LaneKey
		doubts, err = s.laneKeys(ctx, "sends_again", true, partition, after.Message, after.Message, after.Number, last.Message, last.Message, last.Number, limit)
		list = append(list, doubts...)
	}
	if err != nil {
		return nil, s.failed(err, "list sends of partition %d that are to be attempted in", partition)
	}
	slices.SortStableFunc(list, func(a, b mail.LaneKey) int { return a.SendKey.Compare(b.SendKey) })
	list = slices.CompactFunc(list, func(a, b mail.LaneKey) bool { return a.SendKey == b.SendKey })
	return list[:min(len(list), limit)], nil
}

// lastKey is behind the ids of all messages, which are hexadecimal.
const lastKey = "g"

func (s *Store) laneKeys(ctx context.Context, name string, doubt bool, args ...any) ([]mail.LaneKey, error) {
	return list(ctx, s.d, s.reads, func(scan scanner, k *mail.LaneKey) error {
		k.Doubt = doubt
		return scan(&k.Message, &k.Number)
	}, strings.Replace(rawQuery(s.d, name), "$COLUMNS", "message, number", 1), args...)
}

// InDoubt implements mail.SendStore. Where the index of sends in doubt has
// the partition first, a page is put together of one of each partition. That
// uses the keys, which the index has; then come the rows of the first of them.
func (s *Store) InDoubt(ctx context.Context, afterMessage string, afterNumber, limit int) (list []mail.SendRow, err error) {
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
	return list, s.failed(err, "list sends in doubt in")
}

// doubtPartitions are the partitions that have sends in doubt: the server would
// read all of these for a DISTINCT.
func (s *Store) doubtPartitions(ctx context.Context) (list []int, err error) {
	for last, found := -1, true; found && err == nil; {
		found = false
		err = s.each(ctx, rawQuery(s.d, "sends_doubt_part"), []any{last}, func(scan scanner) error {
			found = true
			return scan(&last)
		})
		if found {
			list = append(list, last)
		}
	}
	return list, err
}

// UserSends implements mail.SendStore.
func (s *Store) UserSends(ctx context.Context, user user.ID, before mail.SendKey, limit int) ([]mail.SendRow, error) {
	last := cmp.Or(before.Message, lastKey)
	list, err := s.sendRows(ctx, "sends_by_user", user.Partition, user.Number, last, last, before.Number, limit)
	return list, s.failed(err, "list sends of user %s in", user)
}

// NewestSends implements mail.SendStore.
func (s *Store) NewestSends(ctx context.Context, before mail.SendPlace, limit int) ([]mail.SendRow, error) {
	if before == (mail.SendPlace{}) {
		before = mail.SendPlace{AcceptedMillis: sluice.MaxEventTimeMillis, SendKey: mail.SendKey{Message: lastKey}}
	}
	at := s.d.millis(before.AcceptedMillis)
	list, err := s.sendRows(ctx, "sends_newest", at, at, before.Message, before.Message, before.Number, limit)
	return list, s.failed(err, "list the newest sends in")
}

// findUsers finds the users that new rows name: by an external id, or, of a user
// without one, by the internal id (users.NameOf). Users are written before sends, so it
// also finds those that this transaction makes. A name that the ledger does not
// keep as it is finds nobody: the row could not be found again when the user is erased.
func (t *txn) findUsers(ctx context.Context, rows []*ledgerRow) error {
	byName := make(map[string][]*ledgerRow)
	for _, r := range rows {
		if r.User != "" && r.User == t.store.d.text(mail.Clip(r.User, sluice.MaxReferenceBytes)) {
			byName[r.User] = append(byName[r.User], r)
		}
	}
	if len(byName) == 0 {
		return nil
	}
	found := func(name string, id user.ID) {
		for _, r := range byName[name] {
			r.UserID = id
		}
		delete(byName, name)
	}
	byKey := func(names ...any) []any { return slices.Concat([]any{int(user.KeyExternal)}, names) }
	if err := t.eachUser(ctx, "send_users", anys(slices.Sorted(maps.Keys(byName))), byKey, found); err != nil {
		return err
	}
	numbers := make(map[int][]any)
	for name := range byName {
		if id, ok := user.ParseID(name); ok {
			numbers[id.Partition] = append(numbers[id.Partition], id.Number)
		}
	}
	for _, part := range slices.Sorted(maps.Keys(numbers)) {
		byNumber := func(numbers ...any) []any { return t.store.d.userArgs(part, numbers...) }
		err := t.eachUser(ctx, "send_users_by_id", numbers[part], byNumber, func(_ string, id user.ID) { found(id.String(), id) })
		if err != nil {
			return err
		}
	}
	return nil
}

// eachUser calls f for each user that a statement finds by one of some names; args are
// its values for a piece of them.
func (t *txn) eachUser(ctx context.Context, name string, names []any, args func(...any) []any, f func(name string, id user.ID)) error {
	for piece := range slices.Chunk(names, t.store.d.keysAtOnce()) {
		err := t.each(ctx, named(rawQuery(t.store.d, name), len(piece)), args(piece...), func(scan scanner) error {
			var found string
			var id user.ID
			err := scan(&found, &id.Partition, &id.Number)
			if err == nil {
				f(found, id)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
