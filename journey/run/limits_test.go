package run

import (
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/store"
)

const limited = `
id: few
entry: {when: {event: signup}, who: {attribute: plan, is: equals, value: free}, limit: {per_day: 20, total: 50}}
steps:
  - {id: hello, message: {template: x}}
`

// enterSome has facts let people in.
func (b *bed) enterSome(major uint64, from, to int64) {
	b.Helper()
	var facts []journey.Fact
	for n := from; n <= to; n++ {
		facts = append(facts, journey.Fact{Place: sluice.Place{Position: sluice.Position{Major: major, Minor: uint64(n)}}, Number: n, Kind: journey.FactEvent, Name: "signup", TimeMillis: 1})
	}
	b.apply(&store.Effect{JourneyFacts: facts})
}

// As many enter as the limits of the day and of all days let in, not one less for those of
// whom the rule does not hold, nor for sessions that end in the middle. The others are
// counted.
func TestEntryLimits(t *testing.T) {
	b := newBed(t, 300)
	b.publish(limited)
	for day, want := range []int{20, 40, 50, 50} {
		b.enterSome(uint64(day)+1, int64(day)*60+1, int64(day)*60+60) // 40 of them are free
		b.endAnywhere()
		f := b.read()
		if len(f.ids) != want || len(f.sends) != want {
			t.Errorf("day %d: %d have entered, want %d", day, len(f.sends), want)
		}
		if left := int(f.counts["journey/few/hello/limited"]); left != 40*(day+1)-want {
			t.Errorf("day %d: %d are counted as limited, want %d", day, left, 40*(day+1)-want)
		}
		b.clock.Move(24 * time.Hour)
	}
}

// A run has a limit of its own, and each run has it anew.
func TestLimitOfARun(t *testing.T) {
	b := newBed(t, 3000)
	b.publish(strings.Replace(strings.Replace(limited, "{event: signup}", `{at: "2026-03-03 08:00", every: day}`, 1), "limit: {per_day: 20, total: 50}", "again_after: 0s, limit: {per_run: 700}", 1))
	for day := range 3 {
		b.endAnywhere()
		if f := b.read(); len(f.ids) != 700*day {
			t.Errorf("behind %d runs %d mails, want %d", day, len(f.ids), 700*day)
		}
		b.clock.Move(24 * time.Hour)
	}
}

// Room is one for all partitions and sessions: they never take more than there is. What a
// session took whose commit never came is given back, and what came stays taken.
func TestRoomIsOneForAll(t *testing.T) {
	b := newBed(t, 0)
	b.publish(limited)
	p := b.open()
	in := p.journeys[0]
	take := func(p *part, want int) int {
		t.Helper()
		n, err := p.takeRoom(t.Context(), in, 0, want)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := take(p, 15); n != 15 {
		t.Errorf("took %d, want 15", n)
	}
	came := func(p *part, number int64) { // a commit that lets nobody in
		t.Helper()
		c := p.begin()
		if err := c.set(t.Context(), p.journeys[0], number, &journey.Record{State: journey.StateFinished, Version: 1}); err != nil {
			t.Fatal(err)
		}
		if err := c.commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	successor := b.open() // the first session made no commit
	came(successor, 1)
	if n := take(successor, 30); n != 20 {
		t.Errorf("behind a session that is lost there is room for %d, want 20", n)
	}
	came(successor, 2)
	third := b.open()
	if n := take(third, 1); n != 0 {
		t.Errorf("behind a commit there is room for %d, want none", n)
	}
	other := flow.NewLog(b.redis, flow.Partitions(bedPartitions)[1])
	if n, err := other.Enter(t.Context(), in.number, sluice.Position{Major: 1, Minor: 1}, 5, in.current.limits(b.clock.Now(), 0)); n != 0 || err != nil {
		t.Errorf("another partition takes %d, %v; want none", n, err)
	}
	b.clock.Move(24 * time.Hour)
	if n := take(third, 5) + take(third, 100); n != 20 {
		t.Errorf("on the next day there is room for %d, want 20", n)
	}
}
