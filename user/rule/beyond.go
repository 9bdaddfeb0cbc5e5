package rule

import (
	"fmt"
	"slices"
	"strings"

	"sluice/journey"
	"sluice/lib/jsonscan"
)

// About is what conditions can be about beside a profile. A bit each.
type About uint8

// What there is.
const (
	Properties About = 1 << iota // of the event, the purchase or the call at hand
	Context                      // what the person entered a journey with
	Journeys                     // where the person is or was
	Mails                        // what the person did with mail
	Waited                       // properties of an event that a step has waited for

	// Everything is all of them.
	Everything = Properties | Context | Journeys | Mails | Waited
)

// Options say what a rule may be about beside a profile. With the zero value it may be
// about nothing else.
type Options struct {
	Allow About

	// Refuse says why the rule may not be about one of the others, in words that end
	// the sentence "want something else: ...". nil: such are for journeys alone.
	Refuse func(About) string

	// Segment returns the rule of a segment by its id. The error says why there is
	// none. nil: a rule cannot name segments.
	Segment func(id string) (*Rule, error)
}

// needed is what a subject takes of Options.Allow. A property with a step takes Waited.
var needed = map[subject]About{ofProperty: Properties, ofContext: Context, ofJourney: Journeys, ofMail: Mails}

// more is what a condition has that is about more than a member of the profile.
type more struct {
	path []string // of members inside the value
	step string   // of a property: of the event that this step has waited for
	need Need
	raw  string // its members, as JSON, with a comma before each
}

// MaxPathNames bounds how deep a condition looks into a value.
const MaxPathNames = 8

// MaxNeeds bounds the needs of a Set, and of sets with common Questions: a bit each.
const MaxNeeds = 64

// MaxMailDays bounds how far back a condition about mail looks.
const MaxMailDays = 30

// Need is a question about a person that no profile answers. One that has a Journey is
// about where the person is: Is says whether the person is inside now, was inside
// ever, or has passed the Step, by the Branch if one is named. Else it is whether an
// Event happened to mail of the person in the last Days, ever if they are 0.
type Need struct {
	Journey      string
	Is           string // isInside, isWasInside, isPassed
	Step, Branch string

	Event journey.MailEvent
	Of    journey.MailOf
	Days  int
}

// Values of Need.Is, and the comparisons that ask for them.
const (
	isInside    = "inside"
	isWasInside = "was_inside"
	isPassed    = "passed"
)

// Inside reports whether it asks if the person is inside now.
func (n *Need) Inside() bool { return n.Is == isInside }

// WasInside reports whether it asks if the person was ever inside.
func (n *Need) WasInside() bool { return n.Is == isWasInside }

// Passed reports whether it asks if the person has passed a step.
func (n *Need) Passed() bool { return n.Is == isPassed }

// Given is what is known of one person beside the profile.
type Given struct {
	Properties string // an object, or empty
	Context    string // an object, or empty
	Known      uint64 // bit i answers Needs()[i]
}

// Questions number the needs of several sets in one way, so that one Given answers all
// of them. The sets must be made before any of them is used.
type Questions struct{ needs []Need }

// NewSet is the function NewSet for a set with these questions.
func (q *Questions) NewSet(rules ...*Rule) (*Set, error) { return newSet(q, rules...) }

// Needs are the questions of all its sets, each once.
func (q *Questions) Needs() []Need { return slices.Clone(q.needs) }

// Needs are the questions that bits of Given.Known answer: those of the rules of the
// set, and of other sets made of the same Questions.
func (s *Set) Needs() []Need { return s.asked.Needs() }

// Asks reports whether the rules ask for more than profiles.
func (s *Set) Asks() bool {
	return s.asks || len(s.wants[inProperties].names)+len(s.wants[inContext].names) > 0
}

// Context are the members of the context that the rules look at, sorted. Properties of an
// event that a step has waited for are among them (journey.WaitedMember).
func (s *Set) Context() []string { return slices.Clone(s.wants[inContext].names) }

