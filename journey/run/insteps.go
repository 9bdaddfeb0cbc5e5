package run

import (
	"context"

	"sluice/flow"
	"sluice/journey"
)

// stepOf is the step that somebody is in, by the bytes of the record.
func stepOf(raw *flow.Record) (at placeOf, inside bool) {
	var r journey.Record
	if r.Decode(raw[:]) != nil || r.State != journey.StateInside {
		return at, false
	}
	return placeOf{r.Version, r.Step}, true
}

// countSteps counts who is in which step, of a unit as it was read at the beginning. So a
// session begins with what is true, whatever the notes say that it finds.
func (in *inside) countSteps(u *flow.Unit) {
	if u.IsWays() {
		return
	}
	var last placeOf
	n := int64(0)
	u.Each(func(_ int64, raw *flow.Record) { // mostly many in a row are in the same
		at, inside := stepOf(raw)
		if !inside {
			return
		}
		if at != last && n > 0 {
			in.steps[last] += n
			n = 0
		}
		last, n = at, n+1
	})
	if n > 0 {
		in.steps[last] += n
	}
}

// countStep counts that somebody's record changes.
func (c *change) countStep(in *inside, before, after *flow.Record) {
	was, leaves := stepOf(before)
	is, comes := stepOf(after)
	if leaves == comes && was == is {
		return
	}
	if c.steps == nil {
		c.steps = make(map[*inside]map[placeOf]int64)
	}
	if c.steps[in] == nil {
		c.steps[in] = make(map[placeOf]int64)
	}
	if leaves {
		c.steps[in][was]--
	}
	if comes {
		c.steps[in][is]++
	}
}

// takeSteps takes what a change counts, which is about to be committed, and reports whether
// anything has changed.
func (in *inside) takeSteps(changes map[placeOf]int64) (changed bool) {
	for at, n := range changes {
		if n == 0 {
			continue
		}
		changed = true
		if in.steps[at] += n; in.steps[at] == 0 {
			delete(in.steps, at)
		}
	}
	return changed
}

// inSteps is the note of the journey. Of a version that is not known no step has a name.
func (in *inside) inSteps() string {
	all := make(journey.InSteps)
	for at, n := range in.steps {
		if v := in.versions[at.version]; v != nil && int(at.step) < len(v.walk.Plan().Steps) {
			all[v.walk.Plan().Steps[at.step].ID] += n
		}
	}
	return all.Text()
}

// openSteps notes who is in which step where Redis has something else: a process of before
// has kept no such notes.
func (p *part) openSteps(ctx context.Context, fields map[string]string) error {
	c := p.begin()
	note := func(name, text string) {
		if flow.NoteIn(fields, name) != text {
			c.notes = append(c.notes, p.log.Note(name, text))
		}
	}
	note(journey.InStepsKept, "1")
	for _, in := range p.journeys {
		note(journey.InStepsNote(in.number), in.inSteps())
	}
	return c.commit(ctx)
}
