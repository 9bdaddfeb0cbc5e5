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
// sessions anew. So does a change by which mail can be made again, and people stay at a step
// of which it cannot be made as long as the session lasts. They are due since they came: that
// is what their mail must not be too late for (latest).
func (in *inside) findGoes(byID map[string]*inside) {
	in.goes, in.stay = make(map[placeOf]bool), make(map[placeOf]bool)
	for place, v := range in.versions {
		for at := range v.stay {
			in.stay[placeOf{place, uint16(at)}] = true
		}
		steps := v.walk.Plan().Steps
		for i := range steps {
			if to := byID[steps[i].Journey]; steps[i].Kind == plan.StepGo && to != nil && !to.paused {
				in.goes[placeOf{place, uint16(i)}] = true
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
	case in.stays(r):
		return never
	}
	return r.Due
}

// stays reports whether the person is at a message step whose mail cannot be made.
func (in *inside) stays(r *journey.Record) bool {
	return in.stay[placeOf{r.Version, r.Step}] && !in.overdue(r)
}

// How somebody comes to a journey (step.Person.By). A decision that leads from journey to
// journey may be divided at a step go (goNow), and then its next part does not know where it
// has been.
const (
	byOthers  uint8 = iota // by a fact, a run, or a time that was waited for
	byGo                   // by a step go of this decision, which is whole
	byRest                 // the same, where the decision was divided at its first journey
	byFurther              // the same, where more than the first journey may lie before
)

// What a record has as its rank at a step go at which a decision was divided, if the person
// had entered the journey by this decision; else it has none.
const (
	rankFirst   = 1 // as the first journey of the decision
	rankFurther = 2 // by a step go
)

// staysBy is the rank of somebody who stays at a step go. entered: by this decision.
func staysBy(p *step.Person, at int, entered bool) uint8 {
	switch {
	case !entered && stayed(p, at):
		return p.Record.Rank
	case !entered:
		return 0
	case p.By == byOthers:
		return rankFirst
	}
	return rankFurther
}

// stayed reports whether the person was at a step go before the decision that is made.
func stayed(p *step.Person, at int) bool {
	return p.Record.State == journey.StateInside && int(p.Record.Step) == at && p.Record.Rank <= rankFurther
}

// goesBy is how somebody comes to the next journey who is at a step go.
func goesBy(p *step.Person, at int) uint8 {
	switch {
	case stayed(p, at):
		return []uint8{byGo, byRest, byFurther}[p.Record.Rank]
	case p.By >= byRest:
		return byFurther
	}
	return byGo
}

// cameBefore reports whether a decision that was divided may have let somebody into a journey
// before: all of its parts have people enter as of one second.
func cameBefore(p *step.Person, r *journey.Record) bool {
	return p.By == byFurther && p.EnteredAt != 0 && r.State != journey.StateNone && r.Entered == p.EnteredAt
}
