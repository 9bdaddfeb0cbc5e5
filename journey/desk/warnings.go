package desk

import (
	"cmp"
	"encoding/json"
	"fmt"

	"sluice/journey/plan"
)

// Warning is something in a journey that may not do what its author means: it is in the
// past, the clocks leap over it, or settings keep less than it asks for. The journey can be published all the same.
type Warning struct {
	Place string `json:"place"`
	Says  string `json:"says"`
}

// warnings gathers those of a document.
type warnings struct {
	all  []Warning
	kept int // days for which sends are kept; 0: for ever
}

// warningsOf are those of a document, in its order. kept is for how many days sends are
// kept; 0: for ever.
func warningsOf(d *plan.Document, kept int) []Warning {
	w := &warnings{[]Warning{}, kept}
	w.triggers("entry.when", d.Entry.When)
	w.rule("entry.who", d.Entry.Who)
	w.again(d)
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

func (w *warnings) add(place, says string) { w.all = append(w.all, Warning{place, says}) }

// again warns where people may enter again, or are out, so long after a time that they miss the
// next one on the day on which clocks are put forward. Who has finished is out when the longest
// conversion counts no more.
func (w *warnings) again(d *plan.Document) {
	const hour = 60 * 60
	after, err := plan.ParseDuration(d.Entry.AgainAfter)
	if err != nil {
		return
	}
	longest, watched := int64(0), 0
	for i := range d.Conversions {
		if within, err := plan.ParseDuration(d.Conversions[i].Within); err == nil && within > longest {
			longest, watched = within, i
		}
	}
	for i := range d.Entry.When {
		t := &d.Entry.When[i]
		days, zone := map[string]int64{"day": 1, "week": 7}[t.Every], cmp.Or(t.Zone, d.Zone, "UTC")
		between := days * 24 * hour
		if between == 0 || len(t.Weekdays) > 1 || zone == "UTC" || after > between {
			continue
		}
		if after > between-hour {
			w.add("entry.again_after", fmt.Sprintf("a day is 24 hours here, and one of 23 comes when clocks are put forward: nobody enters by the time behind it; say %dh", between/hour-1))
		}
		if longest > between-hour && longest <= between {
			w.add(fmt.Sprintf("conversions[%d].within", watched), fmt.Sprintf("a day is 24 hours here, and one of 23 comes when clocks are put forward: who has gone to the end is not out by the time behind it, and does not enter; say %dh", between/hour-1))
		}
	}
}

func (w *warnings) step(s *plan.Step) {
	place := "steps." + s.ID
	switch {
	case s.Split != nil:
		w.rule(place+".split.if", s.Split.If)
	case s.Audiences != nil:
		for i := range s.Audiences.Paths {
			w.rule(fmt.Sprintf("%s.audiences.paths[%d].if", place, i), s.Audiences.Paths[i].If)
		}
	case s.WaitFor != nil:
		for i := range s.WaitFor.Paths {
			w.triggers(fmt.Sprintf("%s.wait_for.paths[%d].when", place, i), s.WaitFor.Paths[i].When)
		}
	}
}

func (w *warnings) triggers(place string, list []plan.Trigger) {
	for i := range list {
		at := fmt.Sprintf("%s[%d]", place, i)
		if list[i].Rule != "" {
			w.rule(at+".rule", list[i].Rule)
		}
	}
}

// rule warns of what a rule looks at in vain.
func (w *warnings) rule(place string, raw plan.Raw) {
	var rule any
	if raw == "" || json.Unmarshal([]byte(raw), &rule) != nil {
		return // there is none; one that is no JSON is refused elsewhere
	}
	short := false
	eachCondition(rule, func(c map[string]any) {
		if c["mail"] != nil {
			days, within := c["value"].(float64)
			short = short || w.kept > 0 && (!within || int(days) > w.kept)
		}
	})
	if short {
		w.add(place, fmt.Sprintf("sends are kept for %d days (the setting retention.sends): mail of before is not found", w.kept))
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
