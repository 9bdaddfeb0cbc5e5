package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"sluice/journey"
	"sluice/store"
)

// contextKey names a row of journey_context.
type contextKey struct {
	part            int
	number, journey int64
}

// keepContexts writes what is kept of contexts. Of one person and journey only the last
// counts, and all rows go in the order of the key.
func (t *txn) keepContexts(ctx context.Context, all []journey.Kept) error {
	if len(all) == 0 {
		return nil
	}
	put := make(map[contextKey]journey.Kept)
	type group struct {
		part           int
		journey, ended int64
	}
	ended := make(map[contextKey]int64) // of rows that were written before
	for _, k := range all {
		key := contextKey{k.Partition, k.Number, k.Journey}
		if have, ok := put[key]; ok && k.EndedMillis != 0 {
			have.EndedMillis = k.EndedMillis
			put[key] = have
		} else if k.EndedMillis != 0 {
			ended[key] = k.EndedMillis
		} else {
			put[key] = k
			delete(ended, key)
		}
	}
	compare := func(a, b contextKey) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.number, b.number), cmp.Compare(a.journey, b.journey))
	}
	const columns = 7
	var args []any
	for _, key := range slices.SortedFunc(maps.Keys(put), compare) {
		k := put[key]
		args = append(args, key.part, key.number, key.journey, int64(k.Entered), int64(k.Occurrence), t.store.d.text(k.Body), t.store.millisOrNull(k.EndedMillis))
	}
	if len(args) > 0 {
		if _, err := t.rows(ctx, "context_put", columns, args); err != nil {
			return fmt.Errorf("keep contexts of journeys: %w", err)
		}
	}
	var order []group
	left := make(map[group][]any)
	for _, key := range slices.SortedFunc(maps.Keys(ended), compare) {
		g := group{key.part, key.journey, ended[key]}
		if left[g] == nil {
			order = append(order, g)
		}
		left[g] = append(left[g], key.number)
	}
	for _, g := range order {
		for piece := range slices.Chunk(left[g], t.store.d.keysAtOnce()) {
			statement := t.store.d.placeholders(named(rawQuery(t.store.d, "context_end"), len(piece)))
			if _, err := t.changes(ctx, statement, append([]any{t.store.d.millis(g.ended), g.part, g.journey}, piece...)...); err != nil {
				return fmt.Errorf("end contexts of journeys: %w", err)
			}
		}
	}
	return nil
}

// Contexts implements store.JourneyStore.
func (s *Store) Contexts(ctx context.Context, partition int, of int64, numbers []int64) (all []journey.Kept, err error) {
	for piece := range slices.Chunk(numbers, s.d.keysAtOnce()) {
		some, err := list(ctx, s.d, s.reads, func(scan scanner, k *journey.Kept) error {
			k.Partition, k.Journey = partition, of
			return scan(&k.Number, &k.Entered, &k.Occurrence, &k.Body, s.instant(&k.EndedMillis))
		}, named(rawQuery(s.d, "contexts"), len(piece)), append([]any{partition, of}, anys(piece)...)...)
		if err != nil {
			return nil, s.failed(err, "read what people of partition %d entered a journey with from", partition)
		}
		all = append(all, some...)
	}
	return all, nil
}

// DeleteContexts implements store.RetentionStore.
func (s *Store) DeleteContexts(ctx context.Context, beforeMillis int64) (deleted int, more bool, err error) {
	beforeMillis, more, err = s.upTo(ctx, beforeMillis, "contexts_nth", s.d.millis(beforeMillis), retentionPieceRows-1)
	if err == nil {
		deleted, err = s.changed(ctx, "contexts_delete", s.d.millis(beforeMillis))
	}
	return done(deleted, err), more && err == nil, s.failed(err, "delete contexts of people who have left journeys from")
}

// eraseContexts deletes what some people of a partition entered journeys with.
func (t *txn) eraseContexts(ctx context.Context, part int, numbers []any) (erased int, err error) {
	for piece := range slices.Chunk(numbers, t.store.d.keysAtOnce()) {
		n, err := t.changes(ctx, t.store.d.placeholders(named(rawQuery(t.store.d, "contexts_erase"), len(piece))), append([]any{part}, piece...)...)
		if err != nil {
			return 0, err
		}
		erased += n
	}
	return erased, nil
}

var _ store.JourneyStore = (*Store)(nil)
