package schedule

import (
	"context"
	"errors"

	"sluice"
	"sluice/mail"
)

// DecideStore is what Decide reads and writes. The stores of sqlstore are ones.
type DecideStore interface {
	mail.ScheduleStore
	MessageSends(ctx context.Context, message string) ([]mail.SendRow, error)
}

// Decide writes what an operator decides about a schedule in doubt. One that is released
// is handed in within a second, however late, to those who can be mailed then; one that is
// dropped never is. An *Error with CodeNotFound: there is none; CodeInvalid: it is not in
// doubt, by now perhaps, or it is to be released and cannot be read, or the ledger has mails
// of it, which would be sent once more.
func Decide(ctx context.Context, store DecideStore, clock sluice.Clock, id string, release bool) error {
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
		sends, err := store.MessageSends(ctx, row.Message())
		if err != nil {
			return err
		}
		if len(sends) > 0 {
			return sluice.Refuse(sluice.CodeInvalid, "schedule %s cannot be released, only dropped: %d of its mails are in the ledger as the message %s, and would be sent once more", id, len(sends), row.Message())
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
