package desk

import (
	"encoding/json"
	"fmt"

	"sluice/journey/plan"
)

// Warning is something in a journey that this version of Sluice does not carry out, or
// that its settings do not let it. The journey can be published all the same.
type Warning struct {
	Place string `json:"place"`
	Says  string `json:"says"`
}

// What is said of what is not built. When it is built it goes from here, and from
// docs/journeys.md.
const (
	noContext = "the context is known until a person waits for the first time: rules find nothing in it here"
)

// warnings gathers those of a document.
type warnings struct {
	all   []Warning
	known map[string]bool // steps in which the context is known
	kept  int             // days for which sends are kept; 0: for ever
}

// warningsOf are those of a document, in its order. kept is for how many days sends are
// kept; 0: for ever.
func warningsOf(d *plan.Document, p *plan.Plan, kept int) []Warning {
	w := &warnings{[]Warning{}, beforeWaits(p), kept}
	w.triggers("entry.when", d.Entry.When)
	w.rule("entry.who", d.Entry.Who, true)
	for i := range d.Steps {
		w.step(&d.Steps[i])
	}
	w.triggers("exit_when", d.ExitWhen)
	w.triggers("exceptions", d.Exceptions)
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
		case t.Rule != "":
			w.rule(at+".rule", t.Rule, false)
		}
	}
}

// rule warns of what a rule looks at in vain. known: the context is.
func (w *warnings) rule(place string, raw plan.Raw, known bool) {
	var rule any
	if raw == "" || json.Unmarshal([]byte(raw), &rule) != nil {
		return // there is none; one that is no JSON is refused elsewhere
	}
	var context, short bool
	eachCondition(rule, func(c map[string]any) {
		switch {
		case c["mail"] != nil:
			days, within := c["value"].(float64)
			short = short || w.kept > 0 && (!within || int(days) > w.kept)
		case c["context"] != nil:
			context = true
		}
	})
	if short {
		w.add(place, fmt.Sprintf("sends are kept for %d days (the setting retention.sends): mail of before is not found", w.kept))
	}
	if context && !known {
		w.add(place, noContext)
	}
}

// eachCondition calls f for each object of a rule: its conditions, and what ties them.
func eachCondition(rule any, f func(map[string]any)) {
	switch x := rule.(type) {
	case []any:
		for _, inner := range x {
			eachCondition(inner, f)
		}
	case map[string]any:
		f(x)
		for _, inner := range x {
			eachCondition(inner, f)
		}
	}
}
