package step

import (
	"cmp"
	"slices"

	"sluice/journey/plan"
)

// variant is the path of a random step.
type variant struct {
	branch int // -1: none
	name   string
	rank   int // of the step: where it is in the order
}

// findVariants finds for each message step the paths of random steps that people may have
// taken last when they come there, the latest first. Mostly it is one, whatever way they
// came, and nothing has to be read.
func (j *Journey) findVariants() {
	none := variant{branch: -1, rank: -1}
	last := make([]map[variant]bool, len(j.p.Steps))
	for i := range last {
		last[i] = make(map[variant]bool)
	}
	last[0][none] = true
	j.variants = make([][]variant, len(j.p.Steps))
	for rank, at := range j.order {
		s := &j.p.Steps[at]
		for _, next := range nexts(s) {
			if next == plan.Out || s.Kind == plan.StepRandom {
				continue
			}
			for v := range last[at] {
				last[next][v] = true
			}
		}
		for i := range s.Paths {
			if to := s.Paths[i].Next; s.Kind == plan.StepRandom && to != plan.Out {
				last[to][variant{s.Paths[i].Branch, s.Paths[i].Name, rank}] = true
			}
		}
		if s.Kind == plan.StepMessage {
			for v := range last[at] {
				j.variants[at] = append(j.variants[at], v)
			}
			slices.SortFunc(j.variants[at], func(a, b variant) int { return cmp.Or(b.rank-a.rank, a.branch-b.branch) })
		}
	}
}

// AsksWays reports whether the variant of a message step depends on the way by which a
// person came there.
func (j *Journey) AsksWays(at int) bool { return len(j.variants[at]) > 1 }

// Variant is the path of a random step that a person took last before a message step,
// whose branches were these; empty: none. Without AsksWays, branches do not matter.
func (j *Journey) Variant(at int, branches []int) string {
	all := j.variants[at]
	if len(all) == 1 {
		return all[0].name
	}
	for _, v := range all {
		if slices.Contains(branches, v.branch) {
			return v.name
		}
	}
	return ""
}

// Experiment is a path of a random step of which one path is the control.
type Experiment struct {
	Step, Path string
}

// Experiments are those of a person who took these branches.
func (j *Journey) Experiments(branches []int) (all []Experiment) {
	for i := range j.p.Steps {
		if s := &j.p.Steps[i]; s.Kind == plan.StepRandom && slices.ContainsFunc(s.Paths, func(p plan.PlanPath) bool { return p.Control }) {
			for n := range s.Paths {
				if slices.Contains(branches, s.Paths[n].Branch) {
					all = append(all, Experiment{s.ID, s.Paths[n].Name})
				}
			}
		}
	}
	return all
}

// HasExperiments reports whether a random step has a path that is the control.
func (j *Journey) HasExperiments() bool {
	return slices.ContainsFunc(j.p.Steps, func(s plan.PlanStep) bool {
		return s.Kind == plan.StepRandom && slices.ContainsFunc(s.Paths, func(p plan.PlanPath) bool { return p.Control })
	})
}
