package schedule

import (
	"context"
	"errors"

	"sluice"
	"sluice/mail"
)

// Decide writes what an operator decides about a schedule in doubt. One that is released
// is handed in within a second, however late, to those who can be mailed then; one that is
// dropped never is. An *Error with CodeNotFound: there is none; CodeInvalid: it is not in
// doubt, by now perhaps, or it is to be released and cannot be read.
func Decide(ctx context.Context, store mail.ScheduleStore, clock sluice.Clock, id string, release bool) error {
	row, err := store.Schedule(ctx, id)
	if err != nil {
		return err
	}
	if row.State != mail.ScheduleInDoubt {
		return sluice.Refuse(sluice.CodeInvalid, "schedule %s is not in doubt: its state is %s", id, row.State)
	}
	row.State = mail.ScheduleCancelled
	if !release {
		row.Request = Over
	} else {
		if _, err := Parse(row.Request); err != nil {
			return sluice.Refuse(sluice.CodeInvalid, "schedule %s cannot be released, only dropped: %v", id, err)
		}
		row.State = mail.ScheduleWaiting
	}
	row.UpdatedMillis = clock.Now().UnixMilli()
	err = store.ChangeSchedule(ctx, row)
	if errors.Is(err, sluice.ErrConflict) {
		return sluice.Refuse(sluice.CodeInvalid, "somebody else has just decided about schedule %s", id)
	}
	return err
}