// MatchGiven is Match with what is known of each person beside the profile: given is
// as long as texts. A person whose properties or context are no object counts as
// unread.
func (s *Set) MatchGiven(texts []string, ids []uint64, nowMillis int64, given []Given, out []uint64) (unread int, err error) {
	if len(given) != len(texts) {
		return 0, fmt.Errorf("match rules: want what is known of each of %d people, got it of %d", len(texts), len(given))
	}
	return s.match(texts, ids, nowMillis, given, out)
}

func (s *Set) needOf(n Need) int {
	s.asks = true
	i := slices.Index(s.asked.needs, n)
	if i < 0 {
		i = len(s.asked.needs)
		s.asked.needs = append(s.asked.needs, n)
	}
	return i
}

// readGiven fills the slots that are not of the profile.
func (e *evaluation) readGiven(g *Given) error {
	e.known = g.Known
	if err := e.readAny(&e.set.wants[inProperties], g.Properties); err != nil {
		return err
	}
	return e.readAny(&e.set.wants[inContext], g.Context)
}

// readAny reads an object whose names are in no order. Of a name that is there twice
// the last one counts.
func (e *evaluation) readAny(w *wanted, object string) error {
	if len(w.names) == 0 || object == "" {
		return nil
	}
	m := jsonscan.Read(object)
	for m.Next() {
		if i, ok := slices.BinarySearch(w.names, m.Key); ok {
			e.slots[w.slots[i]] = m.Value
		}
	}
	return m.Err()
}

// descend looks into a value, member by member; nothing if one is missing.
func descend(v jsonscan.Value, path []string) jsonscan.Value {
	for _, name := range path {
		if v.Kind != jsonscan.Object {
			return jsonscan.Value{}
		}
		found := jsonscan.Value{}
		m := jsonscan.Read(v.Raw)
		for m.Next() {
			if m.Key == name {
				found = m.Value
			}
		}
		v = found
	}
	return v
}

// Read is something of a profile that a rule looks at: the name of a subject
// (attribute, field, event, purchase, spent, group, subscription), and of what.
type Read struct{ About, Name string }

// Reads returns what of a profile the rule looks at, in its order, and the questions
// that it asks beside it.
func (r *Rule) Reads() (reads []Read, needs []Need) {
	r.root.each(func(c *condition) {
		switch {
		case c.subject == ofJourney || c.subject == ofMail:
			needs = append(needs, c.more.need)
		case c.subject < ofProperty:
			reads = append(reads, Read{c.subject.String(), c.name})
		}
		if c.userZone {
			reads = append(reads, Read{ofField.String(), fieldTimeZone})
		}
	})
	return reads, needs
}

// WaitedFor are the steps whose events the rule looks at, which they have waited for.
func (r *Rule) WaitedFor() (steps []string) {
	r.root.each(func(c *condition) {
		if c.more != nil && c.more.step != "" && !slices.Contains(steps, c.more.step) {
			steps = append(steps, c.more.step)
		}
	})
	return steps
}

// Members of conditions about more than a member of the profile.
const (
	memberPath    = "path"
	memberStep    = "step"
	memberBranch  = "branch"
	memberMessage = "message"
	memberTag     = "tag"
	memberJourney = "journey"
	memberSegment = "segment"
)

