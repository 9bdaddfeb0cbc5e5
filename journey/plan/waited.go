package plan

import (
	"slices"
	"strconv"
)

// waitedFor says that a rule of a step looks at the event that another step has waited for.
type waitedFor struct {
	from  int // whose rule it is
	step  string
	place string
}

// waitedBefore checks that steps whose events rules look at come before, and wait for one.
func (c *compiler) waitedBefore() {
	for _, w := range c.waited {
		if why := c.plan.notWaited(w.from, w.step); why != "" && !c.lost {
			c.wrong(w.place, "%s", why)
		}
	}
}

// notWaited says why a step can know nothing of an event that another one has waited for;
// empty: it can.
func (p *Plan) notWaited(at int, step string) string {
	of := slices.IndexFunc(p.Steps, func(s PlanStep) bool { return s.ID == step })
	switch {
	case of < 0:
		return "want the id of a step wait_for before this one; there is no step " + strconv.Quote(shown(step))
	case p.Steps[of].Kind != StepWait:
		return "want a step wait_for before this one; " + step + " waits for nothing that happens"
	}
	behind, events := make([]bool, len(p.Steps)), false
	for i := range p.Steps[of].Paths {
		path := &p.Steps[of].Paths[i]
		if slices.ContainsFunc(path.When, func(on On) bool { return on.Kind.HasProperties() }) {
			events = true
			p.behind(path.Next, behind)
		}
	}
	switch {
	case !events:
		return "want a step that waits for an event or a purchase: what " + step + " waits for has no properties"
	case !behind[at]:
		return "want a step behind " + step + ", on a path on which it has met an event or a purchase: nothing of it is known here"
	}
	return ""
}

// behind notes a step, and all that it leads to.
func (p *Plan) behind(at int, seen []bool) {
	if at == Out || seen[at] {
		return
	}
	seen[at] = true
	s := &p.Steps[at]
	p.behind(s.Next, seen)
	for i := range s.Paths {
		p.behind(s.Paths[i].Next, seen)
	}
	if s.Delay != nil && s.Delay.Date != nil {
		p.behind(s.Delay.Date.Otherwise, seen)
	}
}

// NotWaited says why the mail of a message step can know nothing of the events that these
// steps have waited for; empty: it can.
func (p *Plan) NotWaited(at int, steps []string) string {
	for _, step := range steps {
		if why := p.notWaited(at, step); why != "" {
			return why
		}
	}
	return ""
}
