package run

import (
	"maps"
	"testing"
	"time"

	"sluice/flow"
	"sluice/journey"
	"sluice/store"
)

// inSteps is what the notes of the partition say of a journey, and what its records say.
func (b *bed) inSteps(j store.Journey, steps ...string) (noted, is journey.InSteps) {
	b.Helper()
	fields, err := b.log.JourneyFields(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if noted, err = journey.ReadInSteps(flow.NoteIn(fields, journey.InStepsNote(j.Number))); err != nil {
		b.Fatal(err)
	}
	is = make(journey.InSteps)
	for _, r := range b.records(j) {
		if r.State == journey.StateInside {
			is[steps[r.Step]]++
		}
	}
	return noted, is
}

// How many people are in a step is noted with where they are: at each time, behind a
// recovery that has steps taken again, where a process has kept no notes, and at a stop.
func TestHowManyAreInSteps(t *testing.T) {
	const people = 300
	b := newBed(t, people)
	j := b.publish(welcome)
	steps := []string{"pause", "split", "thanks", "remind", "later", "last"}
	check := func(when string, want journey.InSteps) {
		t.Helper()
		noted, is := b.inSteps(j, steps...)
		if !maps.Equal(noted, want) || !maps.Equal(is, want) {
			t.Errorf("%s: noted %v, by records %v, want %v", when, noted, is, want)
		}
	}
	b.enterAll(people)
	p := b.open()
	b.passes(p)
	check("entered", journey.InSteps{"pause": people})
	b.mustSave(p)
	b.clock.Move(time.Hour)
	b.passes(p)
	check("moved", journey.InSteps{"later": people * 2 / 3})
	b.empty()
	p = b.open()
	check("recovered", journey.InSteps{"pause": people})
	b.passes(p)
	check("moved again", journey.InSteps{"later": people * 2 / 3})
	if n := b.read().counts["journey/welcome/later/entered"]; n != people*4/3 {
		t.Errorf("%d were counted to enter the step, want %d: those of the lost minute twice", n, people*4/3)
	}
	c := p.begin()
	c.notes = append(c.notes, b.log.Note(journey.InStepsNote(j.Number), `{"pause":7}`)) // as if another program had moved people since
	if err := c.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.open()
	check("another process", journey.InSteps{"later": people * 2 / 3})
	b.status("welcome", journey.StatusStopped)
	b.passes(b.open())
	check("stopped", journey.InSteps{})
}
