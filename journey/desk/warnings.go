package desk

import (
	"fmt"

	"sluice/journey/plan"
)

// Warning is something in a journey that this version of Sluice does not carry out. The
// journey can be published all the same.
type Warning struct {
	Place string `json:"place"`
	Says  string `json:"says"`
}

// warningsOf are those of a document, in its order. What is built goes from here, and
// from docs/journeys.md.
func warningsOf(d *plan.Document) []Warning {
	all := []Warning{}
	add := func(place, says string) { all = append(all, Warning{place, says}) }
	triggers := func(place string, list []plan.Trigger) {
		for i := range list {
			says := ""
			switch t := &list[i]; {
			case t.Mail != "":
				says = "mail that is received, opened or clicked is not noticed yet: this never happens"
			case t.API:
				says = "there is no call yet by which people enter: this never happens"
			case t.At != "":
				says = "journeys do not begin by time yet: this never happens"
			}
			if says != "" {
				add(fmt.Sprintf("%s[%d]", place, i), says)
			}
		}
	}
	triggers("entry.when", d.Entry.When)
	if d.Entry.Limit != nil {
		add("entry.limit", "entries are not limited yet: all enter")
	}
	for i := range d.Steps {
		place := "steps." + d.Steps[i].ID
		if w := d.Steps[i].WaitFor; w != nil {
			for n := range w.Paths {
				triggers(fmt.Sprintf("%s.wait_for.paths[%d].when", place, n), w.Paths[n].When)
			}
		}
	}
	triggers("exit_when", d.ExitWhen)
	triggers("exceptions", d.Exceptions)
	if d.Limits != nil && d.Limits.PerMinute > 0 {
		add("limits.per_minute", "messages are not limited yet: they leave as fast as the routes take them")
	}
	for i := range d.Conversions {
		triggers(fmt.Sprintf("conversions[%d].when", i), d.Conversions[i].When)
	}
	return all
}
