package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
)

// KeepWays keeps the first ways that differ, so many at most. Those of people who never
// entered are left out.
func (o *Outcome) KeepWays(most int) {
	seen := make(map[string]bool)
	o.Ways = slices.DeleteFunc(o.Ways, func(w Way) bool {
		var name strings.Builder
		for _, m := range w.Moves {
			what, _, _ := strings.Cut(m.What, " until ")
			fmt.Fprintf(&name, "%s/%s/%s ", m.Step, what, m.Path)
		}
		again := seen[name.String()] || len(w.Moves) == 0 || len(seen) >= most
		if !again {
			seen[name.String()] = true
		}
		return again
	})
}

// MaxMoves bounds the way of a person that is told: what comes behind it is counted alone.
const MaxMoves = 1000

// note tells the way of a sample: the counts of one person, in the order of the way.
func (r *runner) note(way *Way, person int32, before *journey.Record, now time.Time) {
	if len(way.Moves) >= MaxMoves {
		return
	}
	add := func(step, what, path string) { way.Moves = append(way.Moves, Move{now, step, what, path}) }
	steps := r.in.Plan.Steps
	at, after := int(before.Step), &r.records[person]
	enters := r.out.Counts[step.Count{Step: 0, Path: -1, What: step.Entered}] > 0 && before.State != journey.StateInside
	if enters {
		at = 0
		add("", "entered", "")
	}
	if r.out.Counts[step.Count{Step: 0, Path: -1, What: step.Held}] > 0 {
		add("", "entered the control group", "")
	}
	for range steps {
		to, ok := r.noteStep(at, add)
		if !ok || to == plan.Out {
			break
		}
		at = to
	}
	for i := range r.in.Plan.Conversions {
		if c := (step.Count{Step: 0, Path: i, What: step.Converted}); r.out.Counts[c] > 0 {
			add("", "converted", r.in.Plan.Conversions[i].Name)
		}
	}
	switch {
	case after.State == journey.StateInside && after.Due != before.Due:
		add(steps[after.Step].ID, "waits until "+time.Unix(int64(after.Due), 0).UTC().Format(time.DateTime), "")
	case (enters || before.State == journey.StateInside) && (after.State == journey.StateFinished || after.State == journey.StateWatching):
		add("", "finished", "")
	}
}

// noteStep tells one step, and where the way goes on.
func (r *runner) noteStep(at int, add func(step, what, path string)) (to int, ok bool) {
	s := &r.in.Plan.Steps[at]
	for _, did := range r.out.Mails {
		if did.Step == at {
			add(s.ID, "mail", "")
		}
	}
	if why := r.noMail(at); why != "" {
		add(s.ID, "no mail: "+why, "")
	}
	if r.out.Counts[step.Count{Step: at, Path: -1, What: step.Exited}] > 0 {
		add(s.ID, "exited", "")
		return 0, false
	}
	for n := range s.Paths {
		if r.out.Counts[step.Count{Step: at, Path: n, What: step.Passed}] > 0 {
			add(s.ID, "passed", s.Paths[n].Name)
			return s.Paths[n].Next, true
		}
	}
	if r.out.Counts[step.Count{Step: at, Path: -1, What: step.Passed}] == 0 {
		return 0, false
	}
	to = s.Next
	if s.Delay != nil && s.Delay.Date != nil && (to == plan.Out || r.out.Counts[step.Count{Step: to, Path: -1, What: step.Entered}] == 0) {
		to = s.Delay.Date.Otherwise
	}
	name := ""
	if len(s.Paths) > 0 {
		name = s.OtherwiseName()
	}
	add(s.ID, "passed", name)
	return to, true
}

// noMail is why a step made no mail for a sample, empty: it made one, or there is none.
func (r *runner) noMail(at int) string {
	for _, c := range r.unmade {
		switch {
		case c.Step != at:
		case c.What == step.Capped:
			return "as many as caps allow were got"
		case c.What == step.Withheld:
			return "in the control group of all journeys"
		default:
			return "there is no address, or it is not wanted"
		}
	}
	if r.out.Counts[step.Count{Step: at, Path: -1, What: step.LeftOut}] > 0 {
		return "the quiet hours"
	}
	return ""
}
