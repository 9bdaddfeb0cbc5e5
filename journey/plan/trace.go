package plan

import (
	"slices"

	"sluice/journey"
	"sluice/user/rule"
)

// Answers answers a question about where somebody is who has this record of this version,
// and took these branches.
func (p *Plan) Answers(n *rule.Need, r *journey.Record, branches []int) bool {
	switch {
	case r.State == journey.StateNone, r.State == journey.StateControl:
		return false
	case n.Inside():
		return r.State == journey.StateInside
	case n.WasInside():
		return true
	}
	left := r.State == journey.StateFinished || r.State == journey.StateWatching
	return p.passed(n, int(r.Step), left, branches)
}

// passed reports whether somebody has gone on from a step. last is where the person is,
// or from which it left: by going on, or because it was taken out.
func (p *Plan) passed(n *rule.Need, last int, left bool, branches []int) bool {
	at := p.Index(n.Step)
	if at < 0 || at == last && !left {
		return false
	}
	if n.Branch != "" {
		branch, ok := p.Steps[at].Branch(n.Branch)
		return ok && slices.Contains(branches, branch)
	}
	return slices.Contains(p.Trace(last, branches), at)
}

// Trace returns the steps that somebody went through, by the branches taken. The last is
// the step where the person is, or from which the person left. A nil one:
// they do not lead there, as of somebody who went before branches were kept.
func (p *Plan) Trace(last int, branches []int) []int {
	taken := make(map[int]bool, len(branches))
	for _, b := range branches {
		taken[b] = true
	}
	dead := make(map[int]bool) // steps from which no way leads there
	var path []int
	var visit func(at int) bool
	visit = func(at int) bool {
		if at == Out || at >= len(p.Steps) || dead[at] {
			return false
		}
		path = append(path, at)
		if at == last {
			return true
		}
		for _, next := range p.Steps[at].after(taken) {
			if visit(next) {
				return true
			}
		}
		dead[at] = true
		path = path[:len(path)-1]
		return false
	}
	if !visit(0) {
		return nil
	}
	return path
}

// after is where the branches that were taken lead from a step.
func (s *PlanStep) after(taken map[int]bool) (next []int) {
	for i := range s.Paths {
		if taken[s.Paths[i].Branch] {
			next = append(next, s.Paths[i].Next)
		}
	}
	date := s.Delay != nil && s.Delay.Date != nil
	switch {
	case date && taken[s.Otherwise]:
		next = append(next, s.Delay.Date.Otherwise)
	case date, len(s.Paths) == 0:
		next = append(next, s.Next)
	case s.Otherwise >= 0 && taken[s.Otherwise]:
		next = append(next, s.Next)
	}
	return next
}
