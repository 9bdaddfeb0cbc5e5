package desk

import (
	"context"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/mail"
	"sluice/store"
)

// capped says of each cap that may have left a mail of the step out what it allows, and how
// much it counts now. Former users count as the person, as they do when mail is made.
func (w *why) capped(ctx context.Context, s *plan.PlanStep) error {
	asks := step.MailingOf(s.Message, w.Caps).Asks
	if asks == 0 {
		return nil
	}
	now := w.Clock.Now()
	asked := make([]store.MailCounted, len(w.Caps))
	for i := range w.Caps {
		asked[i] = store.MailCounted{SinceMillis: now.Add(-w.Caps[i].Window).UnixMilli(), Tag: w.Caps[i].Tag, Class: w.Caps[i].Class}
	}
	got := make([]int, len(w.Caps))
	for _, id := range append(w.formerly().Former(), w.person.ID) {
		counts, _, err := w.History.MailCounts(ctx, "", id.Partition, []int64{id.Number}, asked)
		if err != nil {
			return err
		}
		for i, n := range counts[id.Number] {
			got[i] += n
		}
	}
	for i := range w.Caps {
		if c := &w.Caps[i]; asks&(1<<i) != 0 {
			w.say("cap %s allows %d in %s, and the person got %d in the time up to now", c.Name, c.Messages, plan.DurationText(int64(c.Window/time.Second)), got[i])
		}
	}
	return nil
}

// again says when somebody who is in no step may enter again, by the newest version. Who is
// watched for a conversion enters no earlier than that ends.
func (w *why) again(ctx context.Context) error {
	if w.journey.Status != journey.StatusLive || w.record.State == journey.StateInside {
		return nil
	}
	newest := w.plan
	if w.Place.Version != w.journey.Version {
		v, err := w.Database.Journeys.JourneyVersion(ctx, w.journey.Number, w.journey.Version)
		if err != nil {
			return err
		}
		if _, newest, err = plan.LoadVersion(v.Document, w.Database.Env(ctx)); err != nil {
			return nil // what cannot be carried out lets nobody in
		}
	}
	j, err := step.New(newest)
	if err != nil {
		return nil
	}
	at, ok := j.AgainAt(&w.record)
	if !ok {
		w.say("a person enters this journey once: it has no again_after")
		return nil
	}
	if w.record.State == journey.StateWatching {
		at = max(at, int64(w.record.Due))
	}
	w.say("the person may enter again from %s on", instantText(at*1000))
	return nil
}

// ofMarketing says what may have left out a marketing mail of the step.
func (w *why) ofMarketing(ctx context.Context, s *plan.PlanStep) error {
	if s.Message.Class != mail.ClassMarketing {
		return nil
	}
	if step.InGlobalControl(w.person.ID, w.Control) {
		w.say("the person is in the control group of all journeys")
	}
	return w.capped(ctx, s)
}
