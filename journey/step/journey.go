package step

import (
	"fmt"
	"time"

	"sluice/user/rule"
)

// Kind is what a step does.
type Kind uint8

// The kinds of steps.
const (
	Message Kind = 1 + iota // a mail is made; the person goes on
	Delay                   // the person waits for a time
	Choose                  // the first path whose rule holds
	Random                  // a path by chance, the same one each time for a person
	Wait                    // the person waits for an event, up to a time
	Update                  // the profile is changed
	Go                      // the person enters another journey, and leaves this one
)

// Ends of ways, instead of the index of a step.
const (
	Finish = -1
)

// Step is a step of a version. Others are named by their index.
type Step struct {
	ID   string
	Kind Kind

	// Next is where the person goes on: for Choose, if no rule holds; for Wait, if
	// nothing has happened in time.
	Next  int
	Paths []Path

	Delay Pause // of Delay, and of Wait: how long at most
}

// Path is one of several ways on.
type Path struct {
	Name   string
	Next   int
	Rule   *rule.Rule // of Choose
	When   *Trigger   // of Wait
	Weight int        // of Random
}

// Journey is a version of a journey, ready to be walked. It never changes, and may be
// used by many goroutines at once.
type Journey struct {
	steps []Step
	first int
	o     Options

	// sets are the rules of each step of the kind Choose, at most rule.MaxRules.
	sets []*rule.Set

	awaited []*Trigger // of all paths of the kind Wait
}

// Options are what is said of a journey as a whole.
type Options struct {
	Entry *Trigger  // lets people in; nil: nothing that happens does
	Who   *rule.Set // one rule: for whom it holds may enter; nil: everybody

	// Again is how long after entering a person may enter again, once out; below 0:
	// never.
	Again time.Duration

	ExitOn []Trigger // take people out

	Seed  string         // of random paths: the same for all versions
	Zone  *time.Location // of times that name none; nil: the person's own
	Quiet *Quiet         // hours without mail; nil: none
	Watch time.Duration  // after entering: for conversions
}

// New makes one of steps. They must be in an order in which each leads to later ones
// only: so no way has a circle, and every way ends.
func New(steps []Step, first int, o Options) (*Journey, error) {
	j := &Journey{steps: steps, first: first, o: o, sets: make([]*rule.Set, len(steps))}
	for i := range steps {
		s := &steps[i]
		for n, next := range append([]int{s.Next}, nexts(s.Paths)...) {
			if n == 0 && s.Kind == Random {
				continue // it has paths alone
			}
			if next != Finish && (next <= i || next >= len(steps)) {
				return nil, fmt.Errorf("step %s leads to step %d of %d, want one behind it", s.ID, next, len(steps))
			}
		}
		for n := range s.Paths {
			if s.Kind == Wait {
				j.awaited = append(j.awaited, s.Paths[n].When)
			}
		}
		if s.Kind != Choose {
			continue
		}
		rules := make([]*rule.Rule, len(s.Paths))
		for n := range s.Paths {
			rules[n] = s.Paths[n].Rule
		}
		set, err := rule.NewSet(rules...)
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", s.ID, err)
		}
		j.sets[i] = set
	}
	return j, nil
}

func nexts(paths []Path) (all []int) {
	for i := range paths {
		all = append(all, paths[i].Next)
	}
	return all
}

// Steps are the steps. They must not be changed.
func (j *Journey) Steps() []Step { return j.steps }
