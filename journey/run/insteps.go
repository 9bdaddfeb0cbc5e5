package run

import (
	"context"

	"sluice/flow"
	"sluice/journey"
)

// countSteps counts who is in which step, of a unit as it was read at the beginning. So a
// session begins with what is true, whatever the notes say that it finds.
func (in *inside) countSteps(u *flow.Unit) {
	if u.IsWays() {
		return
	}
	var version uint8 // of nearly all in a unit it is the same
	var people [journey.MaxSteps]int64
	add := func() {
		for step, n := range people {
			if n > 0 {
				in.steps[placeOf{version, uint16(step)}] += n
			}
		}
	}
	u.Each(func(_ int64, raw *flow.Record) {
		at, step, inside := journey.StepOf(raw[:])
		if !inside {
			return
		}
		if at != version {
			add()
			version, people = at, [journey.MaxSteps]int64{}
		}
		people[step]++
	})
	add()
}

// stepChange is how many more are in a step by a change.
type stepChange struct {
	in     *inside
	at     placeOf
	people int64
}

// stepsSearched is how many of the steps of a change are searched for one that has moved
// somebody before. Others may stand there twice: all are added up.
const stepsSearched = 32

// countStep counts that somebody's record changes. Ten million do so in a wave: without maps.
func (c *change) countStep(in *inside, before, after *flow.Record) {
	version, was, leaves := journey.StepOf(before[:])
	now, is, comes := journey.StepOf(after[:])
	if leaves == comes && version == now && was == is {
		return
	}
	if leaves {
		c.addStep(in, placeOf{version, uint16(was)}, -1)
	}
	if comes {
		c.addStep(in, placeOf{now, uint16(is)}, 1)
	}
}

func (c *change) addStep(in *inside, at placeOf, people int64) {
	for i := range c.steps[:min(len(c.steps), stepsSearched)] {
		if s := &c.steps[i]; s.at == at && s.in == in {
			s.people += people
			return
		}
	}
	c.steps = append(c.steps, stepChange{in, at, people})
}

// takeSteps takes what a change counts of the journey, which is about to be committed, and
// reports whether anything has changed.
func (in *inside) takeSteps(changes []stepChange) (changed bool) {
	for _, s := range changes {
		if s.in != in || s.people == 0 {
			continue
		}
		changed = true
		if in.steps[s.at] += s.people; in.steps[s.at] == 0 {
			delete(in.steps, s.at)
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
