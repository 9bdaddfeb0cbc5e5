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
	var n int
	err := s.reads.QueryRowContext(ctx, query(s.d, "schedule_count"), string(mail.ScheduleWaiting)).Scan(&n)
	if err == nil && n >= mail.MaxSchedules {
		return invalid("%d schedules wait, and no more are possible; delete some that are not needed, or schedule this one later", n)
	}
	if err == nil {
		err = s.execSmall(ctx, "schedule_add", c.ID, string(c.State), c.Revision, s.d.millis(c.DueMillis), c.Request, s.d.millis(c.CreatedMillis), s.d.millis(c.UpdatedMillis))
	}
	return s.failed(err, "add schedule %s in", c.ID)
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
func (s *Store) Schedules(ctx context.Context, state mail.ScheduleState, beforeMillis int64, limit int) ([]mail.Schedule, error) {
	return s.SchedulesAfter(ctx, state, mail.SchedulePlace{}, beforeMillis, limit)
}

// EachSchedule implements mail.ScheduleStore.
func (s *Store) EachSchedule(ctx context.Context, state mail.ScheduleState, beforeMillis int64, limit int, f func(*mail.Schedule) bool) error {
	err := s.each(ctx, rawQuery(s.d, "schedule_list"), s.schedulesBehind(state, mail.SchedulePlace{}, beforeMillis, limit), func(scan scanner) error {
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

// SchedulesAfter implements mail.ScheduleStore.
func (s *Store) SchedulesAfter(ctx context.Context, state mail.ScheduleState, after mail.SchedulePlace, beforeMillis int64, limit int) ([]mail.Schedule, error) {
	all, err := list(ctx, s.d, s.reads, s.scanSchedule, rawQuery(s.d, "schedule_list"), s.schedulesBehind(state, after, beforeMillis, limit)...)
	return all, s.failed(err, "list schedules in")
}

// schedulesBehind are the arguments of schedule_list.
func (s *Store) schedulesBehind(state mail.ScheduleState, after mail.SchedulePlace, beforeMillis int64, limit int) []any {
	due := s.d.millis(after.DueMillis)
	return []any{string(state), due, s.d.millis(beforeMillis), due, after.ID, limit}
}
