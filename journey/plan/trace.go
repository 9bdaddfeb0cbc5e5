package plan

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
