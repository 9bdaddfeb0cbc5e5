package step

import (
	"slices"

	"sluice/journey/plan"
)

// MostMails returns how many mails a person may get by one decision, at most: so many
// message steps may be in a row in which nothing waits.
func (j *Journey) MostMails() int {
	return j.Most(func(at int) int {
		if j.p.Steps[at].Kind == plan.StepMessage {
			return 1
		}
		return 0
	})
}

// Most returns what a person may come to by one decision, at most, if each step comes to of.
func (j *Journey) Most(of func(at int) int) (most int) {
	from := make([]int, len(j.p.Steps)) // by step: of a person who comes there
	for _, at := range slices.Backward(j.order) {
		s := &j.p.Steps[at]
		on := 0
		for _, next := range atOnce(s) {
			if next != plan.Out {
				on = max(on, from[next])
			}
		}
		from[at] = on + of(at)
		most = max(most, from[at])
	}
	return most
}

// GoesAtOnce are the journeys to which somebody may go on by the decision that lets the
// person in: nothing waits on the way to them.
func (j *Journey) GoesAtOnce() (ids []string) {
	seen := make([]bool, len(j.p.Steps))
	var visit func(at int)
	visit = func(at int) {
		if at == plan.Out || seen[at] {
			return
		}
		seen[at] = true
		s := &j.p.Steps[at]
		if s.Kind == plan.StepGo {
			ids = append(ids, s.Journey)
		}
		for _, next := range atOnce(s) {
			visit(next)
		}
	}
	visit(0)
	return ids
}

// atOnce are the steps to which somebody may go on who comes to a step, without a wait.
func atOnce(s *plan.PlanStep) (all []int) {
	switch {
	case s.Kind == plan.StepDelay && s.Delay.Date == nil:
	case s.Kind == plan.StepDelay:
		all = []int{s.Delay.Date.Otherwise}
	case s.Kind == plan.StepWait: // a rule may hold already
		for i := range s.Paths {
			if slices.ContainsFunc(s.Paths[i].When, func(on plan.On) bool { return on.Kind == plan.OnRule }) {
				all = append(all, s.Paths[i].Next)
			}
		}
	default:
		all = nexts(s)
	}
	return all
}