// about finds what a condition is about, and checks the names of its members.
func (c *compiler) about(path string, members map[string]jsonscan.Value) (subject, error) {
	found := noSubject
	_, ofMails := members[ofMail.String()]
	for name := range members {
		s, ok := subjects[name]
		switch {
		case !ok || ofMails && s == ofJourney: // of mail: that of a journey
		case found != noSubject:
			return 0, wrong(path, "want one of what a condition is about, got both %q and %q", min(name, found.String()), max(name, found.String()))
		default:
			found = s
		}
	}
	for _, name := range sortedKeys(members) {
		if where, ok := moreMembers[name]; ok && found != noSubject {
			if !slices.Contains(where, found) {
				return 0, wrong(under(path, name), "want it with %s only", withNames(where))
			}
		} else if _, ok := subjects[name]; !ok && !slices.Contains([]string{memberOf, memberIs, memberValue, memberZone, memberDigits}, name) {
			return 0, wrong(under(path, name), "want a name that conditions have: %s, of, is, value, zone, digits%s", c.subjectNames(), c.moreNames())
		}
	}
	if found == noSubject {
		return 0, wrong(path, "want and, or, not, or one of %s", c.subjectNames())
	}
	what, beyond := needed[found]
	if _, ofStep := members[memberStep]; ofStep && found == ofProperty {
		what = Waited
	}
	if beyond && c.options.Allow&what == 0 {
		why := "a " + found.String() + " is for the rules of journeys"
		if c.options.Refuse != nil {
			why = c.options.Refuse(what)
		}
		return 0, wrong(under(path, found.String()), "want something else: %s", why)
	}
	return found, nil
}

// moreMembers are the members that a few conditions have, and which.
var moreMembers = map[string][]subject{
	memberPath:    {ofAttribute, ofField, ofProperty, ofContext},
	memberStep:    {ofProperty, ofJourney, ofMail},
	memberBranch:  {ofJourney},
	memberMessage: {ofMail},
	memberTag:     {ofMail},
	memberJourney: {ofJourney, ofMail},
}

func withNames(all []subject) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.String()
	}
	return strings.Join(names, ", ")
}

// subjectNames lists what a rule may be about here.
func (c *compiler) subjectNames() string {
	names := subjectNames
	for s := ofProperty; s <= ofMail; s++ {
		what, ok := needed[s]
		if s == ofProperty {
			what |= Waited
		}
		if ok && c.options.Allow&what != 0 {
			names += ", " + s.String()
		}
	}
	if c.options.Segment != nil {
		names += ", " + memberSegment
	}
	return names
}

func (c *compiler) moreNames() string {
	if c.options.Allow&(Journeys|Mails) != 0 {
		return ", path, step, branch, message, tag"
	}
	return ", path"
}

func sortedKeys(members map[string]jsonscan.Value) []string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// segment reads {"segment": ID}: it holds where the segment's rule does, as it is
// when this rule is compiled.
func (c *compiler) segment(path string, members map[string]jsonscan.Value, v jsonscan.Value) (node, error) {
	if len(members) > 1 {
		return node{}, wrong(path, "want nothing beside %q", memberSegment)
	}
	path = under(path, memberSegment)
	if c.options.Segment == nil {
		return node{}, wrong(path, "want something else: a segment is for the rules of journeys")
	}
	if v.Kind != jsonscan.String {
		return node{}, wrong(path, "want the id of a segment, got %s", v.Kind)
	}
	r, err := c.options.Segment(v.Text())
	if err != nil {
		return node{}, wrong(path, "want the id of a segment: %v", err)
	}
	r.root.each(func(x *condition) {
		c.conditions++
		if x.how.op == opRegex {
			c.regexes++
		}
	})
	if c.conditions > MaxConditions || c.regexes > MaxRegexes {
		return node{}, wrong(path, "want at most %d conditions and %d regular expressions in a rule, those of its segments included", MaxConditions, MaxRegexes)
	}
	return node{tie: named, all: []node{r.root}, name: strings.Clone(v.Raw)}, nil
}

