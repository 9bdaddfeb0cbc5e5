package plan

import (
	"fmt"
	"strconv"
	"strings"

	"sluice/journey"
)

// Drawing returns the journey as a flowchart in the language of Mermaid, in which the
// pictures of docs/journeys.md are drawn: repositories and editors show them.
func (p *Plan) Drawing() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	var in []string
	for i := range p.Entry.When {
		in = append(in, p.Entry.When[i].label())
	}
	fmt.Fprintf(&b, "    in([%s]) --> %s\n", quoted(strings.Join(in, " or ")), p.node(0))
	ends := false
	for i := range p.Steps {
		s := &p.Steps[i]
		open, shut := "[", "]"
		if len(s.Paths) > 0 {
			open, shut = "{", "}"
		}
		fmt.Fprintf(&b, "    %s%s%s%s\n", p.node(i), open, quoted(s.label()), shut)
		way := func(to int, name string) {
			arrow := " --> "
			if name != "" {
				arrow = " -- " + name + " --> "
			}
			if to == Out {
				ends = true
			}
			fmt.Fprintf(&b, "    %s%s%s\n", p.node(i), arrow, p.node(to))
		}
		for n := range s.Paths {
			way(s.Paths[n].Next, s.Paths[n].Name)
		}
		switch {
		case len(s.Paths) > 0 && s.Otherwise >= 0:
			way(s.Next, s.OtherwiseName())
		case len(s.Paths) == 0:
			way(s.Next, "")
			if s.Delay != nil && s.Delay.Date != nil {
				way(s.Delay.Date.Otherwise, branchOtherwise)
			}
		}
	}
	if ends {
		b.WriteString("    out([finished])\n")
	}
	return b.String()
}

// node is the name of a step in a drawing; ids may be words of the language.
func (p *Plan) node(i int) string {
	if i == Out {
		return "out"
	}
	return "s" + strconv.Itoa(i+1)
}

// quoted is a text of a drawing.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`"`, "#quot;", "\n", " ").Replace(text) + `"`
}

// label says what a trigger is, in a few words.
func (on *On) label() string {
	switch on.Kind {
	case OnPurchase:
		if on.Name == journey.Any {
			return "any purchase"
		}
	case OnAttribute:
		if on.To != "" {
			return on.Name + " becomes " + strings.Trim(on.To, `"`)
		}
		return on.Name + " changes"
	case OnGroup:
		return "group " + on.Name + " becomes " + on.To
	case OnMail:
		return "mail " + string(on.Mail)
	case OnSchedule:
		return [...]string{"at ", "every day from ", "every week from ", "every month from "}[on.At.Every] + on.At.First.Format(momentForm)
	case OnAPI:
		return "a call of the API"
	case OnRule:
		return "a rule"
	}
	return on.Kind.String() + " " + on.Name
}

// label says what a step is, in a few words.
func (s *PlanStep) label() string {
	what := s.Kind.String()
	switch s.Kind {
	case StepDelay:
		what = s.Delay.label()
	case StepWait:
		what = "wait up to " + DurationText(s.Within)
	case StepGo:
		what = "go to " + s.Journey
	}
	return s.ID + "<br>" + what
}

func (w *Waiting) label() string {
	var parts []string
	if w.ForSeconds > 0 {
		parts = append(parts, DurationText(w.ForSeconds))
	}
	if w.Until != nil {
		parts = append(parts, fmt.Sprintf("until %02d:%02d", w.Until.Minute/60, w.Until.Minute%60))
	}
	if w.Date != nil {
		parts = append(parts, "until "+w.Date.Name)
	}
	return "wait " + strings.Join(parts, ", then ")
}
