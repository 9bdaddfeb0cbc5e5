package desk

import (
	"context"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/user"
)

// People are found by step and state, over all partitions, in pages that end; a page that
// has looked through as much as it may goes on in the next one.
func TestPeople(t *testing.T) {
	b := newBed(t)
	b.create(asked)
	_, err := b.Publish(t.Context(), "asked", -1)
	b.ok(err)
	const partitions = 200
	b.Partitions = partitions
	reads := 0
	b.Page = func(_ context.Context, partition int, _, after int64, f func(int64, *flow.Record) bool) (int64, error) {
		reads++
		if partition%100 != 1 {
			return 0, nil
		}
		for n := after + 1; n <= 9; n++ {
			r := journey.Record{State: journey.StateInside, Version: 1, Step: uint16(n % 3), Entered: 1}
			switch n {
			case 5:
				r.State = journey.StateExited
			case 6:
				r.State, r.Due = journey.StateWatching, uint32(b.clock.Now().Unix()) // and is out by now
			case 9:
				r.State, r.Due = journey.StateWatching, uint32(b.clock.Now().Unix())+1
			}
			if !f(n, (*flow.Record)(r.Append(nil))) {
				return n, nil
			}
		}
		return 0, nil
	}
	for name, x := range map[string]struct {
		asked PeopleAsked
		want  []int64 // of each of the two partitions that have some
	}{
		"all":     {PeopleAsked{Limit: 4}, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"at wait": {PeopleAsked{Step: "wait", Limit: 2}, []int64{2, 8}},
		"left":    {PeopleAsked{State: "exited", Limit: 100}, []int64{5}},
		"left at": {PeopleAsked{Step: "wait", State: "exited", Limit: 100}, []int64{5}},
		"watched": {PeopleAsked{State: "watching", Limit: 100}, []int64{9}},
		"out":     {PeopleAsked{State: "finished", Limit: 100}, []int64{6}},
		"nobody":  {PeopleAsked{Step: "last", Limit: 100}, nil},
	} {
		var got, want []user.ID
		for _, partition := range []int{1, 101} {
			for _, n := range x.want {
				want = append(want, user.ID{Partition: partition, Number: n})
			}
		}
		for pages := 0; pages == 0 || x.asked.After != ""; pages++ {
			reads = 0
			people, next, err := b.People(t.Context(), "asked", x.asked)
			b.ok(err)
			if len(people) > x.asked.Limit || reads > peopleReadsPage || pages > 50 {
				t.Fatalf("%s: %d people, %d reads, page %d", name, len(people), reads, pages)
			}
			for _, p := range people {
				got = append(got, p.ID)
			}
			x.asked.After = next
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	_, _, err = b.People(t.Context(), "asked", PeopleAsked{After: "x", Limit: 1})
	b.refused(err, sluice.CodeInvalid)
}

// A step that no version has is refused with the nearest one, and so is a state. One that
// an older version has, or the draft alone, is not.
func TestPeopleOfNoStep(t *testing.T) {
	b := newBed(t)
	j := b.create(asked)
	publish := func() {
		t.Helper()
		p, err := b.Publish(t.Context(), "asked", -1)
		b.ok(err)
		j = p.Journey
	}
	publish()
	_, err := b.Update(t.Context(), "asked", j.Revision, Written{Text: strings.ReplaceAll(asked, "last", "closing"), YAML: true})
	b.ok(err)
	publish()
	b.Page = func(context.Context, int, int64, int64, func(int64, *flow.Record) bool) (int64, error) { return 0, nil }
	for _, x := range []struct {
		asked PeopleAsked
		code  sluice.Code // empty: there is such a step
		says  string
	}{
		{PeopleAsked{Step: "wait"}, "", ""},
		{PeopleAsked{Step: "last", State: "exited"}, "", ""}, // of the version before
		{PeopleAsked{Step: "closing", State: StateOverdue}, "", ""},
		{PeopleAsked{Step: "wiat"}, sluice.CodeNotFound, `no step "wiat"; did you mean wait?`},
		{PeopleAsked{Step: "lasst", State: "finished"}, sluice.CodeNotFound, `no step "lasst"; did you mean last?`},
		{PeopleAsked{Step: "something-else"}, sluice.CodeNotFound, `no step "something-else"`},
		{PeopleAsked{State: "exitd"}, sluice.CodeInvalid, `no state "exitd"; did you mean exited?`},
	} {
		x.asked.Limit = 10
		people, _, err := b.People(t.Context(), "asked", x.asked)
		if x.code == "" {
			if err != nil || len(people) != 0 {
				t.Errorf("%+v: %v, %v", x.asked, people, err)
			}
			continue
		}
		b.refused(err, x.code)
		if !strings.HasSuffix(err.Error(), x.says) {
			t.Errorf("%+v: %v, want it to end with %s", x.asked, err, x.says)
		}
	}
}

// Who is watched no more has finished, also before a partition has moved the person.
func TestThePlaceOfWhoIsOut(t *testing.T) {
	b := newBed(t)
	b.create(tiny)
	_, err := b.Publish(t.Context(), "tiny", -1)
	b.ok(err)
	b.Ways = func(context.Context, user.ID, int64) ([]int, error) { return nil, nil }
	for after, want := range map[uint32]journey.State{0: journey.StateFinished, 1: journey.StateWatching} {
		record := journey.Record{State: journey.StateWatching, Version: 1, Due: uint32(b.clock.Now().Unix()) + after}
		b.Records = func(context.Context, user.ID, int64) (flow.Record, error) {
			return flow.Record(record.Append(nil)), nil
		}
		places, err := b.PlacesOf(t.Context(), user.ID{Number: 7})
		b.ok(err)
		if p := &places[0]; p.State != want || p.DueMillis != 0 == (want == journey.StateFinished) {
			t.Errorf("%d s before it is out: %+v, want %s", after, p, want)
		}
	}
}
