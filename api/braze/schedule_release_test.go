package braze

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/schedule"
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
