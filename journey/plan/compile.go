package plan

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/journey"
	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/user/rule"
)

// Bounds of documents. Each list has its own.
const (
	MaxSteps            = 200
	MaxPaths            = 50 // of a step
	MaxTriggers         = 20 // of a list of them
	MaxExitRules        = 10
	MaxConversions      = journey.MaxConversions
	MaxConversionDays   = 90
	MaxNameRunes        = 255
	MaxDescriptionRunes = 2000
	MaxPerMinute        = 10_000_000
	MaxEntries          = 1_000_000_000_000
	MaxVariablesBytes   = 16 << 10
	MaxLatestDays       = 30
	DefaultLatestDays   = 3
)

// A record has room for the number of each path, and of each step.
var (
	_ = [journey.RankMissing - 1 - MaxPaths]struct{}{}
	_ = [journey.MaxSteps - MaxSteps]struct{}{}
)

// Compile checks a document and makes a plan of it. The error is Problems, all that is
// wrong, or one of env. The document is not changed.
func Compile(d *Document, env Env) (*Plan, error) { return compile(d, env, newCollector()) }

func compile(d *Document, env Env, found *collector) (*Plan, error) {
	c := &compiler{collector: found, env: env, plan: &Plan{}}
	_, c.published = env.(*published)
	if err := c.copy(d); err != nil {
		return nil, err
	}
	c.document()
	if c.failed != nil {
		return nil, c.failed
	}
	if all := c.problems(); len(all) > 0 {
		return nil, all
	}
	text, err := c.doc.Text()
	if err != nil {
		return nil, fmt.Errorf("write journey %s in its one form: %w", d.ID, err)
	}
	if len(text) > MaxDocumentBytes { // a version is kept in this form, and could not be read
		c.wrong("", "want at most %d bytes in its canonical form, got %d: durations and rules may be longer there than they were written", MaxDocumentBytes, len(text))
		return nil, c.problems()
	}
	if n := c.plan.segmentsBytes(); n > MaxDocumentBytes { // they are kept with a version
		c.wrong("", "want at most %d bytes in the rules of all segments that it names, got %d", MaxDocumentBytes, n)
		return nil, c.problems()
	}
	c.plan.canonical, c.plan.Needs = text, c.questions.Needs()
	return c.plan, nil
}

// compiler makes a plan of one document. It brings the texts of its own copy into
// their one form as it reads them.
type compiler struct {
	*collector
	doc    Document
	env    Env
	failed error // the first of env
	plan   *Plan

	published bool // it is a version, which an earlier program may have published

	home       Zone
	places     []string // of steps
	numbers    map[string]int
	hasContext bool // people enter with properties
	exitRules  []*rule.Rule
	waitRules  []*rule.Rule // of the step at hand
	questions  rule.Questions
	waited     []waitedFor
	lost       bool // a way leads nobody knows where
	from       int  // the step at hand
	edges      []edge
}

// copy takes the document over, so that the caller's stays as it is.
func (c *compiler) copy(d *Document) error {
	text, err := d.Text()
	if err == nil {
		err = json.Unmarshal([]byte(text), &c.doc)
	}
	if err != nil {
		return fmt.Errorf("copy journey %.64q: %w", d.ID, err)
	}
	return nil
}

// wrongOfNew is wrong for what earlier programs took, and what does no harm but to those who
// wrote it. Of a version it says nothing: by a check that came later, a program would not
// load a journey that is live, and all inside would stand still after an upgrade.
func (c *compiler) wrongOfNew(place, format string, args ...any) {
	if !c.published {
		c.wrong(place, format, args...)
	}
}

// lacks reports what is missing at a place, unless something there is wrong already:
// perhaps it is only misspelt.
func (c *compiler) lacks(place, format string, args ...any) {
	if c.full() || c.isBad(place) {
		return
	}
	within := outer(place)
	for bad := range c.bad {
		if strings.HasPrefix(bad, place) || bad != within && strings.HasPrefix(bad, within+".") && c.isUnknown(bad) {
			return
		}
	}
	c.wrong(place, format, args...)
}

// isUnknown reports whether a place was refused for its name.
func (c *compiler) isUnknown(place string) bool {
	for i := range c.found {
		if c.found[i].Place == place {
			return strings.HasPrefix(c.found[i].Want, "there is no such member")
		}
	}
	return false
}

