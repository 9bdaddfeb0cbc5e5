package step

import (
	"iter"
	"math/bits"
	"slices"

	"sluice/journey/plan"
)

// variant is the path of a random step.
type variant struct {
	branch int // -1: none
	name   string
}

// findVariants finds for each message step the paths of random steps that people may have
// taken last when they come there, the latest first. Mostly it is one, whatever way they
// came, and nothing has to be read.
//
// A step has a bit for each path, in the order in which they are looked for: thousands of
// paths may lead to hundreds of steps.
func (j *Journey) findVariants() {
	all, first := j.randomPaths()
	last := make([]bitset, len(j.p.Steps))
	for i := range last {
		last[i] = newBitset(len(all))
	}
	last[0].add(len(all) - 1)
	j.variants = make([][]variant, len(j.p.Steps))
	for _, at := range j.order {
		s := &j.p.Steps[at]
		for _, next := range nexts(s) {
			if next != plan.Out && s.Kind != plan.StepRandom {
				last[next].addAll(last[at])
			}
		}
		for i := range s.Paths {
			if to := s.Paths[i].Next; s.Kind == plan.StepRandom && to != plan.Out {
				last[to].add(first[at] + i)
			}
		}
		if s.Kind == plan.StepMessage {
			for i := range last[at].each() {
				j.variants[at] = append(j.variants[at], all[i])
			}
		}
	}
}

// randomPaths are the paths of all random steps, those of later steps first, and at the end
// that of people who took none. first says where those of a step begin.
func (j *Journey) randomPaths() (all []variant, first map[int]int) {
	first = make(map[int]int)
	for _, at := range slices.Backward(j.order) {
		if s := &j.p.Steps[at]; s.Kind == plan.StepRandom {
			first[at] = len(all)
			for i := range s.Paths {
				all = append(all, variant{s.Paths[i].Branch, s.Paths[i].Name})
			}
		}
	}
	return append(all, variant{branch: -1}), first
}

// bitset has numbers below what it was made for.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) add(n int) { b[n/64] |= 1 << (n % 64) }

func (b bitset) addAll(other bitset) {
	for i := range other {
		b[i] |= other[i]
	}
}

// each goes through the numbers, the lowest first.
func (b bitset) each() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range b {
			for ; word != 0; word &= word - 1 {
				if !yield(i*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
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
