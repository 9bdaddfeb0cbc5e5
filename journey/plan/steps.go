package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/lib/jsonscan"
	"sluice/lib/nearest"
	"sluice/user/profile"
	"sluice/user/rule"
)

// nextExit is the word for the end where the id of a step may stand.
const nextExit = "exit"

// Names of branches that have none of their own.
const (
	branchThen      = "then"
	branchElse      = "else"
	branchOtherwise = "otherwise"
)

// Branches are the names of a step's ways out, in the order of their numbers, that which
// has no path of its own last; none: it has one way only.
func (s *Step) Branches() (names []string) {
	switch {
	case s.Split != nil:
		return []string{branchThen, branchElse}
	case s.Audiences != nil:
		for i := range s.Audiences.Paths {
			names = append(names, s.Audiences.Paths[i].Name)
		}
		return append(names, branchOtherwise)
	case s.WaitFor != nil:
		for i := range s.WaitFor.Paths {
			names = append(names, s.WaitFor.Paths[i].Name)
		}
		return append(names, branchOtherwise)
	case s.Random != nil:
		for i := range s.Random.Paths {
			names = append(names, s.Random.Paths[i].Name)
		}
	case s.Delay != nil && s.Delay.UntilDate != nil:
		return []string{branchOtherwise}
	}
	return names
}

// Ways are the ids of the steps that a step leads to: in the order of its Branches, then the
// one that is no branch. exit, or empty: that is the end.
func (s *Step) Ways() (ids []string) {
	switch {
	case s.Split != nil:
		return []string{s.Split.Then, s.Split.Else}
	case s.Audiences != nil:
		for i := range s.Audiences.Paths {
			ids = append(ids, s.Audiences.Paths[i].Next)
		}
		return append(ids, s.Audiences.Otherwise)
	case s.WaitFor != nil:
		for i := range s.WaitFor.Paths {
			ids = append(ids, s.WaitFor.Paths[i].Next)
		}
		return append(ids, s.WaitFor.Otherwise)
	case s.Random != nil:
		for i := range s.Random.Paths {
			ids = append(ids, s.Random.Paths[i].Next)
		}
		return ids
	case s.Delay != nil && s.Delay.UntilDate != nil:
		ids = append(ids, s.Delay.UntilDate.Otherwise)
	}
	return append(ids, s.Next)
}

// stepNumbers gives each step its number and its place.
func (c *compiler) stepNumbers() {
	steps := c.doc.Steps
	if len(steps) == 0 {
		c.lacks("steps", "want at least one step, there is none")
	}
	if len(steps) > MaxSteps {
		c.wrong("steps", "want at most %d steps, got %d", MaxSteps, len(steps))
	}
	ids := make([]string, len(steps))
	for i := range steps {
		ids[i] = steps[i].ID
	}
	c.places, c.numbers = stepPlaces(ids), make(map[string]int)
	for i, id := range ids {
		place := join(c.places[i], "id")
		c.id(place, id, "a step")
		if _, twice := c.numbers[id]; twice && id != "" {
			c.wrong(place, "want an id of its own, %s is there twice", id)
			continue
		}
		if id == nextExit {
			c.wrong(place, "want another id: exit is the end")
		}
		c.numbers[id] = i
	}
}

func (c *compiler) steps() {
	c.plan.Steps = make([]PlanStep, len(c.doc.Steps))
	for i := range c.doc.Steps {
		s, p := &c.doc.Steps[i], &c.plan.Steps[i]
		*p = PlanStep{ID: s.ID, Name: s.Name, Next: Out, Otherwise: Out}
		if c.isBad(c.places[i]) {
			c.lost = true
			continue
		}
		c.label(join(c.places[i], "name"), s.Name, MaxNameRunes)
		c.from = i
		c.step(c.places[i], s, p)
	}
}

func (c *compiler) step(place string, s *Step, p *PlanStep) {
	kind := c.oneKind(place, s)
	if kind == "" {
		c.lost = true
		return
	}
	at := join(place, kind)
	single := true
	var rules []*rule.Rule
	c.waitRules = nil
	switch kind {
	case "message":
		p.Kind, p.Message = StepMessage, c.message(at, s.Message)
	case "delay":
		p.Kind = StepDelay
		c.delay(at, s.Delay, p)
	case "update":
		p.Kind, p.Update = StepUpdate, c.update(join(at, "attributes"), s.Update)
	case "split":
		p.Kind, single = StepSplit, false
		rules = append(rules, c.rule(join(at, "if"), &s.Split.If, c.ofStep()))
		p.Paths = []PlanPath{c.planPath(branchThen, join(at, branchThen), &s.Split.Then)}
		c.otherwise(p, join(at, branchElse), &s.Split.Else)
	case "audiences":
		p.Kind, single = StepAudiences, false
		rules = c.audiences(at, s.Audiences, p)
	case "wait_for":
		p.Kind, single = StepWait, false
		rules = c.waitFor(at, s.WaitFor, p)
	case "random":
		p.Kind, single = StepRandom, false
		c.random(at, s.Random, p)
	case "go":
		p.Kind, p.Journey, single = StepGo, s.Go.Journey, false
		c.id(join(at, "journey"), s.Go.Journey, "a journey")
		if s.Go.Journey == c.doc.ID && s.Go.Journey != "" {
			c.wrong(join(at, "journey"), "want another journey: who is out may enter this one again by its entry")
		} else if !c.isBad(join(at, "journey")) {
			c.journey(join(at, "journey"), s.Go.Journey)
		}
	case "exit":
		p.Kind, single = StepExit, false
	}
	if single {
		p.Next = c.next(join(place, "next"), &s.Next, false)
	} else if s.Next != "" {
		c.wrong(join(place, "next"), "want none beside %s", kind)
	}
	p.ExitBit = len(rules)
	p.Rules = c.set(place, append(rules, c.exitRules...)...)
}

