package run

import (
	"sluice/journey"
	"sluice/journey/plan"
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
