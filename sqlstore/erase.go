package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"sluice"
)

// erasePieceRows is from how many events users are erased at once. They are
// looked for by a read without locks: no index has them by their users.
const erasePieceRows = 2000

// Erasures lists names.
func (s *Store) Erasures(ctx context.Context, after string, fromMillis, toMillis int64, limit int) ([]sluice.Erasure, error) {
	var all []sluice.Erasure
	err := s.each(ctx, rawQuery(s.d, "erasure_list"), []any{after, s.d.millis(fromMillis), s.d.millis(toMillis), limit}, func(scan func(...any) error) error {
		var e sluice.Erasure
		var created any
		err := scan(&e.Name, &created)
		if err == nil {
			e.CreatedMillis, err = s.d.scanMillis(created)
		}
		all = append(all, e)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read who is to be erased in %s: %w", s.where, err)
	}
	return all, nil
}

// foundEvent is an event of somebody who is named.
type foundEvent struct {
	key  sluice.EventKey
	user string
	at   uint64 // when it was accepted, in ms, by Redis
}

// EraseEvents erases a piece.
func (s *Store) EraseEvents(ctx context.Context, names []sluice.Erasure, from sluice.EventKey, toMillis int64) (erased int, next sluice.EventKey, err error) {
	if len(names) == 0 || len(names) > sluice.MaxErasures {
		return 0, from, fmt.Errorf("erase %d users at once: want 1 to %d", len(names), sluice.MaxErasures)
	}
	found, err := s.eventsOf(ctx, names, from, toMillis)
	if err == nil && len(found) > 0 {
		until := make(map[string]int64, len(names))
		for _, n := range names {
			until[n.Name] = n.CreatedMillis + sluice.ErasureMarginMillis
		}
		err = s.write(ctx, func(tx *txn) error {
			for _, f := range found {
				if f.at > uint64(until[f.user]) {
					continue
				}
				if _, err := tx.exec(ctx, "event_erase", s.d.millis(f.key.Millis), f.key.ID); err != nil {
					return err
				}
				erased++
			}
			return nil
		})
	}
	if err != nil {
		return 0, from, fmt.Errorf("erase users from events of %s: %w", s.where, err)
	}
	if len(found) == erasePieceRows {
		return erased, found[len(found)-1].key, nil
	}
	return erased, sluice.EventKey{Millis: toMillis}, nil
}

func (s *Store) eventsOf(ctx context.Context, names []sluice.Erasure, from sluice.EventKey, toMillis int64) (found []foundEvent, err error) {
	args := []any{s.d.millis(from.Millis), s.d.millis(toMillis), s.d.millis(from.Millis), from.ID}
	for _, n := range names {
		args = append(args, n.Name)
	}
	statement := strings.Replace(rawQuery(s.d, "erasure_events"), "$NAMES", marks(len(names)), 1)
	err = s.each(ctx, statement, append(args, erasePieceRows), func(scan func(...any) error) error {
		var f foundEvent
		var at any
		err := scan(&at, &f.key.ID, &f.user, (*number)(&f.at))
		if err == nil {
			f.key.Millis, err = s.d.scanMillis(at)
		}
		found = append(found, f)
		return err
	})
	return found, err
}

// Erased removes names.
func (s *Store) Erased(ctx context.Context, names []sluice.Erasure, beforeMillis int64) error {
	err := s.write(ctx, func(tx *txn) error {
		for _, n := range names {
			if _, err := tx.exec(ctx, "erasure_done", n.Name, s.d.millis(beforeMillis)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove who has been erased in %s: %w", s.where, err)
	}
	return nil
}
