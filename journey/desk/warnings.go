package desk

import (
	"encoding/json"
	"fmt"

	"sluice/journey/plan"
)

// Warning is something in a journey that this version of Sluice does not carry out. The
// journey can be published all the same.
type Warning struct {
	Place string `json:"place"`
	Says  string `json:"says"`
}

// What is said of what is not built. When it is built it goes from here, and from
// docs/journeys.md.
const (
	noMail    = "mail that is received, opened or clicked is not noticed yet: this never happens"
	noCall    = "there is no call yet by which people enter: this never happens"
	noLimit   = "entries are not limited yet: all enter"
	noRate    = "messages are not limited yet: they leave as fast as the routes take them"
	noAnswers = "rules do not find yet what mail a person got, or where the person is in journeys"
	noContext = "the context is known until a person waits for the first time: rules find nothing in it here"
)

// warnings gathers those of a document.
type warnings struct {
	all   []Warning
	known map[string]bool // steps in which the context is known
}

// warningsOf are those of a document, in its order.
func warningsOf(d *plan.Document, p *plan.Plan) []Warning {
	w := &warnings{[]Warning{}, beforeWaits(p)}
	w.triggers("entry.when", d.Entry.When)
	w.rule("entry.who", d.Entry.Who, true)
	if d.Entry.Limit != nil {
		w.add("entry.limit", noLimit)
	}
	for i := range d.Steps {
		w.step(&d.Steps[i])
	}
	w.triggers("exit_when", d.ExitWhen)
	w.triggers("exceptions", d.Exceptions)
	if d.Limits != nil && d.Limits.PerMinute > 0 {
		w.add("limits.per_minute", noRate)
	}
	for i := range d.Conversions {
		w.triggers(fmt.Sprintf("conversions[%d].when", i), d.Conversions[i].When)
	}
	return w.all
}

// beforeWaits are the steps that people reach at the moment in which they enter.
func beforeWaits(p *plan.Plan) map[string]bool {
	known := make(map[string]bool)
	var visit func(i int)
	visit = func(i int) {
		if i == plan.Out || known[p.Steps[i].ID] {
			return
		}
		s := &p.Steps[i]
		known[s.ID] = true
		if s.Kind == plan.StepDelay || s.Kind == plan.StepWait {
			return
		}
		visit(s.Next)
		for n := range s.Paths {
			visit(s.Paths[n].Next)
		}
	}
	visit(0)
	return known
}

func (w *warnings) add(place, says string) { w.all = append(w.all, Warning{place, says}) }

func (w *warnings) step(s *plan.Step) {
	place := "steps." + s.ID
	switch {
	case s.Split != nil:
		w.rule(place+".split.if", s.Split.If, w.known[s.ID])
	case s.Audiences != nil:
		for i := range s.Audiences.Paths {
			w.rule(fmt.Sprintf("%s.audiences.paths[%d].if", place, i), s.Audiences.Paths[i].If, w.known[s.ID])
		}
	case s.WaitFor != nil:
		for i := range s.WaitFor.Paths {
			w.triggers(fmt.Sprintf("%s.wait_for.paths[%d].when", place, i), s.WaitFor.Paths[i].When)
		}
	case s.Delay != nil && s.Delay.UntilDate != nil && s.Delay.UntilDate.Context != "" && !w.known[s.ID]:
		w.add(place+".delay.until_date.context", noContext)
	}
}

func (w *warnings) triggers(place string, list []plan.Trigger) {
	for i := range list {
		at := fmt.Sprintf("%s[%d]", place, i)
		switch t := &list[i]; {
		case t.Mail != "":
			w.add(at, noMail)
		case t.API:
			w.add(at, noCall)
		case t.Rule != "":
			w.rule(at+".rule", t.Rule, false)
		}
	}
}

// rule warns of what a rule looks at in vain.
func (w *warnings) rule(place string, raw plan.Raw, context bool) {
	var rule any
	if raw == "" || json.Unmarshal([]byte(raw), &rule) != nil {
		return // there is none; one that is no JSON is refused elsewhere
	}
	if looksAt(rule, "mail") || looksAt(rule, "journey") {
		w.add(place, noAnswers)
	}
	if !context && looksAt(rule, "context") {
		w.add(place, noContext)
	}
}

// looksAt reports whether a condition of a rule is about something.
func looksAt(rule any, about string) (found bool) {
	switch x := rule.(type) {
	case []any:
		for _, inner := range x {
			found = found || looksAt(inner, about)
		}
	case map[string]any:
		_, found = x[about]
		for _, inner := range x {
			found = found || looksAt(inner, about)
		}
	}
	return found
}
