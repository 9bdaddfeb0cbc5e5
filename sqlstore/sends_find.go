package sqlstore

import (
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

// WaitingKeys implements sluice.SendStore.
func (s *Store) WaitingKeys(ctx context.Context, partition int, after sluice.SendKey, limit int) (list []sluice.SendKey, err error) {
	statement := strings.Replace(rawQuery(s.d, "sends_waiting"), "$COLUMNS", "message, number", 1)
	err = s.each(ctx, statement, []any{partition, after.Message, after.Message, after.Number, limit}, func(scan func(...any) error) error {
		var k sluice.SendKey
		err := scan(&k.Message, &k.Number)
		list = append(list, k)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list sends of partition %d that wait in %s: %w", partition, s.where, err)
	}
	return list, nil
}