// at is the place of an element of a list. One that stands for a list of one is at the
// place of the list.
func (c *compiler) at(place string, i, n int) string {
	element := place + "[" + strconv.Itoa(i) + "]"
	if _, listed := c.origins[element]; n == 1 && !listed {
		return place
	}
	return element
}

func (c *compiler) fail(err error) {
	if c.failed == nil {
		c.failed = err
	}
}

func (c *compiler) document() {
	d, p := &c.doc, c.plan
	c.id("id", d.ID, "a journey")
	c.label("name", d.Name, MaxNameRunes)
	c.label("description", d.Description, MaxDescriptionRunes)
	c.tags("tags", d.Tags)
	c.home = Zone{}
	if c.home = c.zone("zone", &d.Zone); c.home.Location == nil && !c.home.User {
		c.home = utc
	}
	if d.Zone == "UTC" {
		d.Zone = ""
	}
	p.ID, p.Name, p.Tags = d.ID, d.Name, d.Tags
	c.stepNumbers()
	c.entry()
	p.Exit = c.triggers("exit_when", d.ExitWhen, forExit)
	p.Exceptions = c.triggers("exceptions", d.Exceptions, forExceptions)
	c.quiet()
	c.limits()
	c.conversions()
	if d.Control != nil {
		p.Control = c.percent("control.percent", &d.Control.Percent, 1, 9999)
	}
	c.steps()
	c.graph()
	c.waitedBefore()
}

func (c *compiler) id(place, id, of string) {
	switch {
	case id == "":
		c.lacks(place, "want the id of %s: lower-case letters, digits and hyphens, at most %d", of, journey.MaxIDBytes)
	case !journey.ValidID(id):
		c.wrong(place, "want an id of lower-case letters, digits and hyphens, at most %d; got %s", journey.MaxIDBytes, strconv.Quote(shown(id)))
	}
}

// label checks a text for people.
func (c *compiler) label(place, text string, most int) {
	if want := LabelWanted(text, most); want != "" {
		c.wrong(place, "%s", want)
	}
}

// LabelWanted says what is wanted where a text for people has more characters than most, or some
// that databases or terminals do not take; empty: it is right.
func LabelWanted(text string, most int) string {
	if utf8.ValidString(text) && utf8.RuneCountInString(text) <= most && !strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
		return ""
	}
	return fmt.Sprintf("want a text of at most %d characters, no control characters", most)
}

func (c *compiler) tags(place string, tags []string) {
	if len(tags) > mail.MaxTags {
		c.wrong(place, "want at most %d tags, got %d", mail.MaxTags, len(tags))
	}
	for i, tag := range tags {
		if _, err := mail.NewSelector(mail.SelectTag, tag); err != nil {
			c.wrong(c.at(place, i, len(tags)), "want a tag of 1 to %d bytes without commas and control characters, got %s", mail.MaxTagBytes, strconv.Quote(shown(tag)))
		}
	}
}

// percent reads a number of hundredths of a percent, within bounds.
func (c *compiler) percent(place string, n *Number, least, most int) int {
	whole, fraction, _ := strings.Cut(string(*n), ".")
	hundredths, err := strconv.Atoi(whole + (fraction + "00")[:2])
	switch {
	case *n == "":
		c.lacks(place, "want a number of percent")
		return 0
	case err != nil || len(fraction) > 2 && strings.Trim(fraction[2:], "0") != "" || whole == "" || len(whole) > 4 || hundredths < least || hundredths > most || whole[0] == '-':
		c.wrong(place, "want a number of %s to %s with at most two decimals, got %s", percentText(least), percentText(most), shown(string(*n)))
		return 0
	}
	*n = Number(percentText(hundredths))
	return hundredths
}

func percentText(hundredths int) string {
	return strconv.FormatFloat(float64(hundredths)/100, 'f', -1, 64)
}

// count checks a number that is absent (0) or within bounds. One that was written as 0 is
// refused as it is read.
func (c *compiler) count(place string, n, most int64) int64 {
	if n < 0 || n > most {
		c.wrong(place, "want a number of 1 to %d, got %d", most, n)
	}
	return n
}

// rule compiles a rule. Empty: it must be there.
func (c *compiler) rule(place string, raw *Raw, o rule.Options) *rule.Rule {
	if *raw == "" {
		c.lacks(place, "want a rule, there is none")
		return nil
	}
	if c.isBad(place) {
		return nil
	}
	o.Segment = c.segment
	r, err := rule.CompileFor(string(*raw), o)
	if err != nil {
		e, ok := err.(*rule.Error)
		if !ok {
			e = &rule.Error{Want: err.Error()}
		}
		if c.failed == nil {
			c.wrong(join(place, e.Path), "%s", e.Want)
		}
		return nil
	}
	c.needs(place, r)
	for _, step := range r.WaitedFor() {
		c.waited = append(c.waited, waitedFor{c.from, step, place})
	}
	*raw = Raw(r.String())
	return r
}

