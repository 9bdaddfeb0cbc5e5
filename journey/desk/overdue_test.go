package desk

import (
	"context"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/journey"
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
