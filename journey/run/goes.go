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
// sessions anew.
func (in *inside) findGoes(byID map[string]*inside) {
	in.goes = make(map[placeOf]bool)
	for place, v := range in.versions {
		steps := v.walk.Plan().Steps
		for i := range steps {
			if to := byID[steps[i].Journey]; steps[i].Kind == plan.StepGo && to != nil && !to.paused {
				in.goes[placeOf{place, uint16(i)}] = true
			}
		}
	}
}

// dueOf is when somebody who waits is due.
func (in *inside) dueOf(r *journey.Record) uint32 {
	if r.State == journey.StateInside && in.goes[placeOf{r.Version, r.Step}] {
		return 0
	}
	return r.Due
}
