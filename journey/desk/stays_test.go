package desk

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
)

const staying = `
id: staying
entry: {when: {event: signup}}
steps:
  - {id: pause, delay: {for: 1h}, next: mail}
  - {id: mail, message: {template: hello}, next: more}
  - {id: more, message: {template: hello, version: 1, priority: low}}
`

// at has people of partition 1 stand at steps, by their numbers.
func (b *bed) at(chunks int, records ...journey.Record) (reads *atomic.Int64) {
	reads = new(atomic.Int64)
	b.Partitions = 3
	b.Page = func(_ context.Context, partition int, _, after int64, f func(int64, *flow.Record) bool) (int64, error) {
		reads.Add(1)
		if partition != 1 {
			return 0, nil
		}
		for i := range records {
			if !f(after+int64(i)+1, (*flow.Record)(records[i].Append(nil))) {
				break
			}
		}
		if chunks--; chunks <= 0 {
			return 0, nil
		}
		return after + int64(len(records)), nil
	}
	return reads
}

// count counts what has happened under a name.
func (b *bed) count(name string, n int64) {
	b.Helper()
	e, err := b.store.Prepare(&store.Effect{Counts: []sluice.Count{{Kind: sluice.KindSystem, Name: name, TimeMillis: b.clock.Now().UnixMilli(), By: n}}})
	b.ok(err)
	_, err = b.store.Apply(b.Context(), e)
	b.ok(err)
}

// Who asks for a journey is told at which steps people stay who are due: how many, since
// when and why, of versions before too; and of steps whose mail cannot be made before
// anybody is there.
func TestStays(t *testing.T) {
	b := newBed(t)
	j := b.create(staying)
	_, err := b.Publish(t.Context(), "staying", -1)
	b.ok(err)
	now := b.clock.Now()
	due := func(version uint8, step uint16, ago time.Duration) journey.Record {
		return journey.Record{State: journey.StateInside, Version: version, Step: step, Entered: 1, Due: uint32(now.Add(-ago).Unix())}
	}
	watching := due(1, 1, time.Hour)
	watching.State = journey.StateWatching
	b.at(1, due(1, 0, -time.Hour), due(1, 1, 2*time.Minute), due(1, 1, 3*time.Minute), due(1, 1, 0), due(1, 2, time.Minute), due(1, 2, -time.Minute), watching, due(1, 0, time.Hour))
	waiting := map[string]int64{"low-marketing": 255, "low-marketing@route": 2048, "normal-marketing": 5, "normal-marketing@" + mail.PausedLane + "x": 9999, "normal-marketing@example.com": 2047, "normal-marketing@tag:other": 9999}
	b.Lanes = func(context.Context, int) (map[string]int64, error) { return waiting, nil }
	since := func(ago time.Duration) int64 { return now.Add(-ago).UnixMilli() }
	check := func(want ...Stay) {
		t.Helper()
		s, err := b.Show(t.Context(), "staying", 0)
		b.ok(err)
		b.ok(s.StaysUnknown)
		for i := range want {
			if i < len(s.Stays.Steps) && want[i].Why == "" {
				want[i].Why = s.Stays.Steps[i].Why
			}
		}
		if len(want) == 0 && len(s.Stays.Steps) == 0 {
			return
		}
		if !reflect.DeepEqual(s.Stays.Steps, want) {
			t.Fatalf("%+v, want %+v", s.Stays.Steps, want)
		}
	}
	check() // nobody waits at a message step by the counts: nothing is read
	b.count("journey/staying/mail/entered", 4)
	check(Stay{Step: "mail", People: 2, SinceMillis: since(3 * time.Minute), Reason: StayTurn, Why: whyStay[StayTurn]},
		Stay{Step: "more", People: 1, SinceMillis: since(time.Minute), Reason: StayRoom, Why: whyStay[StayRoom]})
	_, err = b.SetStatus(t.Context(), "staying", Pause)
	b.ok(err)
	check(Stay{Step: "pause", People: 1, SinceMillis: since(time.Hour), Reason: StayPaused}, Stay{Step: "mail", People: 3, SinceMillis: since(3 * time.Minute), Reason: StayPaused}, Stay{Step: "more", People: 1, SinceMillis: since(time.Minute), Reason: StayPaused})
	_, err = b.Resume(t.Context(), "staying", OverdueSend)
	b.ok(err)

	// By another version of the template no mail can be made. People of a version before
	// stay, and so will those of the one that names a rate.
	_, err = b.Update(t.Context(), "staying", b.get(j.ID).Revision, Written{Text: staying + "limits: {per_minute: 5}\n", YAML: true})
	b.ok(err)
	_, err = b.Publish(t.Context(), "staying", -1)
	b.ok(err)
	_, err = b.store.AddTemplateVersion(t.Context(), "", mail.TemplateVersion{Template: "hello", Class: mail.ClassMarketing, Subject: "s", Text: "t", From: "{{ sender }}"})
	b.ok(err)
	waiting = nil
	check(Stay{Step: "mail", People: 3, SinceMillis: since(3 * time.Minute), Reason: StayNoMail}, Stay{Step: "more", People: 1, SinceMillis: since(time.Minute), Reason: StayRate})
	b.at(1)
	check(Stay{Step: "mail", Reason: StayNoMail})
	s, err := b.Show(t.Context(), "staying", 0)
	b.ok(err)
	if !strings.Contains(s.Stays.Steps[0].Why, "no sender") {
		t.Error(s.Stays.Steps[0].Why)
	}

	// All else is shown if Redis is away, and a large journey is not read to its end.
	b.Page = func(context.Context, int, int64, int64, func(int64, *flow.Record) bool) (int64, error) {
		return 0, errors.New("redis is away")
	}
	if s, err = b.Show(t.Context(), "staying", 0); err != nil || s.StaysUnknown == nil || len(s.Counts.Steps) != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	reads := b.at(1000, due(2, 1, time.Minute))
	if s, err = b.Show(t.Context(), "staying", 0); err != nil || !s.Stays.More || s.Stays.Steps[0].People != staysChunks+1 || reads.Load() != int64(staysChunks+b.Partitions) {
		t.Errorf("%+v, %v after %d reads", s.Stays, err, reads.Load())
	}
}

