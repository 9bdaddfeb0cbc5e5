package run

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/store"
	"sluice/user"
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

// One sweep may find moments of two days, as behind a rest: each day has its limit.
func TestLimitOfASweepOfTwoDays(t *testing.T) {
	b := newBed(t, 0)
	changes := &user.Changes{}
	for n, zone := range []string{"UTC", "Asia/Tokyo", "UTC", "Asia/Tokyo"} {
		changes.Put = append(changes.Put, user.Row{ID: user.ID{Number: int64(n) + 1}, Profile: fmt.Sprintf(`{"fields":{"email":"z%d@example.com","time_zone":%q},"custom":{"plan":"free"}}`, n, zone)})
	}
	b.apply(&store.Effect{Users: changes})
	b.publish(strings.Replace(strings.Replace(limited, "{event: signup}", `{at: "2026-03-03 00:30", every: day, zone: user}`, 1), "limit: {per_day: 20, total: 50}", "limit: {per_run: 1}", 1))
	b.clock.Move(16 * time.Hour) // one o'clock in UTC, and ten in Tokyo
	b.passes(b.open())
	if f := b.read(); f.sends["z0@example.com"] != 1 || f.sends["z1@example.com"] != 1 || len(f.ids) != 2 {
		t.Errorf("mails %v, want one of each day", f.sends)
	}
}

// runs begins each day, and feeder leads into it at any time.
const runs = `
id: few
entry: {when: {at: "2026-03-03 08:00", every: day}, who: {attribute: plan, is: equals, value: free}, again_after: 0s, limit: {per_run: 700}}
steps:
  - {id: hello, message: {template: x}}
`
const feeder = `
id: feeder
entry: {when: {event: signup}}
steps:
  - {id: on, go: {journey: few}}
`

// Who comes from another journey while a run is under way comes by no run, and the run
// lets in no more for it.
func TestLimitOfARunBesideAGo(t *testing.T) {
	b := newBed(t, 3001)
	b.publish(runs)
	b.publish(feeder)
	p := b.open()
	b.passes(p)
	b.clock.Move(24 * time.Hour)
	if _, err := p.pass(t.Context()); err != nil { // the first piece of the run fills it
		t.Fatal(err)
	}
	if n := b.read().counts["journey/few/hello/entered"]; n != 700 {
		t.Fatalf("the first piece lets %d in, want 700: this test shows nothing", n)
	}
	b.enterSome(uint64(b.clock.Now().UnixMilli()), 3001, 3001)
	p.told = false // for an entry of the log
	b.passes(p)
	if n := b.read().counts["journey/few/hello/entered"]; n != 701 {
		t.Errorf("%d have entered, want 700 by the run and one by the other journey", n)
	}
}

// The room of a run that a session took whose commit never came is given back, whatever
// the next session does first.
func TestRoomOfARunIsGivenBack(t *testing.T) {
	b := newBed(t, 0)
	b.publish(runs)
	p := b.open()
	const run = 1772524800
	if n, err := p.takeRoom(t.Context(), p.journeys[0], run, 500); n != 500 || err != nil {
		t.Fatalf("took %d, %v", n, err)
	}
	successor := b.open()
	c := successor.begin()
	if err := c.set(t.Context(), successor.journeys[0], 1, &journey.Record{State: journey.StateFinished, Version: 1}); err != nil {
		t.Fatal(err)
	}
	if err := c.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := successor.takeRoom(t.Context(), successor.journeys[0], run, 1000); n != 700 || err != nil {
		t.Errorf("there is room for %d, %v; want 700", n, err)
	}
}

