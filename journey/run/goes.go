package run

import (
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
)

// placeOf is a step of a version.
type placeOf struct {
	version uint8
	step    uint16
}

// findGoes finds the steps that lead to a journey that is there and not paused. People
// who wait at one of them, for they came before, go on at once: a publish begins all
// sessions anew. So does a change by which mail can be made again. At a step that leads
// elsewhere, or of which mail cannot be made, people stay as long as the session lasts. They
// are due since they came: that is what their mail must not be too late for (latest), and by
// that the mail of the other journey is named, whenever they go on.
func (in *inside) findGoes(byID map[string]*inside) {
	in.goes, in.stay, in.closed = make(map[placeOf]bool), make(map[placeOf]bool), make(map[placeOf]bool)
	for place, v := range in.versions {
		for at := range v.stay {
			in.stay[placeOf{place, uint16(at)}] = true
		}
		steps := v.walk.Plan().Steps
		for i := range steps {
			if steps[i].Kind != plan.StepGo {
				continue
			}
			if to := byID[steps[i].Journey]; to != nil && !to.paused {
				in.goes[placeOf{place, uint16(i)}] = true
			} else {
				in.closed[placeOf{place, uint16(i)}] = true
			}
		}
	}
}

// stops reports whether somebody is to be taken out because the journey was stopped. Of a
// version that is not known nothing can be counted: such people are looked at when due.
func (in *inside) stops(r *journey.Record) bool {
	return in.stopped && r.Inside() && in.versions[r.Version] != nil
}

// dueOf is when somebody who waits is due.
func (in *inside) dueOf(r *journey.Record) uint32 {
	switch {
	case r.State != journey.StateInside:
	case in.goes[placeOf{r.Version, r.Step}] && r.Rank != journey.RankMissing: // else each turn would look in vain
		return 0
	case in.stays(r), in.closed[placeOf{r.Version, r.Step}]:
		return never
	}
	return r.Due
}

// stays reports whether the person is at a message step whose mail cannot be made.
func (in *inside) stays(r *journey.Record) bool {
	return in.stay[placeOf{r.Version, r.Step}] && !in.overdue(r)
}

// findCircles finds the journeys to which a decision may lead back that lets people in: by
// steps go before which nothing waits.
func findCircles(all []*plans) {
	byID := make(map[string]*plans, len(all))
	for _, j := range all {
		byID[j.id] = j
	}
	for _, j := range all {
		seen := make(map[*plans]bool)
		var visit func(from *plans)
		visit = func(from *plans) {
			if from == nil || from.current == nil || seen[from] || j.circle {
				return
			}
			seen[from] = true
			for _, id := range from.current.walk.GoesAtOnce() {
				j.circle = j.circle || id == j.id
				visit(byID[id])
			}
		}
		visit(j)
	}
}

// How somebody comes to a journey (step.Person.By). A decision that leads from journey to
// journey may be divided, and then its next part does not know where it has been.
const (
	byOthers  uint8 = iota // by a fact, a run, or a time that was waited for
	byGo                   // by a step go of this decision, which is whole
	byRest                 // the same, where the decision was divided in its first journey
	byFurther              // the same, where more than the first journey may lie before
)

// What a record has as its rank where a decision was divided that had let the person in. It
// is at a step go, or at an update or a message. It has none if the person had come by a wait.
const (
	rankFirst   = 1 // the journey is the first of the decision
	rankFurther = 2 // the person had come by a step go
	rankSkips   = 3 // the same, and passes messages up to the next wait: see change.overdue
)

// rests reports whether a decision was divided, and the person is to go on by the rest of it.
func (v *version) rests(r *journey.Record) bool {
	steps := v.walk.Plan().Steps
	if r.State != journey.StateInside || r.Rank < rankFirst || r.Rank > rankSkips || int(r.Step) >= len(steps) {
		return false
	}
	kind := steps[r.Step].Kind
	return kind == plan.StepGo || kind == plan.StepMessage || kind == plan.StepUpdate
}

// restOf is the rank of somebody for whom the decision that is made is divided, and who has
// this record behind it. skips: the decision passes messages.
func (v *version) restOf(p *step.Person, r *journey.Record, skips bool) uint8 {
	entered := r.Entered != p.Record.Entered || r.Occurrence != p.Record.Occurrence
	switch {
	case !entered && v.rests(&p.Record):
		return p.Record.Rank
	case !entered:
		return 0
	case skips:
		return rankSkips
	case p.By == byOthers:
		return rankFirst
	}
	return rankFurther
}

// noteRests notes of people who stay at messages and updates, for room, a rate or the end of
// the quiet hours, by which part of a decision they do.
func (v *version) noteRests(people []step.Person, records []journey.Record, skips bool) {
	steps := v.walk.Plan().Steps
	for i := range people {
		r := &records[i]
		if r.State != journey.StateInside || int(r.Step) >= len(steps) {
			continue
		}
		if kind := steps[r.Step].Kind; kind == plan.StepMessage || kind == plan.StepUpdate {
			r.Rank = v.restOf(&people[i], r, skips)
		}
	}
}

// goesBy is how somebody comes to the next journey.
func (v *version) goesBy(p *step.Person) uint8 {
	switch {
	case v.rests(&p.Record) && p.Record.Rank == rankFirst:
		return byRest
	case v.rests(&p.Record), p.By >= byRest:
		return byFurther
	}
	return byGo
}

// cameBefore reports whether a decision that was divided may have let somebody into a journey
// before: all of its parts have people enter as of one second.
func cameBefore(p *step.Person, r *journey.Record) bool {
	return p.By == byFurther && p.EnteredAt != 0 && r.State != journey.StateNone && r.Entered == p.EnteredAt
}
