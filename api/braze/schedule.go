package braze

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/mail/schedule"
)

// maxAhead is how far ahead mail may be scheduled.
const maxAhead = 90 * 24 * time.Hour

// The zones in which a day begins first, and last.
var (
	firstZone = time.FixedZone("UTC+14", 14*60*60)
	lastZone  = time.FixedZone("UTC-12", -12*60*60)
)

// bounded is what is stored of what somebody asks for: a mail has its own bound, but is
// longer where it is stored.
func bounded(s *schedule.Request) (string, error) {
	text, err := s.Text()
	if err == nil && len(text) > mail.MaxScheduleBytes {
		err = complaint(fmt.Sprintf("The mail is too large: as it is stored it has %d bytes, at most %d are possible", len(text), mail.MaxScheduleBytes))
	}
	return text, err
}

// readSchedule reads an object `schedule` and returns when it is released: as
// soon as it is time anywhere.
func readSchedule(s *schedule.Request, v jsonscan.Value, now time.Time) (dueMillis int64, err error) {
	var at, local, optimal jsonscan.Value
	if v.Kind != jsonscan.Object || !(form{"time": &at, "in_local_time": &local, "at_optimal_time": &optimal}).read(v.Raw) || at.Kind != jsonscan.String {
		return 0, complaint("'schedule' must be an object with a 'time' of ISO 8601")
	}
	if s.Local, _, err = flag("in_local_time", local); err != nil {
		return 0, err
	}
	if best, _, err := flag("at_optimal_time", optimal); err != nil || best {
		return 0, complaint("'at_optimal_time' is not possible here: when somebody reads mail is not known; leave it out, or say 'in_local_time'")
	}
	s.Time = strings.Clone(at.Text())
	first, err := s.DueIn(firstZone)
	last, err2 := s.DueIn(lastZone)
	switch {
	case errors.Join(err, err2) != nil:
		return 0, complaint(BadRequest)
	case s.Local && first == last:
		return 0, complaint("'schedule.time' must name no zone where 'in_local_time' is true")
	case last <= now.UnixMilli():
		return 0, complaint(BadRequest)
	case first > now.Add(maxAhead).UnixMilli():
		return 0, complaint("'schedule.time' must be within 90 days")
	}
	return first, nil
}

// createSchedule is POST /messages/schedule/create. Nobody is looked up yet.
func createSchedule(ctx context.Context, r *Request) (Reply, error) {
	var f sendForm
	var n notes
	m, err := r.mailing(ctx, &f, &n)
	if err != nil {
		return wrong(err, n)
	}
	if len(m.To) == 0 {
		return wrong(noRecipients, n)
	}
	if err := r.SenderRefused(ctx, m.Email.Sender); err != nil {
		return Reply{}, err
	}
	s := &schedule.Request{Mailing: m.Mailing}
	for _, c := range m.To {
		s.Users = append(s.Users, c.key)
	}
	row := mail.Schedule{ID: sluice.NewUUID(r.Now), State: mail.ScheduleWaiting, CreatedMillis: r.Now.UnixMilli(), UpdatedMillis: r.Now.UnixMilli()}
	if row.DueMillis, err = readSchedule(s, f.schedule, r.Now); err == nil {
		row.Request, err = bounded(s)
	}
	if err != nil {
		return wrong(err, n)
	}
	if err := r.Schedules.AddSchedule(ctx, row); err != nil {
		return refused(err)
	}
	done := reply(http.StatusCreated, sentBody{DispatchID: row.Message(), ScheduleID: row.ID, SendID: m.Send, Message: success, Errors: n})
	done.Accepted, done.Refused = len(m.To), len(n)
	return done, nil
}

// refused answers the refusal of a store; other errors of it are told as such.
func refused(err error) (Reply, error) {
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return wrong(complaint(e.Message), nil)
	}
	return Reply{}, unread(err)
}

// scheduleTries is how often a change is tried that others get ahead of.
const scheduleTries = 5

// Messages of calls for schedules that cannot be changed.
const (
	noSchedule  complaint = "Invalid Schedule ID"
	overAlready complaint = "The scheduled message has been sent or deleted"
	inDoubt     complaint = "The scheduled message is in doubt, and is not sent by itself: it was due between a backup and its restore, the configuration refused it, it could not be handed in completely for long, or it cannot be read"
)

