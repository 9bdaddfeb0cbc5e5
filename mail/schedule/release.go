package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
	"sluice/mail"
	"sluice/user"
)

// Role is the role of releasing schedules. It has one place.
const Role = "schedule"

const (
	// releaseEvery is how often schedules are looked for that are due, and
	// releasePage how many at once.
	releaseEvery = time.Second
	releasePage  = 100

	// handedFor is for how long mail is handed in again of which a part may be in the logs:
	// less than the day for which these know it.
	handedFor = 20 * time.Hour

	// Kept is for how long after its due time the row of a schedule stays that is over.
	Kept       = 30 * 24 * time.Hour
	sweepEvery = time.Hour
)

// Releaser hands in mail that was scheduled, when it is time.
//
// The idea. A schedule is released in two steps, each a row written under the
// revision that was read. First the recipients are looked up and written. From
// then on nobody changes them, and a process that goes on does exactly the
// same. Then the mail is handed in under the schedule's name, by which each log
// takes it once.
//
// The invariants. It may run twice at once, and die anywhere. What is found
// between the steps is handed in again, unless the ledger has all of it. The
// names in the logs last a day, so before that is over it is put in doubt: those
// who have the mail would get it once more.
type Releaser struct {
	Store     ReleaseStore
	Submitter mail.Submitter
	Leases    *flow.Leases
	Clock     sluice.Clock
	Log       *slog.Logger

	swept time.Time
	after map[mail.ScheduleState]mail.SchedulePlace // behind which the next page is; none: the first is next
}

// ReleaseStore is what a Releaser reads and writes. The stores of sqlstore are
// ones.
type ReleaseStore interface {
	mail.ScheduleStore
	user.Store
	MessageSends(ctx context.Context, message string) ([]mail.SendRow, error)
}

// Run releases while this process has the lease, until fetch ends.
func (x *Releaser) Run(fetch, _ context.Context) {
	for fetch.Err() == nil {
		held, _ := x.Leases.Held(Role)
		if len(held) == 0 {
			x.Leases.WaitForChange(fetch, Role, held)
			continue
		}
		more, err := x.Pass(fetch)
		if err != nil && fetch.Err() == nil {
			x.Log.Warn("scheduled mail could not be handed in; it is retried", "in", releaseEvery, "error", err)
		}
		if !more || err != nil {
			_ = sluice.Pause(fetch, releaseEvery)
		}
	}
}

// Pass releases what is due, a page of each state at most, and says whether there may be
// more. What fails keeps nobody else waiting: the next page is the one behind, and the
// first again only when the last is read.
func (x *Releaser) Pass(ctx context.Context) (more bool, err error) {
	if sluice.ClocksApart(x.Clock) {
		return false, nil // nothing is due until somebody has set them right
	}
	now := x.Clock.Now()
	var errs []error
	for _, state := range []mail.ScheduleState{mail.ScheduleReleasing, mail.ScheduleWaiting} {
		rows, err := x.page(ctx, state, now)
		if err != nil {
			return false, err
		}
		for i := range rows {
			if err := x.release(ctx, &rows[i]); err != nil && !errors.Is(err, sluice.ErrConflict) {
				errs = append(errs, fmt.Errorf("release schedule %s: %w", rows[i].ID, err))
			}
		}
		more = more || len(rows) == releasePage
	}
	if now.Sub(x.swept) >= sweepEvery {
		x.swept = now
		errs = append(errs, x.sweep(ctx, now.Add(-Kept)))
	}
	return more, errors.Join(errs...)
}

// page reads the next page of schedules of a state that are due.
func (x *Releaser) page(ctx context.Context, state mail.ScheduleState, now time.Time) ([]mail.Schedule, error) {
	rows, err := x.Store.Schedules(ctx, state, x.after[state], now.UnixMilli()+1, releasePage)
	if err != nil {
		return nil, err
	}
	if x.after == nil {
		x.after = make(map[mail.ScheduleState]mail.SchedulePlace)
	}
	delete(x.after, state)
	if len(rows) == releasePage {
		x.after[state] = rows[releasePage-1].Place()
	}
	return rows, nil
}

// sweep removes schedules that are over and were due before a moment. Those in doubt stay for
// somebody to look at.
func (x *Releaser) sweep(ctx context.Context, before time.Time) error {
	for _, state := range []mail.ScheduleState{mail.ScheduleReleased, mail.ScheduleCancelled} {
		for more := true; more; {
			rows, err := x.Store.Schedules(ctx, state, mail.SchedulePlace{}, before.UnixMilli(), releasePage)
			if err != nil {
				return err
			}
			ids := make([]string, len(rows))
			for i := range rows {
				ids[i] = rows[i].ID
			}
			if len(ids) > 0 {
				if err := x.Store.DropSchedules(ctx, ids); err != nil {
					return err
				}
			}
			more = len(rows) == releasePage
		}
	}
	return nil
}

