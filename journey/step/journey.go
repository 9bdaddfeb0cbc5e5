package step

import (
	"fmt"
	"slices"

	"sluice/journey"
	"sluice/journey/plan"
)

// Journey is a version of a journey, ready to be walked. It never changes, and may be
// used by many goroutines at once.
type Journey struct {
	p *plan.Plan

	// order has the steps so that each leads to later ones only.
	order []int

	on    []*plan.On // all that facts may fire
	watch int64      // seconds after entering in which a conversion counts

	variants [][]variant // of message steps

	own []int // those of the plan's needs that are about the journey itself

	keeps *plan.Members // of the context

	paused bool
	stands bool
	held   bool
	skips  bool
	stay   map[int]bool // message steps whose mail cannot be made
}

// Paused returns the same journey, without mails: at a message step a person stays, and
// is due at once.
func (j *Journey) Paused() *Journey {
	paused := *j
	paused.paused = true
	return &paused
}

// Standing returns the same journey, in which nobody goes on by a fact either: what somebody
// waits for is noted, and the person is due by it at once. What takes people out still does.
func (j *Journey) Standing() *Journey {
	standing := *j
	standing.stands = true
	return &standing
}

// Held returns the same journey, without mails and updates: at such a step a person stays,
// and is due at once.
func (j *Journey) Held() *Journey {
	held := *j
	held.held = true
	return &held
}

// Staying returns the same journey: at these message steps, whose mail cannot be made now, a
// person stays, and is due at once.
func (j *Journey) Staying(at map[int]bool) *Journey {
	staying := *j
	staying.stay = at
	return &staying
}

// Skipping returns the same journey, without mails: people pass message steps at once.
func (j *Journey) Skipping() *Journey {
	skipping := *j
	skipping.skips = true
	return &skipping
}

// Keeping returns the same journey, of whose contexts these members are kept: mails look at
// some beside those of the plan.
func (j *Journey) Keeping(keeps *plan.Members) *Journey {
	keeping := *j
	keeping.keeps = keeps
	return &keeping
}

// New makes one of a plan.
func New(p *plan.Plan) (*Journey, error) {
	keeps := p.Context()
	j := &Journey{p: p, keeps: &keeps}
	if err := j.sort(); err != nil {
		return nil, err
	}
	j.findVariants()
	for i := range p.Needs {
		if p.Needs[i].Journey == p.ID {
			j.own = append(j.own, i)
		}
	}
	lists := [][]plan.On{p.Entry.When, p.Exit, p.Exceptions}
	for i := range p.Conversions {
		lists = append(lists, p.Conversions[i].When)
		j.watch = max(j.watch, p.Conversions[i].WithinSeconds)
	}
	for i := range p.Steps {
		for n := range p.Steps[i].Paths {
			lists = append(lists, p.Steps[i].Paths[n].When)
		}
	}
	for _, list := range lists {
		for i := range list {
			j.on = append(j.on, &list[i])
		}
	}
	return j, nil
}

// Plan is what it was made of.
func (j *Journey) Plan() *plan.Plan { return j.p }

// sort finds an order of the steps in which every way goes forward.
func (j *Journey) sort() error {
	const (
		unseen = iota
		onTheWay
		done
	)
	state := make([]int, len(j.p.Steps))
	var visit func(i int) error
	visit = func(i int) error {
		if state[i] == onTheWay {
			return fmt.Errorf("journey %s: the ways from step %s lead back to it", j.p.ID, j.p.Steps[i].ID)
		}
		if state[i] == done {
			return nil
		}
		state[i] = onTheWay
		for _, next := range nexts(&j.p.Steps[i]) {
			if next >= len(j.p.Steps) || next < plan.Out {
				return fmt.Errorf("journey %s: step %s leads to step %d of %d", j.p.ID, j.p.Steps[i].ID, next, len(j.p.Steps))
			}
			if next == plan.Out {
				continue
			}
			if err := visit(next); err != nil {
				return err
			}
		}
		state[i] = done
		j.order = append(j.order, i)
		return nil
	}
	for i := range j.p.Steps {
		if err := visit(i); err != nil {
			return err
		}
	}
	for i, k := 0, len(j.order)-1; i < k; i, k = i+1, k-1 {
		j.order[i], j.order[k] = j.order[k], j.order[i]
	}
	return nil
}

// onTheWay returns people as rules see them on their way: what they have passed by this
// decision counts for rules of this journey about itself.
func (j *Journey) onTheWay(people []Person, some []int32, out *Result) []Person {
	if len(j.own) == 0 {
		return people
	}
	seen := slices.Clone(people)
	ways := make(map[int][]int)
	for _, w := range out.Ways {
		ways[w.Person] = append(ways[w.Person], w.Branch)
	}
	for _, i := range some {
		r, before := &out.Records[i], &people[i].Record
		taken := ways[int(i)]
		if r.Entered == before.Entered && r.Occurrence == before.Occurrence {
			taken = slices.Concat(people[i].Ways, taken)
		}
		for _, n := range j.own {
			seen[i].Given.Known &^= 1 << n
			if j.p.Answers(&j.p.Needs[n], r, taken) {
				seen[i].Given.Known |= 1 << n
			}
		}
	}
	return seen
}

// nexts are where a step may lead.
func nexts(s *plan.PlanStep) []int {
	all := []int{s.Next}
	for i := range s.Paths {
		all = append(all, s.Paths[i].Next)
	}
	if s.Delay != nil && s.Delay.Date != nil {
		all = append(all, s.Delay.Date.Otherwise)
	}
	return all
}

// Wants reports whether a fact may change where somebody is in the journey.
func (j *Journey) Wants(f *journey.Fact) bool {
	if gone(f) {
		return true
	}
	for _, on := range j.on {
		if mayFire(on, f) {
			return true
		}
	}
	return false
}

// gone reports whether a fact says that the person is no more.
func gone(f *journey.Fact) bool {
	return f.Kind == journey.FactMerged || f.Kind == journey.FactDeleted
}