// Of a schedule whose mail may still leave nobody is told that it is over.
var (
	errReleasing = sluice.Refuse(sluice.CodeUnavailable, "the scheduled message is being released, and its mail is not all known yet; nothing was done, send it again")
	errOnItsWay  = sluice.Refuse(sluice.CodeUnavailable, "the mail of the scheduled message is on its way, or is being stopped; send it again to learn which")
	errUnstopped = sluice.Refuse(sluice.CodeUnavailable, "redis or the database does not answer, or not in time; it is not known what of the mail was stopped. Send it again: a repeat does no harm")
)

// settled says why a schedule in a state is not changed any more; nil: it waits.
func settled(state mail.ScheduleState) error {
	switch state {
	case mail.ScheduleWaiting:
		return nil
	case mail.ScheduleReleasing:
		return errReleasing
	case mail.ScheduleInDoubt:
		return inDoubt
	}
	return overAlready
}

// change reads a schedule and writes what becomes of it, unless somebody else
// has changed it meanwhile: then it is done anew. One that does not wait any more is
// returned with the error that says so.
func (r *Request) change(ctx context.Context, id jsonscan.Value, to func(*mail.Schedule) error) (*mail.Schedule, error) {
	const uuid = 36
	var err error
	if id.Kind != jsonscan.String || len(id.Text()) != uuid || !nameFits(id.Text()) {
		return nil, noSchedule
	}
	for range scheduleTries {
		var row mail.Schedule
		if row, err = r.Schedules.Schedule(ctx, id.Text()); err != nil {
			if _, ok := errors.AsType[*sluice.Error](err); ok {
				return nil, noSchedule
			}
			return nil, unread(err)
		}
		if err := settled(row.State); err != nil {
			return &row, err
		}
		if err := to(&row); err != nil {
			return nil, err
		}
		row.UpdatedMillis = r.Now.UnixMilli()
		if err = r.Schedules.ChangeSchedule(ctx, row); err == nil {
			return &row, nil
		}
		if !errors.Is(err, sluice.ErrConflict) {
			return nil, unread(err)
		}
	}
	return nil, unread(err)
}

// updateSchedule is POST /messages/schedule/update. What has been released does
// not change any more.
func updateSchedule(ctx context.Context, r *Request) (Reply, error) {
	var id, when, messages jsonscan.Value
	if !(form{"schedule_id": &id, "schedule": &when, "messages": &messages}).read(r.Body) {
		return refuse(BadRequest)
	}
	if when.Kind == jsonscan.None && messages.Kind == jsonscan.None {
		return refuse("One of 'schedule' and 'messages' is required")
	}
	var n notes
	var message *schedule.Email
	var err error
	if messages.Kind != jsonscan.None {
		if message, err = r.readMessages(ctx, messages, &n); err != nil {
			return wrong(err, n)
		}
		if err := r.SenderRefused(ctx, message.Sender); err != nil {
			return Reply{}, err
		}
	}
	_, err = r.change(ctx, id, func(row *mail.Schedule) error {
		s, err := schedule.Parse(row.Request)
		if err != nil {
			return err
		}
		if message != nil {
			s.Mailing.Email = *message
			if err := check(&s.Mailing); err != nil {
				return err
			}
		}
		if when.Kind != jsonscan.None {
			if row.DueMillis, err = readSchedule(s, when, r.Now); err != nil {
				return err
			}
		}
		row.Request, err = bounded(s)
		return err
	})
	if err != nil {
		return wrong(err, n)
	}
	return reply(http.StatusCreated, fatal{success, n}), nil
}

// deleteSchedule is POST /messages/schedule/delete. Of what has been released
// already, what has not left is stopped: mail for later zones.
func deleteSchedule(ctx context.Context, r *Request) (Reply, error) {
	var id jsonscan.Value
	var n notes
	if !(form{"schedule_id": &id}).read(r.Body) {
		return refuse(BadRequest)
	}
	row, err := r.change(ctx, id, func(row *mail.Schedule) error {
		row.State, row.Request = mail.ScheduleCancelled, schedule.Over
		return nil
	})
	if row != nil && row.State == mail.ScheduleReleased {
		err = r.stop(ctx, row, &n)
	}
	if err != nil {
		return wrong(err, nil)
	}
	return reply(http.StatusCreated, fatal{success, n}), nil
}

