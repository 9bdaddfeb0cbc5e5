package step

import (
	"fmt"
	"time"

	"sluice/journey"
	"sluice/lib/jsonscan"
	"sluice/user/rule"
)

// Trigger is something that may happen to a person.
type Trigger struct {
	Kind journey.FactKind

	// Name is that of the event, the product, the attribute or the group;
	// journey.Any is each.
	Name string

	// From and To are JSON values, of an attribute or a group; empty: any.
	From, To string

	// Where is about the properties of an event or a purchase, and the profile; nil: it
	// always holds.
	Where *rule.Set
}

// MayFire reports whether a fact is of the kind and name; the rest is not looked at.
func (t *Trigger) MayFire(f *journey.Fact) bool {
	if t == nil || t.Kind != f.Kind {
		return false
	}
	switch f.Kind {
	case journey.FactEvent, journey.FactPurchase:
		return t.Name == journey.Any || t.Name == f.Name
	}
	return true
}

// fires reports whether a fact is what is meant.
func (t *Trigger) fires(f *journey.Fact, p *Person, now time.Time) (bool, error) {
	if !t.MayFire(f) {
		return false, nil
	}
	if f.Kind == journey.FactAttributes || f.Kind == journey.FactGroups {
		return t.changes(f.Body), nil
	}
	if t.Where == nil {
		return true, nil
	}
	var out [1]uint64
	given := [1]rule.Given{p.Given}
	given[0].Properties = properties(f)
	_, err := t.Where.MatchGiven([]string{p.Profile}, []uint64{p.ID.Hash()}, now.UnixMilli(), given[:], out[:])
	return out[0] == 1, err
}

// properties are those of an event, or of a purchase.
func properties(f *journey.Fact) string {
	if f.Kind != journey.FactPurchase {
		return f.Body
	}
	m := jsonscan.Read(f.Body)
	for m.Next() {
		if m.Key == "properties" {
			return m.Value.Raw
		}
	}
	return ""
}

// changes reports whether a body {"NAME": [BEFORE, AFTER]} has the change.
func (t *Trigger) changes(body string) bool {
	m := jsonscan.Read(body)
	for m.Next() {
		if m.Key != t.Name {
			continue
		}
		var pair [2]string
		e := jsonscan.ReadArray(m.Value.Raw)
		for i := 0; e.Next(); i++ {
			if i < len(pair) {
				pair[i] = e.Value.Raw
			}
		}
		return (t.From == "" || t.From == pair[0]) && (t.To == "" || t.To == pair[1])
	}
	return false
}

// Wants reports whether a fact may change where somebody is in the journey.
func (j *Journey) Wants(f *journey.Fact) bool {
	switch f.Kind {
	case journey.FactMerged, journey.FactDeleted:
		return true
	}
	if j.o.Entry.MayFire(f) {
		return true
	}
	for i := range j.o.ExitOn {
		if j.o.ExitOn[i].MayFire(f) {
			return true
		}
	}
	for _, t := range j.awaited {
		if t.MayFire(f) {
			return true
		}
	}
	return false
}

// Fact tells one person of a fact. Their record must be of this version, or zero.
// Facts are told in their order: one may let a person in, and the next take the person
// out. It reports whether anything came of it; if so, out has it for one person.
func (j *Journey) Fact(p *Person, f *journey.Fact, now time.Time, out *Result) (bool, error) {
	out.reset(1, len(j.steps))
	out.Records[0] = p.Record
	gone := f.Kind == journey.FactMerged || f.Kind == journey.FactDeleted
	switch p.Record.State {
	case journey.StateInside:
		return j.insideFact(p, f, gone, now, out)
	case journey.StateWatching:
		if gone {
			out.exit(0, int(p.Record.Step))
			return true, nil
		}
	}
	if gone {
		return false, nil
	}
	fired, err := j.o.Entry.fires(f, p, now)
	if err != nil || !fired || !j.MayEnter(p, now) {
		return false, err
	}
	people := []Person{*p}
	entered, err := j.Enter(people, now, out)
	return entered > 0, err
}

// insideFact tells a person who is inside.
func (j *Journey) insideFact(p *Person, f *journey.Fact, gone bool, now time.Time, out *Result) (bool, error) {
	at := int(p.Record.Step)
	if at >= len(j.steps) {
		return false, fmt.Errorf("person %s is in step %d of %d", p.ID, at, len(j.steps))
	}
	for i := 0; i < len(j.o.ExitOn) && !gone; i++ {
		fired, err := j.o.ExitOn[i].fires(f, p, now)
		if err != nil {
			return false, err
		}
		gone = fired
	}
	if gone {
		out.exit(0, at)
		return true, nil
	}
	if j.steps[at].Kind != Wait {
		return false, nil
	}
	for n := range j.steps[at].Paths {
		path := &j.steps[at].Paths[n]
		fired, err := path.When.fires(f, p, now)
		if err != nil {
			return false, err
		}
		if fired {
			out.count(at, n, Passed)
			out.arrive(j, 0, path.Next, now)
			return true, j.walk([]Person{*p}, now, out)
		}
	}
	return false, nil
}