// next reads where a way leads. What is misspelt leads to the nearest step, so that
// this one is not reported as well.
func (c *compiler) next(place string, text *string, must bool) int {
	switch {
	case *text == "" && must:
		c.lacks(place, "want the id of a step, or exit")
		c.lost = true
		return Out
	case *text == "":
		return Out
	case *text == nextExit:
		if !must {
			*text = ""
		}
		return Out
	}
	to, ok := c.numbers[*text]
	if !ok {
		ids := make([]string, 0, len(c.doc.Steps)+1)
		for i := range c.doc.Steps {
			ids = append(ids, c.doc.Steps[i].ID)
		}
		meant := nearest.Word(*text, append(ids, nextExit))
		hint := ""
		if meant != "" {
			hint = "; did you mean " + meant + "?"
		}
		c.wrong(place, "want the id of a step, or exit; there is no step %s%s", strconv.Quote(shown(*text)), hint)
		if to, ok = c.numbers[meant]; !ok {
			c.lost = true
			return Out
		}
	}
	c.edges = append(c.edges, edge{c.from, to, place})
	return to
}

// branch gives a way out its number.
func (c *compiler) branch() int {
	c.plan.Branches++
	return c.plan.Branches - 1
}

func (c *compiler) planPath(name, place string, next *string) PlanPath {
	return PlanPath{Name: name, Next: c.next(place, next, true), Branch: c.branch()}
}

func (c *compiler) otherwise(p *PlanStep, place string, next *string) {
	p.Next, p.Otherwise = c.next(place, next, true), c.branch()
}

// paths checks how many there are.
func (c *compiler) paths(place string, n, least int) bool {
	switch {
	case n == 0:
		c.lacks(place, "want at least %d paths, there is none", least)
	case n < least || n > MaxPaths:
		c.wrong(place, "want %d to %d paths, got %d", least, MaxPaths, n)
	default:
		return true
	}
	c.lost = true
	return false
}

func (c *compiler) audiences(at string, a *Audiences, p *PlanStep) (rules []*rule.Rule) {
	names := map[string]bool{branchOtherwise: true}
	if c.paths(join(at, "paths"), len(a.Paths), 1) {
		for i := range a.Paths {
			x, place := &a.Paths[i], fmt.Sprintf("%s.paths[%d]", at, i)
			c.pathName(place, x.Name, names)
			rules = append(rules, c.rule(join(place, "if"), &x.If, c.ofStep()))
			p.Paths = append(p.Paths, c.planPath(x.Name, join(place, "next"), &x.Next))
		}
	}
	c.otherwise(p, join(at, branchOtherwise), &a.Otherwise)
	return rules
}

func (c *compiler) waitFor(at string, w *WaitFor, p *PlanStep) []*rule.Rule {
	p.Within, p.Ranked = c.duration(join(at, "within"), &w.Within, 1, MaxSeconds), w.Ranked
	names := map[string]bool{branchOtherwise: true}
	c.waitRules = []*rule.Rule{}
	if c.paths(join(at, "paths"), len(w.Paths), 1) {
		for i := range w.Paths {
			x, place := &w.Paths[i], fmt.Sprintf("%s.paths[%d]", at, i)
			c.pathName(place, x.Name, names)
			if len(x.When) == 0 {
				c.lacks(join(place, "when"), "want at least one trigger, there is none")
			}
			path := c.planPath(x.Name, join(place, "next"), &x.Next)
			path.When = c.triggers(join(place, "when"), x.When, forWait)
			p.Paths = append(p.Paths, path)
		}
	}
	if len(c.waitRules) > MaxPaths {
		c.wrong(join(at, "paths"), "want at most %d rules in them, got %d: say or in one", MaxPaths, len(c.waitRules))
	}
	c.otherwise(p, join(at, branchOtherwise), &w.Otherwise)
	rules := c.waitRules
	c.waitRules = nil
	return rules
}

// allWeights is what the weights of a random step add up to, in hundredths of a
// percent: the buckets of package rule.
const allWeights = 10_000