// setMore reads what a few conditions have.
func (x *condition) setMore(path string, members map[string]jsonscan.Value) error {
	m := more{}
	if v, ok := members[memberPath]; ok {
		if err := m.setPath(under(path, memberPath), v); err != nil {
			return err
		}
		if x.subject == ofField && (x.name == fieldCreated || x.name == fieldExternalID) {
			return wrong(under(path, memberPath), "want none with %s", x.name)
		}
	}
	texts := make(map[string]string)
	for _, name := range []string{memberMessage, memberTag, memberJourney, memberStep, memberBranch} {
		v, ok := members[name]
		if !ok || name == memberJourney && x.subject == ofJourney {
			continue
		}
		at := under(path, name)
		if v.Kind != jsonscan.String || v.Text() == "" || len(v.Text()) > maxQualifierBytes {
			return wrong(at, "want a text of 1 to %d bytes, got %.40s", maxQualifierBytes, v.Raw)
		}
		if name == memberJourney || name == memberStep {
			if err := checkJourney(at, v); err != nil {
				return err
			}
		}
		texts[name] = v.Text()
		m.raw += `,"` + name + `":` + v.Raw
	}
	switch x.subject {
	case ofMail:
		m.need = Need{Event: journey.MailEvent(x.name), Of: journey.MailOf{Message: texts[memberMessage], Tag: texts[memberTag], Journey: texts[memberJourney], Step: texts[memberStep]}}
		if texts[memberStep] != "" && texts[memberJourney] == "" {
			return wrong(under(path, memberStep), "want the journey of the step beside it")
		}
	case ofJourney:
		m.need = Need{Journey: x.name, Step: texts[memberStep], Branch: texts[memberBranch]}
	case ofProperty:
		m.step = texts[memberStep]
	}
	if len(m.path) > 0 || m.step != "" || x.subject == ofMail || x.subject == ofJourney {
		x.more = &m
	}
	return nil
}

// maxQualifierBytes bounds a message's id, a tag, a branch.
const maxQualifierBytes = 128

func (m *more) setPath(path string, v jsonscan.Value) error {
	if v.Kind != jsonscan.Array {
		return wrong(path, `want a list of names, as ["address", "city"], got %s`, v.Kind)
	}
	e := jsonscan.ReadArray(v.Raw)
	m.raw = `,"path":[`
	for e.Next() {
		if e.Value.Kind != jsonscan.String || e.Value.Text() == "" {
			return wrong(path, "want names of members, got %.40s", e.Value.Raw)
		}
		if len(m.path) == MaxPathNames {
			return wrong(path, "want at most %d names", MaxPathNames)
		}
		if len(m.path) > 0 {
			m.raw += ","
		}
		m.path = append(m.path, e.Value.Text())
		m.raw += e.Value.Raw
	}
	m.raw += "]"
	if len(m.path) == 0 {
		return wrong(path, "want at least one name")
	}
	return nil
}

func checkJourney(path string, v jsonscan.Value) error {
	if v.Kind != jsonscan.String || !journey.ValidID(v.Text()) {
		return wrong(path, "want an id: lower-case letters, digits and hyphens, at most %d; got %.70s", journey.MaxIDBytes, v.Raw)
	}
	return nil
}

// setNeed completes the question of a condition about a journey or mail, once its
// comparison is known.
func (x *condition) setNeed(path string) error {
	switch x.subject {
	case ofJourney:
		n := &x.more.need
		n.Is = strings.Replace(strings.TrimPrefix(x.is, "not_"), "was_not_", "was_", 1)
		if (n.Step != "") != n.Passed() {
			return wrong(under(path, memberIs), "want passed or not_passed with a step, and inside, not_inside, was_inside or was_not_inside without one")
		}
		if n.Branch != "" && n.Step == "" {
			return wrong(under(path, memberIs), "want the step of the branch beside it")
		}
	case ofMail:
		if x.how.wants == wantDays {
			if x.days < 1 || x.days > MaxMailDays {
				return wrong(under(path, memberValue), "want 1 to %d days: mail is not looked up further back", MaxMailDays)
			}
			if x.rawZone != "" {
				return wrong(under(path, memberZone), "want none about mail: a day is 24 hours")
			}
			x.more.need.Days = x.days
			x.how.op = opKnown
		}
	}
	return nil
}