// What an earlier commit took stays taken, also if a later one that is lost took room by
// another limit alone.
func TestRoomThatWasTakenStaysTaken(t *testing.T) {
	b := newBed(t, 0)
	b.publish(strings.Replace(runs, "per_run: 700", "per_run: 700, total: 5000", 1))
	p := b.open()
	const run = 1772524800
	take := func(p *part, run uint32, want int) int {
		t.Helper()
		n, err := p.takeRoom(t.Context(), p.journeys[0], run, want)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	take(p, run, 500)
	c := p.begin()
	if err := c.set(t.Context(), p.journeys[0], 1, &journey.Record{State: journey.StateFinished, Version: 1}); err != nil {
		t.Fatal(err)
	}
	if err := c.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	take(p, 0, 1) // by an event, and its commit never comes
	for range 3 { // sessions that are lost too
		if n := take(b.open(), run, 1000); n != 200 {
			t.Errorf("there is room for %d, want 200", n)
		}
	}
}

// Partitions that are in two runs, as where mail waits in one, count each run for itself.
func TestPartitionsInTwoRuns(t *testing.T) {
	b := newBed(t, 0)
	b.publish(runs)
	p := b.open()
	in, other := p.journeys[0], b.otherLog(p.journeys[0])
	const run, next = 1772524800, 1772524800 + 86400
	got := [2]int{}
	for range 4 {
		n, err := p.takeRoom(t.Context(), in, run, 500)
		if err != nil {
			t.Fatal(err)
		}
		got[0] += n
		if n, err = other.Enter(t.Context(), in.number, 1, 500, in.current.limits(b.clock.Now(), next)); err != nil {
			t.Fatal(err)
		}
		got[1] += n
	}
	if got != [2]int{700, 700} {
		t.Errorf("%v have entered by two runs, want 700 each", got)
	}
}

// The limit of a run holds in whatever order partitions come to runs. Of a limit the last two
// periods are counted: an older one has no room any more, used up or not.
func TestPartitionsInThreeRuns(t *testing.T) {
	const first, second, third = "1772524800", "1772611200", "1772697600"
	for name, x := range map[string]struct {
		periods []string
		want    []int
	}{
		"in order":     {[]string{first, second, third, first, second, third, first}, []int{500, 500, 500, 0, 200, 200, 0}},
		"out of order": {[]string{second, first, third, second, third, first}, []int{500, 500, 500, 200, 200, 0}},
		"in between":   {[]string{first, third, second, third, second, first}, []int{500, 500, 500, 200, 200, 0}},
		"from zones":   {[]string{"2026-03-01", "2026-03-02", first, second, third, second}, []int{500, 500, 500, 500, 500, 200}},
	} {
		b := newBed(t, 0)
		b.publish(runs)
		in := b.open().journeys[0]
		other := b.otherLog(in)
		for i, period := range x.periods {
			n, err := other.Enter(t.Context(), in.number, 1, 500, []flow.EntryLimit{{Name: "run", Period: period, Most: 700}})
			if err != nil || n != x.want[i] {
				t.Errorf("%s: %s, the %d.: %d may enter, %v; want %d", name, period, i+1, n, err, x.want[i])
			}
		}
		// What was taken by no commit is given back, and nothing more.
		if err := other.CountEntered(t.Context(), in.number, 1, nil); err != nil {
			t.Fatal(err)
		}
		last := x.periods[len(x.periods)-2]
		if n, err := other.Enter(t.Context(), in.number, 1, 1000, []flow.EntryLimit{{Name: "run", Period: last, Most: 700}}); err != nil || n != 700 {
			t.Errorf("%s: given back, %d may enter, %v; want 700", name, n, err)
		}
	}
}

// The note of a partition has the periods that Redis counts, in whatever order they come: what
// has entered in them is not given back to a session that begins.
func TestNoteKeepsTheNewestPeriods(t *testing.T) {
	const first, second, third, day, next = "1772524800", "1772611200", "1772697600", "2026-03-01", "2026-03-02"
	for name, x := range map[string]struct {
		periods []string
		want    map[string]int64
	}{
		"in order":     {[]string{first, second, third, second}, map[string]int64{second: 2, third: 1}},
		"one of old":   {[]string{first, second, third, first, third}, map[string]int64{second: 1, third: 2}},
		"out of order": {[]string{second, first, third, second}, map[string]int64{second: 2, third: 1}},
		"in between":   {[]string{first, third, second, third}, map[string]int64{second: 1, third: 2}},
		"newest first": {[]string{third, first, second, third}, map[string]int64{second: 1, third: 2}},
		"from zones":   {[]string{day, next, first, second, first}, map[string]int64{first: 2, second: 1}},
		"to zones":     {[]string{first, second, day, next, day}, map[string]int64{day: 2, next: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 0)
			b.publish(runs)
			in := b.open().journeys[0]
			other := b.otherLog(in)
			noted := make(let)
			for _, period := range x.periods {
				n, err := other.Enter(t.Context(), in.number, 1, 1, []flow.EntryLimit{{Name: "run", Period: period, Most: 700}})
				if err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					noted.add("run", period, int64(n))
				}
			}
			got := make(map[string]int64)
			for _, c := range noted.counts(other.Partition()) {
				got[c.Period] = c.Count
			}
			if !maps.Equal(got, x.want) {
				t.Errorf("noted are %v, want %v", got, x.want)
			}
			if err := other.CountEntered(t.Context(), in.number, 1, noted.counts(other.Partition())); err != nil {
				t.Fatal(err)
			}
			for period, many := range x.want {
				n, err := other.Enter(t.Context(), in.number, 1, 1000, []flow.EntryLimit{{Name: "run", Period: period, Most: 700}})
				if err != nil || int64(n) != 700-many {
					t.Errorf("%s: %d may enter behind a session, %v; want %d", period, n, err, 700-many)
				}
			}
		})
	}
	noted := let{"run": {{Period: second, Count: 1}, {Period: third, Count: 1}}}
	noted.add("run", first, 1)
	if got := noted["run"]; len(got) != letPeriods || got[0].Period != second || got[1].Period != third {
		t.Errorf("a period older than both is noted: %v", got)
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
		n, err := p.takeRoom(t.Context(), p.journeys[0], 0, want)
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
	if n, err := b.otherLog(in).Enter(t.Context(), in.number, 1, 5, in.current.limits(b.clock.Now(), 0)); n != 0 || err != nil {
		t.Errorf("another partition takes %d, %v; want none", n, err)
	}
	b.clock.Move(24 * time.Hour)
	if n := take(third, 5) + take(third, 100); n != 20 {
		t.Errorf("on the next day there is room for %d, want 20", n)
	}
}