func (c *compiler) random(at string, r *Random, p *PlanStep) {
	p.Seed = c.doc.ID + "/" + p.ID
	if !c.paths(join(at, "paths"), len(r.Paths), 2) {
		return
	}
	names, sum, controls := make(map[string]bool), 0, 0
	for i := range r.Paths {
		x, place := &r.Paths[i], fmt.Sprintf("%s.paths[%d]", at, i)
		c.pathName(place, x.Name, names)
		sum += c.percent(join(place, "weight"), &x.Weight, 0, allWeights)
		path := c.planPath(x.Name, join(place, "next"), &x.Next)
		path.UpTo, path.Control = sum, x.Control
		p.Paths = append(p.Paths, path)
		if x.Control {
			controls++
		}
	}
	paths := join(at, "paths")
	weighs := !slices.ContainsFunc(c.found, func(f Problem) bool {
		return strings.HasPrefix(f.Place, paths) && strings.HasSuffix(f.Place, ".weight")
	})
	if sum != allWeights && weighs {
		c.wrong(paths, "want weights that add up to 100, got %s", percentText(sum))
	}
	if controls > 1 {
		c.wrong(paths, "want one path with control at most, got %d", controls)
	}
}

func (c *compiler) update(place string, u *Update) string {
	if u.Attributes == "" {
		c.lacks(place, "want an object of attributes, there is none")
		return ""
	}
	if !c.object(place, u.Attributes) {
		return ""
	}
	checked, err := profile.Check(string(u.Attributes))
	if err != nil {
		c.wrong(place, "%v", err)
		return ""
	}
	kept := make(map[string]bool)
	for m := jsonscan.Read(checked); m.Next(); {
		kept[m.Key] = true
	}
	many := 0
	for m := jsonscan.Read(string(u.Attributes)); m.Next(); many++ {
		if !kept[m.Key] {
			c.wrong(join(place, m.Key), "want an attribute that a profile can hold: a name of 1 to %d characters, a value of at most %d KB, no null inside", profile.MaxNameRunes, profile.MaxValueBytes>>10)
		}
	}
	if many == 0 {
		c.wrong(place, "want at least one attribute, there is none")
	}
	u.Attributes = Raw(checked)
	return checked
}

func (c *compiler) delay(at string, d *Delay, p *PlanStep) {
	p.Delay = &Waiting{}
	if d.UntilDate != nil {
		if d.For != "" || d.Until != nil {
			c.wrong(at, "want until_date alone, or for and until")
		}
		p.Delay.Date = c.date(join(at, "until_date"), d.UntilDate, p)
		return
	}
	if d.For == "" && d.Until == nil {
		c.lacksKind(at, "for, until, until_date")
	}
	if d.For != "" {
		p.Delay.ForSeconds = c.duration(join(at, "for"), &d.For, 1, MaxSeconds)
	}
	if u := d.Until; u != nil {
		at = join(at, "until")
		p.Delay.Until = &Clock{Minute: c.minuteOf(join(at, "time"), u.Time), Weekdays: c.weekdays(join(at, "weekdays"), &u.Weekdays), Zone: c.zone(join(at, "zone"), &u.Zone)}
	}
}

func (c *compiler) date(at string, u *UntilDate, p *PlanStep) *Date {
	d := &Date{Path: u.Path, Yearly: u.Yearly, PlusSeconds: c.offset(join(at, "plus"), &u.Plus), Minute: -1, Zone: c.zone(join(at, "zone"), &u.Zone)}
	c.path(join(at, "path"), u.Path)
	switch c.oneKind(at, u) {
	case "attribute":
		if d.Name = u.Attribute; profile.IsField(u.Attribute) {
			c.wrong(join(at, "attribute"), "want a custom attribute; %s is a standard field: say field", u.Attribute)
		}
		c.profileName(join(at, "attribute"), u.Attribute)
	case "field":
		if d.Source, d.Name = FromField, u.Field; !profile.IsField(u.Field) {
			c.wrong(join(at, "field"), "want the name of a standard field, as dob, got %s; others are an attribute", strconv.Quote(shown(u.Field)))
		}
	case "context":
		d.Source, d.Name = FromContext, u.Context
		if !c.hasContext {
			c.wrong(join(at, "context"), "want something else: %s", c.ofPerson().Refuse(rule.Context))
		}
	}
	if u.Time != "" {
		d.Minute = c.minuteOf(join(at, "time"), u.Time)
	}
	d.Otherwise = c.next(join(at, branchOtherwise), &u.Otherwise, false)
	p.Otherwise = c.branch()
	return d
}

// branchNumbers are the numbers of a step's branches by their names.
func (s *PlanStep) branchNumbers() map[string]int {
	all := make(map[string]int)
	for i := range s.Paths {
		all[s.Paths[i].Name] = s.Paths[i].Branch
	}
	if s.Otherwise >= 0 {
		all[s.OtherwiseName()] = s.Otherwise
	}
	return all
}

// OtherwiseName is the name of the branch that none of the paths is.
func (s *PlanStep) OtherwiseName() string {
	if s.Kind == StepSplit {
		return branchElse
	}
	return branchOtherwise
}

// Branch is the number of a step's branch by its name; false: it has none of it.
func (s *PlanStep) Branch(name string) (int, bool) {
	n, ok := s.branchNumbers()[name]
	return n, ok
}
