package braze

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/schedule"
	"sluice/store"
)

// noRoute is the submitter of a process whose configuration takes no mail.
type noRoute struct{}

func (noRoute) Submit(context.Context, string, []mail.Draft) ([]string, error) {
	return nil, sluice.Refusals{{Code: sluice.CodeInvalid, Message: "no route takes it"}}
}

// What the configuration refuses is put aside with what was asked for, and goes when an
// operator has it released again (docs/braze.md): once, to those who can be mailed then.
func TestScheduleThatNoRouteTakes(t *testing.T) {
	w := newMailing(t)
	x, clock := w.releaser()
	id := w.create(t, `{"time":"2026-11-21T11:00:00Z"}`)
	before, err := w.store.Schedule(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	clock.Move(time.Hour)
	x.Submitter = noRoute{}
	for range 2 {
		if drafts := w.pass(t, x); len(drafts) != 0 {
			t.Errorf("%+v", drafts)
		}
	}
	s, err := w.store.Schedule(t.Context(), id)
	if err != nil || s.State != mail.ScheduleInDoubt || s.Request != before.Request {
		t.Fatalf("%+v, %v, want it in doubt, with the request %s", s, err, before.Request)
	}
	x.Submitter = w
	if drafts := w.pass(t, x); len(drafts) != 0 {
		t.Errorf("it goes by itself: %+v", drafts)
	}
	s.State = mail.ScheduleWaiting
	if err := w.store.ChangeSchedule(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if drafts := w.pass(t, x); len(drafts) != 1 || fmt.Sprint(drafts[0].Users) != "[ann bob]" {
		t.Errorf("%+v", drafts)
	}
	if s, err := w.store.Schedule(t.Context(), id); err != nil || s.State != mail.ScheduleReleased || s.Request != schedule.Over {
		t.Errorf("%+v, %v", s, err)
	}
}

// A row that was put in doubt between the two steps of a release, as by a restore, and is
// released again, goes to each recipient once.
func TestReleasedAgainFromBetween(t *testing.T) {
	w := newMailing(t)
	x, clock := w.releaser()
	id := w.create(t, `{"time":"2026-11-21T11:00:00Z"}`)
	clock.Move(time.Hour)
	x.Submitter = refusing{w, false}
	if _, err := x.Pass(t.Context()); !errors.Is(err, sluice.ErrFull) {
		t.Fatal(err)
	}
	s, err := w.store.Schedule(t.Context(), id)
	if err != nil || s.State != mail.ScheduleReleasing {
		t.Fatalf("%+v, %v", s, err)
	}
	s.State = mail.ScheduleWaiting
	if err := w.store.ChangeSchedule(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	x.Submitter = w
	if drafts := w.pass(t, x); len(drafts) != 1 || fmt.Sprint(drafts[0].Users) != "[ann bob]" {
		t.Errorf("%+v", drafts)
	}
}

// full is a submitter that has no room: for marketing mail, or for all.
type full struct {
	w   *written
	all bool
}

func (f *full) Submit(ctx context.Context, once string, drafts []mail.Draft) ([]string, error) {
	if f.all || drafts[0].Class == mail.ClassMarketing {
		return nil, sluice.ErrFull
	}
	return f.w.Submit(ctx, once, drafts)
}

// More schedules than a page has that cannot be handed in keep none behind them waiting,
// and rows that are over do not stay because of them.
func TestSchedulesThatFailKeepNoneWaiting(t *testing.T) {
	w := newMailing(t)
	x, clock := w.releaser()
	first, err := w.store.Schedule(t.Context(), w.create(t, `{"time":"2026-11-21T11:00:00Z"}`))
	if err != nil {
		t.Fatal(err)
	}
	add := func(due int64, state mail.ScheduleState, request string) string {
		t.Helper()
		row := mail.Schedule{ID: sluice.NewUUID(now), State: state, DueMillis: due, Request: request, CreatedMillis: 1, UpdatedMillis: 1}
		if err := w.store.AddSchedule(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		return row.ID
	}
	for i := range int64(220) {
		add(first.DueMillis+i, mail.ScheduleWaiting, first.Request)
	}
	s, err := schedule.Parse(first.Request)
	if err != nil {
		t.Fatal(err)
	}
	s.Mailing.State = "" // mail for all is transactional
	text, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	last := add(first.DueMillis+1000, mail.ScheduleWaiting, text)
	over := add(now.Add(-schedule.Kept).UnixMilli(), mail.ScheduleReleased, schedule.Over)
	clock.Move(2 * time.Hour)
	room := &full{w, true}
	x.Submitter = room
	pass := func() {
		t.Helper()
		if _, err := x.Pass(t.Context()); err != nil && !errors.Is(err, sluice.ErrFull) {
			t.Fatal(err)
		}
	}
	for range 4 { // none of them waits for its first try any more
		pass()
	}
	if row, err := w.store.Schedule(t.Context(), last); err != nil || row.State != mail.ScheduleReleasing {
		t.Fatalf("%+v, %v", row, err)
	}
	if _, err := w.store.Schedule(t.Context(), over); err == nil {
		t.Error("a row that is over stays while others fail")
	}
	room.all = false
	for range 4 {
		pass()
	}
	if drafts, _ := w.handed(t); len(drafts) != 1 || drafts[0].ID != strings.ReplaceAll(last, "-", "") {
		t.Errorf("%d are handed in, want the one behind", len(drafts))
	}
	x.Submitter = w
	for range 6 {
		pass()
	}
	if drafts, _ := w.handed(t); len(drafts) != 221 {
		t.Errorf("%d are handed in, want all that failed, each once", len(drafts))
	}
}

// What could be handed in partly for so long that the logs may forget it is not handed in
// again, as that would mail those who have it once more. An operator can only drop it.
func TestPartlyHandedInForLong(t *testing.T) {
	w := newMailing(t)
	x, clock := w.releaser()
	id := w.create(t, `{"time":"2026-11-21T11:00:00Z"}`)
	clock.Move(time.Hour)
	x.Submitter = refusing{w, true}
	try := func(handed int, state mail.ScheduleState) {
		t.Helper()
		if _, err := x.Pass(t.Context()); err != nil && !errors.Is(err, sluice.ErrFull) {
			t.Fatal(err)
		}
		drafts, _ := w.handed(t)
		if s, err := w.store.Schedule(t.Context(), id); err != nil || s.State != state || len(drafts) != handed {
			t.Fatalf("%d drafts are handed in, want %d; %+v, %v", len(drafts), handed, s, err)
		}
	}
	try(1, mail.ScheduleReleasing)
	one := mail.Send{Message: strings.ReplaceAll(id, "-", ""), To: "ann@example.com", Recipients: 2, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, AcceptedMillis: now.UnixMilli()}
	w.apply(t, store.Effect{Sends: []mail.StoredSend{{Send: one}}})
	clock.Move(19 * time.Hour)
	try(1, mail.ScheduleReleasing)
	clock.Move(time.Hour)
	x.Submitter = w
	try(0, mail.ScheduleInDoubt)
	try(0, mail.ScheduleInDoubt)
	err := schedule.Decide(t.Context(), w.store, clock, id, true)
	if refused, ok := errors.AsType[*sluice.Error](err); !ok || refused.Code != sluice.CodeInvalid || !strings.Contains(refused.Message, "only dropped: 1 of its mails") {
		t.Errorf("it is released again: %v", err)
	}
	if err := schedule.Decide(t.Context(), w.store, clock, id, false); err != nil {
		t.Error(err)
	}
	try(0, mail.ScheduleCancelled)
}
