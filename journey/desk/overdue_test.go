package desk

import (
	"context"
	"strings"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/user"
)

// A journey of which people are overdue is resumed with a choice alone; the refusal says
// how many there are, and the choice is stored with the status.
func TestResumeAsks(t *testing.T) {
	b := newBed(t)
	b.create(tiny)
	_, err := b.Publish(t.Context(), "tiny", -1)
	b.ok(err)
	now := uint32(b.clock.Now().Unix())
	b.Partitions = 2
	overdue := true
	b.Page = func(_ context.Context, partition int, _, after int64, f func(int64, *flow.Record) bool) (int64, error) {
		for i, r := range []journey.Record{
			{State: journey.StateInside, Version: 1, Due: now}, {State: journey.StateInside, Version: 1, Due: now + 1}, {State: journey.StateInside, Version: 1},
			{State: journey.StateFinished, Version: 1, Due: 1}, {State: journey.StateWatching, Version: 1, Due: 1},
		} {
			if overdue || r.Due != now {
				f(after+int64(i)+1, (*flow.Record)(r.Append(nil)))
			}
		}
		if after == 0 && partition == 0 {
			return 10, nil
		}
		return 0, nil
	}
	for _, x := range []struct {
		overdue bool
		choice  Overdue
		refused sluice.Code
		skips   bool
	}{{true, "", sluice.CodeConflict, false}, {true, "no", sluice.CodeInvalid, false}, {true, OverdueSend, "", false}, {false, "", "", false}, {true, OverdueSkip, "", true}} {
		_, err := b.SetStatus(t.Context(), "tiny", Pause)
		b.ok(err)
		overdue = x.overdue
		before := b.published()
		_, err = b.Resume(t.Context(), "tiny", x.choice)
		if x.refused != "" {
			b.refused(err, x.refused, "overdue")
			if x.choice == "" {
				b.refused(err, x.refused, "3 of them")
			}
			if b.get("tiny").Status != journey.StatusPaused || b.published() != before {
				t.Errorf("%+v: it was resumed", x)
			}
			continue
		}
		b.ok(err)
		j := b.get("tiny")
		if j.Status != journey.StatusLive || b.published() == before || (j.SkipUntilMillis == b.clock.Now().UnixMilli()) != x.skips {
			t.Errorf("%+v: %+v", x, j)
		}
	}
	overdue = true
	people, _, err := b.People(t.Context(), "tiny", PeopleAsked{State: StateOverdue, Limit: MaxPeoplePage})
	if b.ok(err); len(people) != 3 {
		t.Errorf("%d people are listed as overdue, want 3", len(people))
	}
}

// While a partition does not know where people are, none of them is said to be overdue, or
// never to have entered: its Redis was emptied, and no process has written it anew.
func TestUnknownPlacesAreNotTakenForNobody(t *testing.T) {
	b := newBed(t)
	b.create(tiny)
	_, err := b.Publish(t.Context(), "tiny", -1)
	b.ok(err)
	_, err = b.SetStatus(t.Context(), "tiny", Pause)
	b.ok(err)
	b.Partitions = 2
	b.Page = func(context.Context, int, int64, int64, func(int64, *flow.Record) bool) (int64, error) { return 0, nil }
	b.Records = func(context.Context, user.ID, int64) (r flow.Record, err error) { return r, nil }
	known := 1 // partitions, the first ones
	b.Notes = func(_ context.Context, partition int) (map[string]string, error) {
		fields := make(map[string]string)
		if partition < known {
			flow.SetNote(fields, journey.InStepsKept, "1")
		}
		return fields, nil
	}
	why := func() string {
		t.Helper()
		w, err := b.Why(t.Context(), "tiny", "", user.Row{ID: user.ID{Partition: 1, Number: 7}, Profile: "{}"})
		b.ok(err)
		return strings.Join(w.Says, "\n")
	}
	_, err = b.Resume(t.Context(), "tiny", OverdueAsk)
	b.refused(err, sluice.CodeUnavailable, "not known yet in partition 1", "overdue send or skip")
	_, _, err = b.People(t.Context(), "tiny", PeopleAsked{State: StateOverdue, Limit: 1})
	b.refused(err, sluice.CodeUnavailable, "not known yet in partition 1")
	if text := why(); !strings.Contains(text, "not known yet") || strings.Contains(text, "never entered") {
		t.Errorf("why: %s", text)
	}
	_, err = b.PlacesOf(t.Context(), user.ID{Partition: 1, Number: 7})
	b.refused(err, sluice.CodeUnavailable, "not known yet in partition 1")
	_, err = b.PlacesOf(t.Context(), user.ID{Number: 7})
	b.ok(err)
	if j := b.get("tiny"); j.Status != journey.StatusPaused {
		t.Errorf("the journey is %s", j.Status)
	}
	known = 2
	if text := why(); !strings.Contains(text, "never entered") {
		t.Errorf("why: %s", text)
	}
	_, err = b.Resume(t.Context(), "tiny", OverdueAsk)
	b.ok(err)
	_, err = b.SetStatus(t.Context(), "tiny", Pause)
	b.ok(err)
	known = 0
	_, err = b.Resume(t.Context(), "tiny", OverdueSend)
	b.ok(err)
}