// In a paused journey people stay at any step, also if none of those has a message.
func TestStaysOfAPausedJourney(t *testing.T) {
	b := newBed(t)
	b.create(staying)
	_, err := b.Publish(t.Context(), "staying", -1)
	b.ok(err)
	now := b.clock.Now()
	reads := b.at(1, journey.Record{State: journey.StateInside, Version: 1, Entered: 1, Due: uint32(now.Add(-time.Hour).Unix())},
		journey.Record{State: journey.StateInside, Version: 1, Entered: 1, Due: uint32(now.Add(time.Hour).Unix())})
	b.count("journey/staying/pause/entered", 2)
	for _, paused := range []bool{false, true} {
		if paused {
			_, err = b.SetStatus(t.Context(), "staying", Pause)
			b.ok(err)
		}
		s, err := b.Show(t.Context(), "staying", 0)
		b.ok(err)
		var want []Stay
		if paused {
			want = []Stay{{Step: "pause", People: 1, SinceMillis: now.Add(-time.Hour).UnixMilli(), Reason: StayPaused, Why: whyStay[StayPaused]}}
		}
		if fmt.Sprint(s.Stays.Steps) != fmt.Sprint(want) || (reads.Load() > 0) != paused {
			t.Errorf("paused %v: %+v after %d reads, want %+v", paused, s.Stays.Steps, reads.Load(), want)
		}
	}
}

// Of many partitions only some chunks are in memory at a time, and all are looked at.
func TestStaysOfManyPartitions(t *testing.T) {
	b := newBed(t)
	b.create(staying)
	_, err := b.Publish(t.Context(), "staying", -1)
	b.ok(err)
	b.count("journey/staying/mail/entered", 4)
	r := journey.Record{State: journey.StateInside, Version: 1, Step: 1, Entered: 1, Due: uint32(b.clock.Now().Add(-time.Minute).Unix())}
	var read atomic.Int64
	b.Partitions = 3*partitionsAtOnce + 1
	b.Page = func(_ context.Context, _ int, _, _ int64, f func(int64, *flow.Record) bool) (int64, error) {
		read.Add(1)
		f(1, (*flow.Record)(r.Append(nil)))
		return 0, nil
	}
	looked, most := 0, 0
	b.Lanes = func(_ context.Context, partition int) (map[string]int64, error) {
		if partition != looked {
			t.Errorf("partition %d is looked at, want %d", partition, looked)
		}
		most = max(most, int(read.Load())-looked)
		looked++
		return nil, nil
	}
	s, err := b.Show(t.Context(), "staying", 0)
	b.ok(err)
	b.ok(s.StaysUnknown)
	if looked != b.Partitions || most != partitionsAtOnce || len(s.Stays.Steps) != 1 || s.Stays.Steps[0].People != int64(b.Partitions) {
		t.Errorf("%d partitions were looked at, %d chunks were in memory at a time: %+v", looked, most, s.Stays)
	}
}