// stop stops what has not left of the mail of a schedule that was released. It returns
// nil if some was, and else why none.
func (r *Request) stop(ctx context.Context, row *mail.Schedule, n *notes) error {
	what, err := r.Core.Cancel(ctx, row.Message())
	if sluice.IsNotFound(err) { // nobody got the mail, or it is on its way into the ledger
		stored, failed := r.Core.Stored(ctx, row.UpdatedMillis)
		switch {
		case failed != nil:
			return errors.Join(errReleasing, unread(failed))
		case !stored:
			return errReleasing
		}
		what, err = r.Core.Cancel(ctx, row.Message()) // it may have come there since
	}
	switch _, told := errors.AsType[*sluice.Error](err); {
	case sluice.IsNotFound(err):
		return overAlready
	case told:
		return err
	case err != nil:
		return errors.Join(errUnstopped, unread(err))
	case what.Cancelled == 0 && what.Open > 0:
		return errOnItsWay
	case what.Cancelled == 0:
		return overAlready
	case what.Open > 0:
		n.add("some of the mail is on its way")
	}
	return nil
}

// maxBroadcasts bounds the schedules of a list.
const maxBroadcasts = 1000

// broadcast is a schedule in a list.
type broadcast struct {
	Name         string   `json:"name"`
	ID           string   `json:"id"`
	Type         string   `json:"type"`
	Tags         []string `json:"tags"`
	NextSendTime string   `json:"next_send_time"`
	ScheduleType string   `json:"schedule_type"`
}

// listScheduled is GET /messages/scheduled_broadcasts.
func listScheduled(ctx context.Context, r *Request) (Reply, error) {
	end, ok := queryTime(r.Query, "end_time", 0)
	if !ok || end == 0 {
		return refuse("'end_time' is required: ISO 8601")
	}
	const day = 24 * 60 * 60 * 1000
	end -= end % day // Braze takes it for a midnight
	all := []broadcast{}
	err := r.Schedules.EachSchedule(ctx, mail.ScheduleWaiting, mail.SchedulePlace{}, end, maxBroadcasts, func(row *mail.Schedule) bool {
		b, err := broadcastOf(row)
		if err != nil { // it is in doubt when it is due
			r.Log.WarnContext(ctx, "a schedule that cannot be read is left out of a list; a newer program may have made it", "schedule", row.ID, "error", err)
			return true
		}
		all = append(all, b)
		return true
	})
	if err != nil {
		return Reply{}, unread(err)
	}
	return reply(http.StatusOK, struct {
		Broadcasts []broadcast `json:"scheduled_broadcasts"`
		Message    string      `json:"message"`
	}{all, success}), nil
}

// broadcastOf is what a list shows of a schedule. It keeps nothing of the mail, which may
// have MiB.
func broadcastOf(row *mail.Schedule) (broadcast, error) {
	s, err := schedule.Parse(row.Request)
	if err != nil {
		return broadcast{}, err
	}
	at, err := s.DueIn(time.UTC)
	if err != nil {
		return broadcast{}, err
	}
	name := cmp.Or(s.Mailing.Campaign, s.Mailing.Email.Mail.Subject)
	b := broadcast{Name: strings.Clone(firstRunes(name, maxNameRunes)), ID: row.ID, Type: "Campaign", Tags: []string{}, ScheduleType: "UTC"}
	b.NextSendTime = time.UnixMilli(at).UTC().Format(time.RFC3339)
	if s.Local {
		b.NextSendTime, b.ScheduleType = strings.TrimSuffix(b.NextSendTime, "Z"), "local_time_zones"
	}
	return b, nil
}

// firstRunes returns so many characters of a text at most.
func firstRunes(text string, most int) string {
	n := 0
	for i := range text {
		if n == most {
			return text[:i]
		}
		n++
	}
	return text
}