// otherLog is the log of the other partition, where session 1 may take room.
func (b *bed) otherLog(in *inside) *flow.Log {
	b.Helper()
	other := flow.NewLog(b.redis, flow.Partitions(bedPartitions)[1])
	if err := other.CountEntered(b.Context(), in.number, 1, nil); err != nil {
		b.Fatal(err)
	}
	return other
}

// forget takes from Redis all that it has of journeys of both partitions, and how many have
// entered them.
func (b *bed) forget(journeys ...store.Journey) {
	b.Helper()
	b.empty()
	if err := flow.NewLog(b.redis, flow.Partitions(bedPartitions)[1]).ClearJourneys(b.Context(), 0); err != nil {
		b.Fatal(err)
	}
	client, err := rueidis.NewClient(rueidis.MustParseURL(b.server.URL()))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	for _, j := range journeys {
		key := fmt.Sprintf("sluice:{members}:entries:%d", j.Number)
		if n, err := client.Do(b.Context(), client.B().Del().Key(key).Build()).AsInt64(); err != nil || n != 1 {
			b.Fatalf("forget %s: %d, %v", key, n, err)
		}
	}
}

// How many have entered is in the checkpoint: an emptied Redis lets in no more for it, on
// the same day and in all.
func TestLimitsOutliveAnEmptiedRedis(t *testing.T) {
	b := newBed(t, 300)
	j := b.publish(limited)
	for day, want := range []int{20, 40, 50} {
		p := b.open()
		for half := range int64(2) { // of 60 people 40 are free
			from := int64(day)*120 + half*60 + 1
			b.enterSome(uint64(day)*2+uint64(half)+1, from, min(from+59, 300))
			b.passes(p)
			if f := b.read(); len(f.ids) != want {
				t.Errorf("day %d, half %d: %d have entered, want %d", day, half, len(f.ids), want)
			}
			b.mustSave(p)
			b.forget(j)
			if _, err := p.takeRoom(t.Context(), p.journeys[0], 0, 1); !errors.Is(err, sluice.ErrConflict) {
				t.Errorf("a session of before takes room: %v", err)
			}
			p = b.open()
		}
		b.clock.Move(24 * time.Hour)
	}
}

// The first partition that comes back counts for the others as well, and each counts once.
func TestLimitsOfPartitionsThatComeBackLater(t *testing.T) {
	b := newBed(t, 0)
	j := b.publish(limited)
	take := func(p *part, want int) int {
		t.Helper()
		n, err := p.takeRoom(t.Context(), p.journeys[0], 0, want)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, x := range []struct {
		p *part
		n int
	}{{b.open(), 8}, {b.other(), 7}} {
		take(x.p, x.n)
		if err := x.p.begin().commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		take(x.p, 1) // its commit never comes
		b.mustSave(x.p)
	}
	b.forget(j)
	if n := take(b.open(), 100); n != 5 {
		t.Errorf("the first partition has room for %d, want 5", n)
	}
	if n := take(b.other(), 100); n != 0 { // the first may still commit
		t.Errorf("the other partition has room for %d, want none", n)
	}
	if n := take(b.open(), 2) + take(b.other(), 100); n != 5 { // it has not
		t.Errorf("behind a session that is lost there is room for %d, want 5", n)
	}
}