// release does the steps of a schedule that are left.
func (x *Releaser) release(ctx context.Context, row *mail.Schedule) error {
	s, err := Parse(row.Request)
	if err != nil { // it would keep a place of each page for ever
		return errors.Join(err, x.write(ctx, row, mail.ScheduleInDoubt))
	}
	again := row.State == mail.ScheduleReleasing
	if !again {
		if err := x.freeze(ctx, row, s); err != nil {
			return err
		}
		if err := faults.Hit("schedule-frozen"); err != nil {
			return err
		}
	}
	err = x.hand(ctx, row, s, again)
	if refused, ok := errors.AsType[sluice.Refusals](err); ok { // it would be each time
		x.Log.Error("a scheduled mail is refused, and not sent: its schedule is in doubt until an operator has it released again (docs/braze.md); check the routes and sender domains of the configuration", "schedule", row.ID, "error", refused)
		return x.putAside(ctx, row, s)
	}
	if errors.Is(err, errHandedLong) {
		x.Log.Error("a scheduled mail could not be handed in completely: its schedule is in doubt until an operator has it dropped or released again (docs/braze.md), since those who have it by now would get it twice", "schedule", row.ID, "message", row.Message(), "recipients", len(s.Frozen), "for", handedFor)
		return x.putAside(ctx, row, s)
	}
	if err != nil {
		return err
	}
	if err := faults.Hit("schedule-handed"); err != nil {
		return err
	}
	return x.write(ctx, row, mail.ScheduleReleased)
}

// write writes a schedule's next state.
func (x *Releaser) write(ctx context.Context, row *mail.Schedule, state mail.ScheduleState) error {
	row.State, row.UpdatedMillis = state, x.Clock.Now().UnixMilli()
	if state == mail.ScheduleReleased {
		row.Request = Over
	}
	if err := x.Store.ChangeSchedule(ctx, *row); err != nil {
		return err
	}
	row.Revision++
	return nil
}

// freeze finds out who gets a mail, and when, and writes it.
func (x *Releaser) freeze(ctx context.Context, row *mail.Schedule, s *Request) error {
	left := 0
	to, err := Recipients(ctx, x.Store, s.Users, func(int, string) { left++ })
	if err != nil {
		return err
	}
	if left > 0 {
		x.Log.Info("a scheduled mail does not go to all recipients that it names", "schedule", row.ID, "users", len(s.Users), "mailed", len(to), "left_out", left)
	}
	s.Frozen = nil // of one that an operator has released again
	for _, r := range to {
		zone, err := time.LoadLocation(r.Zone) // empty: UTC
		if err != nil {
			zone = time.UTC
		}
		due, err := s.DueIn(zone)
		if err != nil {
			return err
		}
		s.Frozen = append(s.Frozen, frozen{User: r.Name, Address: r.Address, Due: due})
	}
	if row.Request, err = s.Text(); err != nil {
		return err
	}
	if err := faults.Hit("schedule-freeze"); err != nil {
		return err
	}
	return x.write(ctx, row, mail.ScheduleReleasing)
}

// errHandedLong says that mail is not handed in again, since the logs may have forgotten
// what they have of it.
var errHandedLong = errors.New("a part of it may be forgotten that was handed in")

// hand hands in the mail, unless the ledger has all of it. It does not after handedFor.
func (x *Releaser) hand(ctx context.Context, row *mail.Schedule, s *Request, again bool) error {
	if len(s.Frozen) == 0 {
		return nil
	}
	if again {
		sends, err := x.Store.MessageSends(ctx, row.Message())
		if err != nil || len(sends) == len(s.Frozen) {
			return err
		}
		if x.Clock.Now().UnixMilli()-row.UpdatedMillis >= handedFor.Milliseconds() {
			return errHandedLong
		}
	}
	d := s.Mailing.Draft(row.Message(), nil)
	for _, f := range s.Frozen {
		d.To, d.Users, d.DueMillisOf = append(d.To, f.Address), append(d.Users, f.User), append(d.DueMillisOf, f.Due)
	}
	_, err := x.Submitter.Submit(ctx, "schedule-"+row.ID, []mail.Draft{d})
	return err
}

// putAside has a schedule stand in doubt, with what was asked for, until an operator
// decides: the configuration refuses it, and may be half changed just now, or a part of
// it may have been handed in. Who gets it is looked up anew then, and forgotten now.
func (x *Releaser) putAside(ctx context.Context, row *mail.Schedule, s *Request) (err error) {
	s.Frozen = nil
	if row.Request, err = s.Text(); err != nil {
		return err
	}
	return x.write(ctx, row, mail.ScheduleInDoubt)
}
