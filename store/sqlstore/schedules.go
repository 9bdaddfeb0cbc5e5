package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"sluice"
)

var _ sluice.ScheduleStore = (*Store)(nil)

// AddSchedule implements sluice.ScheduleStore. They are counted beside the
// transaction, so that nothing waits for the count: the bound is a rough one.
func (s *Store) AddSchedule(ctx context.Context, c sluice.Schedule) error {
	var n int
	err := s.reads.QueryRowContext(ctx, query(s.d, "schedule_count"), string(sluice.ScheduleWaiting)).Scan(&n)
	if err == nil && n >= sluice.MaxSchedules {
		return &sluice.Error{Code: sluice.CodeInvalid, Index: -1, Message: fmt.Sprintf("%d schedules wait, and no more are possible; delete some that are not needed, or schedule this one later", n)}
	}
	if err == nil {
		err = s.writeSmall(ctx, func(tx *txn) error {
			_, err := tx.exec(ctx, "schedule_add", c.ID, string(c.State), c.Revision, s.d.millis(c.DueMillis), c.Request, s.d.millis(c.CreatedMillis), s.d.millis(c.UpdatedMillis))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("add schedule %s in %s: %w", c.ID, s.where, err)
	}
	return nil
}

// ChangeSchedule implements sluice.ScheduleStore.
func (s *Store) ChangeSchedule(ctx context.Context, c sluice.Schedule) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		result, err := tx.exec(ctx, "schedule_put", string(c.State), c.Revision+1, s.d.millis(c.DueMillis), c.Request, s.d.millis(c.UpdatedMillis), c.ID, c.Revision)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 1 {
			return err
		}
		return sluice.ErrConflict
	})
	if err != nil {
		return fmt.Errorf("write schedule %s in %s: %w", c.ID, s.where, err)
	}
	return nil
}

// Schedule implements sluice.ScheduleStore.
func (s *Store) Schedule(ctx context.Context, id string) (sluice.Schedule, error) {
	c, err := s.scanSchedule(s.reads.QueryRowContext(ctx, query(s.d, "schedule_get"), id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return c, &sluice.Error{Code: sluice.CodeNotFound, Index: -1, Message: fmt.Sprintf("there is no schedule %.64q", id)}
	}
	if err != nil {
		return c, fmt.Errorf("read schedule %s in %s: %w", id, s.where, err)
	}
	return c, nil
}

// Schedules implements sluice.ScheduleStore.
func (s *Store) Schedules(ctx context.Context, state sluice.ScheduleState, beforeMillis int64, limit int) ([]sluice.Schedule, error) {
	var all []sluice.Schedule
	err := s.each(ctx, rawQuery(s.d, "schedule_list"), []any{string(state), s.d.millis(beforeMillis), limit}, func(scan func(...any) error) error {
		c, err := s.scanSchedule(scan)
		all = append(all, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list schedules in %s: %w", s.where, err)
	}
	return all, nil
}

// DropSchedules implements sluice.ScheduleStore.
func (s *Store) DropSchedules(ctx context.Context, ids []string) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		for _, id := range ids {
			if _, err := tx.exec(ctx, "schedule_drop", id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("drop %d schedules in %s: %w", len(ids), s.where, err)
	}
	return nil
}

func (s *Store) scanSchedule(scan func(...any) error) (c sluice.Schedule, err error) {
	var due, created, updated any
	if err = scan(&c.ID, &c.State, &c.Revision, &due, &c.Request, &created, &updated); err != nil {
		return sluice.Schedule{}, err
	}
	if c.DueMillis, err = s.d.scanMillis(due); err == nil {
		c.CreatedMillis, err = s.d.scanMillis(created)
	}
	if err == nil {
		c.UpdatedMillis, err = s.d.scanMillis(updated)
	}
	return c, err
}
