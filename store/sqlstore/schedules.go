package sqlstore

import (
	"context"
	"errors"

	"sluice/mail"
)

var _ mail.ScheduleStore = (*Store)(nil)

// AddSchedule implements mail.ScheduleStore. They are counted beside the
// transaction, so that nothing waits for the count: the bound is a rough one.
func (s *Store) AddSchedule(ctx context.Context, c mail.Schedule) error {
	n, err := s.CountSchedules(ctx, mail.ScheduleWaiting)
	if err != nil {
		return err
	}
	if n >= mail.MaxSchedules {
		return invalid("%d schedules wait, and no more are possible; delete some that are not needed, or schedule this one later", n)
	}
	err = s.execSmall(ctx, "schedule_add", c.ID, string(c.State), c.Revision, s.d.millis(c.DueMillis), c.Request, s.d.millis(c.CreatedMillis), s.d.millis(c.UpdatedMillis))
	return s.failed(err, "add schedule %s in", c.ID)
}

// CountSchedules implements mail.ScheduleStore.
func (s *Store) CountSchedules(ctx context.Context, state mail.ScheduleState) (n int64, err error) {
	err = s.reads.QueryRowContext(ctx, query(s.d, "schedule_count"), string(state)).Scan(&n)
	return n, s.failed(err, "count schedules in")
}

// ChangeSchedule implements mail.ScheduleStore.
func (s *Store) ChangeSchedule(ctx context.Context, c mail.Schedule) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		return tx.oneChanged(ctx, "schedule_put", string(c.State), c.Revision+1, s.d.millis(c.DueMillis), c.Request, s.d.millis(c.UpdatedMillis), c.ID, c.Revision)
	})
	return s.failed(err, "write schedule %s in", c.ID)
}

// Schedule implements mail.ScheduleStore.
func (s *Store) Schedule(ctx context.Context, id string) (mail.Schedule, error) {
	return one(ctx, s, s.scanSchedule, notFound("there is no schedule %.64q", id), "schedule "+id, "schedule_get", id)
}

// Schedules implements mail.ScheduleStore.
func (s *Store) Schedules(ctx context.Context, state mail.ScheduleState, after mail.SchedulePlace, beforeMillis int64, limit int) (all []mail.Schedule, err error) {
	err = s.EachSchedule(ctx, state, after, beforeMillis, limit, func(c *mail.Schedule) bool {
		all = append(all, *c)
		return true
	})
	return all, err
}

// EachSchedule implements mail.ScheduleStore.
func (s *Store) EachSchedule(ctx context.Context, state mail.ScheduleState, after mail.SchedulePlace, beforeMillis int64, limit int, f func(*mail.Schedule) bool) error {
	due := s.d.millis(after.DueMillis)
	args := []any{string(state), due, s.d.millis(beforeMillis), due, after.ID, limit}
	err := s.each(ctx, rawQuery(s.d, "schedule_list"), args, func(scan scanner) error {
		var c mail.Schedule
		err := s.scanSchedule(scan, &c)
		if err == nil && !f(&c) {
			err = errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return s.failed(err, "list schedules in")
}

// DropSchedules implements mail.ScheduleStore.
func (s *Store) DropSchedules(ctx context.Context, ids []string) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		for _, id := range ids {
			if err := tx.exec(ctx, "schedule_drop", id); err != nil {
				return err
			}
		}
		return nil
	})
	return s.failed(err, "drop %d schedules in", len(ids))
}

func (s *Store) scanSchedule(scan scanner, c *mail.Schedule) error {
	return scan(&c.ID, &c.State, &c.Revision, s.instant(&c.DueMillis), &c.Request, s.instant(&c.CreatedMillis), s.instant(&c.UpdatedMillis))
}