// ofPerson are the options of a rule about somebody who is inside.
func (c *compiler) ofPerson() rule.Options {
	o := rule.Options{Allow: rule.Context | rule.Journeys | rule.Mails}
	if !c.hasContext {
		o.Allow &^= rule.Context
	}
	o.Refuse = func(about rule.About) string {
		switch about {
		case rule.Context:
			return "people enter this journey with no context: neither by an event, nor by a purchase, nor by the API"
		case rule.Waited:
			return "this rule is asked wherever the person is, and what a step has waited for is known behind that step alone: put it into a split"
		}
		return "no event is at hand here: say context, which is what the person entered with, or name beside it the step that has waited for the event"
	}
	return o
}

// ofStep are the options of a rule of a step: steps before it have waited.
func (c *compiler) ofStep() rule.Options {
	o := c.ofPerson()
	o.Allow |= rule.Waited
	return o
}

// ofEvent are the options of a rule about properties alone.
func ofEvent() rule.Options {
	return rule.Options{Allow: rule.Properties, Refuse: func(rule.About) string {
		return "this rule is about properties of what happens, and nothing else; put the rest into who or a split"
	}}
}

func (c *compiler) segment(id string) (*rule.Rule, error) {
	definition, found, err := c.env.Segment(id)
	if err != nil {
		c.fail(fmt.Errorf("look up segment %s: %w", shown(id), err))
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("there is no segment %s", strconv.Quote(shown(id)))
	}
	c.plan.keep(id, definition)
	return rule.Compile(definition)
}

// needs checks the journeys and steps that a rule names.
func (c *compiler) needs(place string, r *rule.Rule) {
	_, needs := r.Reads()
	for _, n := range needs {
		if n.Journey != "" {
			c.journey(place, n.Journey)
			c.passed(place, &n)
		} else {
			c.mailOf(place, n.Of)
		}
	}
}

// journey checks that there is one.
func (c *compiler) journey(place, id string) {
	if id == c.doc.ID {
		return
	}
	found, err := c.env.Journey(id)
	if err != nil {
		c.fail(fmt.Errorf("look up journey %s: %w", shown(id), err))
	} else if !found {
		c.wrong(place, "there is no journey %s", strconv.Quote(shown(id)))
	}
}

// mailOf checks whose mail is meant.
func (c *compiler) mailOf(place string, of journey.MailOf) {
	if of.Journey == "" {
		return
	}
	c.journey(place, of.Journey)
	if of.Journey != c.doc.ID || of.Step == "" {
		return
	}
	if n, ok := c.numbers[of.Step]; !ok || c.doc.Steps[n].Message == nil {
		c.wrong(place, "want a step that sends a message; %s does not", strconv.Quote(shown(of.Step)))
	}
}

// passed checks a condition about a step of this journey.
func (c *compiler) passed(place string, n *rule.Need) {
	if n.Journey != c.doc.ID || n.Step == "" {
		return
	}
	i, ok := c.numbers[n.Step]
	if !ok {
		c.wrong(place, "this journey has no step %s", strconv.Quote(shown(n.Step)))
		return
	}
	if n.Branch == "" {
		return
	}
	for _, name := range c.doc.Steps[i].Branches() {
		if name == n.Branch {
			return
		}
	}
	c.wrong(place, "step %s has no branch %s", n.Step, strconv.Quote(shown(n.Branch)))
}

// set makes a set of rules, in their order.
func (c *compiler) set(place string, rules ...*rule.Rule) *rule.Set {
	if len(rules) == 0 {
		return nil
	}
	for _, r := range rules {
		if r == nil {
			return nil // it has its problem
		}
	}
	s, err := c.questions.NewSet(rules...)
	if err != nil {
		c.wrong(place, "%v", err)
	}
	return s
}

// object reads JSON that must be an object.
func (c *compiler) object(place string, raw Raw) bool {
	v, err := jsonscan.Scan(string(raw))
	if err != nil || v.Kind != jsonscan.Object {
		c.wrong(place, "want an object, got %s", shown(string(raw)))
	}
	return err == nil && v.Kind == jsonscan.Object
}
