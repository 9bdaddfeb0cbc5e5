package plan

import (
	"slices"
	"strings"

	"sluice/journey"
	"sluice/lib/jsonscan"
	"sluice/user/profile"
)

// Members are members of the context: those of some names, or all.
type Members struct {
	All   bool
	Names []string // sorted
}

// Any reports whether there may be one.
func (m *Members) Any() bool { return m.All || len(m.Names) > 0 }

// Add adds others.
func (m *Members) Add(other Members) {
	m.All = m.All || other.All
	m.Names = slices.Compact(slices.Sorted(slices.Values(slices.Concat(m.Names, other.Names))))
}

// Of returns an object with these members of a context, of journey.MaxContextBytes at
// most: one that would be too much is left out. Empty: there is none.
func (m *Members) Of(context string) string {
	if !m.Any() || context == "" {
		return ""
	}
	var b strings.Builder
	separator := "{"
	for s := jsonscan.Read(context); s.Next(); {
		if _, wanted := slices.BinarySearch(m.Names, s.Key); !wanted && !m.All {
			continue
		}
		name := profile.Quoted(s.Key)
		if b.Len()+len(separator)+len(name)+len(":}")+len(s.Value.Raw) > journey.MaxContextBytes {
			continue
		}
		b.WriteString(separator + name + ":" + s.Value.Raw)
		separator = ","
	}
	if b.Len() == 0 {
		return ""
	}
	return b.String() + "}"
}

// Context is what of the context steps look at after a person has waited, or while: what
// is kept of it. Templates are not looked into. A step that goes into another journey
// takes all along, if the journey lets people in with any.
//
// A message step is a wait too, for the hours without mail, a rate or a full lane keep people
// there. So is an update: where a commit has as much as it may, people stay there until the
// next one.
func (p *Plan) Context() (kept Members) {
	behind := make([]bool, len(p.Steps))
	var visit func(i int)
	visit = func(i int) {
		if i == Out || behind[i] {
			return
		}
		behind[i] = true
		visit(p.Steps[i].Next)
		for n := range p.Steps[i].Paths {
			visit(p.Steps[i].Paths[n].Next)
		}
		if d := p.Steps[i].Delay; d != nil && d.Date != nil {
			visit(d.Date.Otherwise)
		}
	}
	for i := range p.Steps {
		if s := &p.Steps[i]; s.waits() {
			visit(s.Next)
			for n := range s.Paths {
				visit(s.Paths[n].Next)
			}
		}
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Rules != nil && (behind[i] || s.waits()) {
			kept.Add(Members{Names: s.Rules.Context()})
		}
		if d := s.Delay; behind[i] && d != nil && d.Date != nil && d.Date.Source == FromContext {
			kept.Add(Members{Names: []string{d.Date.Name}})
		}
		kept.All = kept.All || s.Kind == StepGo && slices.ContainsFunc(p.Entry.When, func(on On) bool { return on.Kind.HasProperties() })
	}
	return kept
}

// waits reports whether people may stay at the step.
func (s *PlanStep) waits() bool {
	return s.Kind == StepDelay || s.Kind == StepWait || s.Kind == StepMessage || s.Kind == StepUpdate || s.Kind == StepGo
}
