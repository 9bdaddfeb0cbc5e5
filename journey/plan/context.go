package plan

import (
	"slices"
	"strings"

	"sluice"
	"sluice/journey"
	"sluice/lib/jsonscan"
	"sluice/user/profile"
)

// Members are members of the context: those of some names, or all. AllWaited are all
// properties of events that steps have waited for (journey.WaitedMember), which All is not.
type Members struct {
	All, AllWaited bool
	Names          []string // sorted
}

// Any reports whether there may be one.
func (m *Members) Any() bool { return m.All || m.AllWaited || len(m.Names) > 0 }

// has reports whether a member is one of them.
func (m *Members) has(name string) bool {
	if _, named := slices.BinarySearch(m.Names, name); named {
		return true
	}
	if _, _, waited := journey.WaitedIn(name); waited {
		return m.AllWaited
	}
	return m.All
}

// WaitsFor reports whether some of them may be properties of the event that a step has
// waited for.
func (m *Members) WaitsFor(step string) bool {
	prefix := journey.WaitedMember(step, "")
	i, _ := slices.BinarySearch(m.Names, prefix)
	return m.AllWaited || i < len(m.Names) && strings.HasPrefix(m.Names[i], prefix)
}

// WithWaited returns a context, an object or empty, with those of the members that are
// properties of the event that a step has waited for: an object, or empty. Those of an event
// that the step noted before are taken away.
func (m *Members) WithWaited(context, step, properties string) string {
	var b strings.Builder
	separator := "{"
	add := func(name, value string) {
		b.WriteString(separator + profile.Quoted(name) + ":" + value)
		separator = ","
	}
	for s := jsonscan.Read(context); context != "" && s.Next(); {
		if of, _, waited := journey.WaitedIn(s.Key); !waited || of != step {
			add(s.Key, s.Value.Raw)
		}
	}
	for s := jsonscan.Read(properties); properties != "" && s.Next(); {
		if name := journey.WaitedMember(step, s.Key); m.has(name) {
			add(name, s.Value.Raw)
		}
	}
	if b.Len() == 0 {
		return "{}"
	}
	return b.String() + "}"
}

// SplitWaited takes a context apart, an object or empty: what the person entered with, and
// the properties of events that steps have waited for, by step: {"STEP": {"NAME": VALUE}}.
func SplitWaited(context string) (entered, waited string) {
	if !journey.HasWaited(context) {
		return context, ""
	}
	var all, of strings.Builder
	last, before := "", "{"
	for s := jsonscan.Read(context); s.Next(); {
		step, name, is := journey.WaitedIn(s.Key)
		switch {
		case !is:
			all.WriteString(before + profile.Quoted(s.Key) + ":" + s.Value.Raw)
			before = ","
			continue
		case step != last && last != "":
			of.WriteString("},")
			fallthrough
		case step != last:
			of.WriteString(profile.Quoted(step) + ":{")
		default:
			of.WriteString(",")
		}
		of.WriteString(profile.Quoted(name) + ":" + s.Value.Raw)
		last = step
	}
	if all.Len() > 0 {
		entered = all.String() + "}"
	}
	if of.Len() > 0 {
		waited = "{" + of.String() + "}}"
	}
	return entered, waited
}

// Add adds others.
func (m *Members) Add(other Members) {
	m.All, m.AllWaited = m.All || other.All, m.AllWaited || other.AllWaited
	m.Names = slices.Compact(slices.Sorted(slices.Values(slices.Concat(m.Names, other.Names))))
}

// maxMemberLevels is how deep a member may nest. In a mail it stands below the content, its
// variables, "waited" and the step.
const maxMemberLevels = sluice.MaxNestingLevels - 4

// memberTooDeep reports whether a member nests deeper.
func memberTooDeep(raw string) bool {
	if len(raw) <= 2*maxMemberLevels { // a level takes two brackets
		return false
	}
	_, err := jsonscan.Scan("[[[[" + raw + "]]]]")
	return err != nil
}

// Of returns an object with these members of a context, of journey.MaxContextBytes at
// most: one that would be too much, or that nests too deep for a mail, is left out. Empty:
// there is none.
func (m *Members) Of(context string) string {
	if !m.Any() || context == "" {
		return ""
	}
	var b strings.Builder
	separator := "{"
	for s := jsonscan.Read(context); s.Next(); {
		if !m.has(s.Key) {
			continue
		}
		name := profile.Quoted(s.Key)
		if b.Len()+len(separator)+len(name)+len(":}")+len(s.Value.Raw) > journey.MaxContextBytes || memberTooDeep(s.Value.Raw) {
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
// takes all along: also in a journey whose own triggers have none, for people may come from
// another one. Properties of events that steps have waited for are kept with it.
//
// A message step is a wait too, for the hours without mail, a rate or a full lane keep people
// there. So is an update: where a commit has as much as it may, people stay there until the
// next one.
func (p *Plan) Context() (kept Members) {
	behind := make([]bool, len(p.Steps))
	for i := range p.Steps {
		if s := &p.Steps[i]; s.waits() {
			p.behind(s.Next, behind)
			for n := range s.Paths {
				p.behind(s.Paths[n].Next, behind)
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
		kept.All = kept.All || s.Kind == StepGo
	}
	return kept
}

// waits reports whether people may stay at the step.
func (s *PlanStep) waits() bool {
	return s.Kind == StepDelay || s.Kind == StepWait || s.Kind == StepMessage || s.Kind == StepUpdate || s.Kind == StepGo
}