// Who goes on into a journey that was not published, or is paused, stays at that step. It is
// named also before anybody is there.
func TestStaysBeforeAClosedJourney(t *testing.T) {
	b := newBed(t)
	const leads = "id: leads\nentry: {when: {event: signup}}\nsteps:\n  - {id: on, go: {journey: closed}}\n"
	const other = "id: closed\nentry: {when: {api: true}}\nsteps:\n  - {id: pause, delay: {for: 1h}}\n"
	b.create(other)
	b.create(leads)
	_, err := b.Publish(t.Context(), "leads", -1)
	b.ok(err)
	check := func(people int64, why string) {
		t.Helper()
		s, err := b.Show(t.Context(), "leads", 0)
		b.ok(err)
		b.ok(s.StaysUnknown)
		if why == "" && len(s.Stays.Steps) == 0 {
			return
		}
		if len(s.Stays.Steps) != 1 || !strings.Contains(s.Stays.Steps[0].Why, why) {
			t.Fatalf("%+v, want that it %s", s.Stays.Steps, why)
		}
		want := Stay{Step: "on", People: people, Reason: StayJourney, Why: s.Stays.Steps[0].Why}
		if s.Stays.Steps[0] != want {
			t.Errorf("%+v, want %+v", s.Stays.Steps[0], want)
		}
	}
	due := uint32(b.clock.Now().Add(journey.LookAgain - time.Second).Unix())
	b.at(1)
	check(0, "was not published")
	b.at(1, journey.Record{State: journey.StateInside, Version: 1, Entered: 1, Due: due}, journey.Record{State: journey.StateInside, Version: 1, Entered: 1, Due: due})
	check(2, "was not published")
	_, err = b.Publish(t.Context(), "closed", -1)
	b.ok(err)
	check(0, "")
	_, err = b.SetStatus(t.Context(), "closed", Pause)
	b.ok(err)
	check(2, "is paused")
	// People of a version before stay, though the step leads elsewhere by now.
	b.create(strings.Replace(other, "id: closed", "id: open", 1))
	_, err = b.Publish(t.Context(), "open", -1)
	b.ok(err)
	_, err = b.Update(t.Context(), "leads", b.get("leads").Revision, Written{Text: strings.Replace(leads, "journey: closed", "journey: open", 1), YAML: true})
	b.ok(err)
	_, err = b.Publish(t.Context(), "leads", -1)
	b.ok(err)
	b.count("journey/leads/on/entered", 2)
	check(2, "is paused")
	_, err = b.SetStatus(t.Context(), "closed", Stop)
	b.ok(err)
	check(0, "") // they go on
}

// How many are in a step is what partitions have noted with the records. What was counted is
// shown where one keeps no notes.
func TestWaitingIsWhereThePeopleAre(t *testing.T) {
	b := newBed(t)
	j := b.create(staying)
	_, err := b.Publish(t.Context(), "staying", -1)
	b.ok(err)
	b.count("journey/staying/pause/entered", 10)
	b.count("journey/staying/mail/entered", 8)
	b.count("journey/staying/pause/passed", 8)
	notes := [][2]string{{`{"pause":1,"more":2}`, "1"}, {"", "1"}, {`{"pause":2,"gone":1}`, ""}}
	b.Partitions = len(notes)
	b.Notes = func(_ context.Context, partition int) (map[string]string, error) {
		fields := make(map[string]string)
		flow.SetNote(fields, journey.InStepsNote(j.Number), notes[partition][0])
		flow.SetNote(fields, journey.InStepsKept, notes[partition][1])
		return fields, nil
	}
	check := func(want ...StepCounts) {
		t.Helper()
		s, err := b.Show(t.Context(), "staying", 0)
		b.ok(err)
		b.ok(s.StaysUnknown)
		var got []StepCounts
		for _, c := range s.Counts.Steps {
			got = append(got, StepCounts{Step: c.Step, Entered: c.Entered, Waiting: c.Waiting})
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	check(StepCounts{Step: "pause", Entered: 10, Waiting: 2}, StepCounts{Step: "mail", Entered: 8, Waiting: 8}, StepCounts{Step: "more"})
	notes[2][1] = "1"
	check(StepCounts{Step: "pause", Entered: 10, Waiting: 3}, StepCounts{Step: "mail", Entered: 8}, StepCounts{Step: "more", Waiting: 2}, StepCounts{Step: "gone", Waiting: 1})
}

// Of what partitions have noted only what is asked for is in memory, of all of them at once.
func TestNotesAreThoseOfOneJourney(t *testing.T) {
	b := newBed(t)
	b.Partitions = 2
	b.Notes = func(_ context.Context, partition int) (map[string]string, error) {
		fields := map[string]string{"7": "3"}
		flow.SetNote(fields, journey.RunsNote(7), fmt.Sprint("run of ", partition))
		flow.SetNote(fields, journey.RunsNote(8), "of another journey")
		return fields, nil
	}
	all, err := b.notes(t.Context(), journey.RunsNote(7), journey.InStepsKept)
	b.ok(err)
	for partition, fields := range all {
		if got := flow.NoteIn(fields, journey.RunsNote(7)); got != fmt.Sprint("run of ", partition) || flow.NoteIn(fields, journey.InStepsKept) != "" || len(fields) != 2 {
			t.Errorf("of partition %d: %v", partition, fields)
		}
	}
}
