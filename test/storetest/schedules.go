package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/mail"
	"sluice/store"
)

// aSchedule is one that waits, with what is hard to keep.
func aSchedule(letter string, due int64) mail.Schedule {
	return mail.Schedule{
		ID: "019aa5c0-7a00-7abc-8def-0123456789a" + letter, State: mail.ScheduleWaiting, DueMillis: due,
		Request: `{"a":"ä🌍\\n\t'` + strings.Repeat("x", 100_000) + `"}`, CreatedMillis: 1_700_000_000_123, UpdatedMillis: 1_700_000_000_124,
	}
}

// testSchedules: schedules are kept as they are, and listed by when they are
// due. Only a caller that has read the last revision changes one.
func testSchedules(t *testing.T, f *fixture) {
	store := f.store.(mail.ScheduleStore)
	holds := func(want mail.Schedule) {
		t.Helper()
		got, err := f.Open(t).(mail.ScheduleStore).Schedule(f.ctx, want.ID)
		if err != nil || got != want {
			t.Errorf("got %.200s, %v\nwant %.200s", fmt.Sprint(got), err, fmt.Sprint(want))
		}
	}
	list := func(state mail.ScheduleState, before int64, limit int, want ...string) {
		t.Helper()
		listSchedules(t, f, state, before, limit, want...)
	}
	c, a, b := aSchedule("c", 3_000), aSchedule("a", 1_000), aSchedule("b", 1_000)
	for _, s := range []mail.Schedule{c, b, a} {
		must(t, store.AddSchedule(f.ctx, s))
	}
	holds(a)
	holds(c)
	holdsPages(t, f, a, b, c)
	if a.Message() != "019aa5c07a007abc8def0123456789aa" || !sluice.ValidMessageID(a.Message()) {
		t.Errorf("message %s", a.Message())
	}
	if store.AddSchedule(f.ctx, a) == nil {
		t.Error("added twice")
	}
	if e, ok := errors.AsType[*sluice.Error](onlyError(store.Schedule(f.ctx, "x"))); !ok || e.Code != sluice.CodeNotFound {
		t.Errorf("one that is not there: %v", e)
	}
	list(mail.ScheduleWaiting, 10_000, 10, "a", "b", "c")
	list(mail.ScheduleWaiting, 10_000, 2, "a", "b")
	list(mail.ScheduleWaiting, 3_000, 10, "a", "b")
	list(mail.ScheduleWaiting, 1_000, 10)
	list(mail.ScheduleReleased, 10_000, 10)

	// Of two callers that have read the same one, one changes it.
	stale := a
	a.State, a.DueMillis, a.Request, a.UpdatedMillis = mail.ScheduleReleasing, 2_000, "{}", 1_700_000_000_999
	must(t, store.ChangeSchedule(f.ctx, a))
	a.Revision++
	holds(a)
	stale.State = mail.ScheduleCancelled
	for _, s := range []mail.Schedule{stale, aSchedule("d", 1)} {
		if err := store.ChangeSchedule(f.ctx, s); !errors.Is(err, sluice.ErrConflict) {
			t.Errorf("%s: %v, want a conflict", s.ID, err)
		}
	}
	holds(a)
	list(mail.ScheduleWaiting, 10_000, 10, "b", "c")
	list(mail.ScheduleReleasing, 10_000, 10, "a")
	for state, want := range map[mail.ScheduleState]int64{mail.ScheduleWaiting: 2, mail.ScheduleReleasing: 1, mail.ScheduleInDoubt: 0} {
		if n, err := store.CountSchedules(f.ctx, state); err != nil || n != want {
			t.Errorf("%s: %d, %v, want %d", state, n, err, want)
		}
	}
	must(t, store.ChangeSchedule(f.ctx, a)) // the same again is a change
	must(t, store.DropSchedules(f.ctx, []string{a.ID, b.ID, "x"}))
	list(mail.ScheduleWaiting, 10_000, 10, "c")
	list(mail.ScheduleReleasing, 10_000, 10)
}

// holdsPages has three schedules that wait listed in pages, of which the first two are due
// at the same time.
func holdsPages(t *testing.T, f *fixture, a, b, c mail.Schedule) {
	t.Helper()
	store := f.store.(mail.ScheduleStore)
	for after, want := range map[mail.SchedulePlace][]string{{}: {"a", "b"}, a.Place(): {"b", "c"}, b.Place(): {"c"}, c.Place(): nil} {
		var got []string
		all, err := store.Schedules(f.ctx, mail.ScheduleWaiting, after, 3_001, 2)
		for _, s := range all {
			got = append(got, s.ID[len(s.ID)-1:])
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("behind %+v: got %v, %v, want %v", after, got, err, want)
		}
	}
	if all, err := store.Schedules(f.ctx, mail.ScheduleWaiting, a.Place(), 3_000, 10); err != nil || len(all) != 1 {
		t.Errorf("before the last: got %d, %v", len(all), err)
	}
}

// listSchedules checks which schedules are listed, by the last letters of their ids: all at
// once, one at a time, and until one has been seen.
func listSchedules(t *testing.T, f *fixture, state mail.ScheduleState, before int64, limit int, want ...string) {
	t.Helper()
	store := f.store.(mail.ScheduleStore)
	var got []string
	all, err := store.Schedules(f.ctx, state, mail.SchedulePlace{}, before, limit)
	for _, s := range all {
		got = append(got, s.ID[len(s.ID)-1:])
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s before %d, %d: got %v, %v, want %v", state, before, limit, got, err, want)
	}
	for _, most := range []int{len(all), min(1, len(all))} {
		var each []mail.Schedule
		err = store.EachSchedule(f.ctx, state, mail.SchedulePlace{}, before, limit, func(s *mail.Schedule) bool {
			each = append(each, *s)
			return len(each) < most
		})
		if err != nil || !slices.Equal(each, all[:most]) {
			t.Errorf("%s before %d, %d: one at a time got %d, %v, want %d", state, before, limit, len(each), err, most)
		}
	}
}

// testSchedulesRestored: a schedule that was due before the restore may have
// been released after the dump. It is not released again.
func testSchedulesRestored(t *testing.T, f *fixture) {
	store := f.store.(store.DumpStore)
	schedules := f.store.(mail.ScheduleStore)
	past, begun, ahead := aSchedule("a", 1_700_000_000_000), aSchedule("b", 1_700_000_000_000), aSchedule("c", 4_000_000_000_000)
	begun.State = mail.ScheduleReleasing
	for _, s := range []mail.Schedule{past, begun, ahead} {
		must(t, schedules.AddSchedule(f.ctx, s))
	}
	dump := Dump(t, store)
	r, err := store.BeginRestore(f.ctx, true)
	must(t, err)
	PutBack(t, r, dump)
	must(t, r.Finish(f.ctx, nil, nil))
	for _, want := range []mail.Schedule{past, begun, ahead} {
		if want.DueMillis < 4_000_000_000_000 {
			want.State, want.Revision = mail.ScheduleInDoubt, 1
		}
		if got, err := schedules.Schedule(f.ctx, want.ID); err != nil || got != want {
			t.Errorf("%.200s, %v", fmt.Sprint(got), err)
		}
	}
}
