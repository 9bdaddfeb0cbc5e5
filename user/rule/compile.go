package rule

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"time"

	"sluice/journey"
	"sluice/lib/jsonscan"
	"sluice/lib/timetext"
	"sluice/user/profile"
)

// compiler reads one rule, and counts what is bounded.
type compiler struct {
	options             Options
	conditions, regexes int
}

func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// object reads the members of an object, each of which may be there once.
func object(path string, v jsonscan.Value) (map[string]jsonscan.Value, error) {
	if v.Kind != jsonscan.Object {
		return nil, wrong(path, "want a condition, which is an object, got %s", v.Kind)
	}
	all := make(map[string]jsonscan.Value)
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		if _, twice := all[m.Key]; twice {
			return nil, wrong(under(path, m.Key), "want it once, it is there twice")
		}
		all[m.Key] = m.Value
	}
	return all, nil // what the whole text was scanned for
}

func (c *compiler) node(path string, v jsonscan.Value, level int) (node, error) {
	members, err := object(path, v)
	if err != nil {
		return node{}, err
	}
	for _, t := range []tie{and, or, not} {
		if inner, ok := members[t.String()]; ok {
			return c.tied(t, path, members, inner, level)
		}
	}
	if inner, ok := members[memberSegment]; ok {
		return c.segment(path, members, inner)
	}
	return c.leaf(path, members)
}

// tied reads what stands in an and, an or, a not.
func (c *compiler) tied(t tie, path string, members map[string]jsonscan.Value, v jsonscan.Value, level int) (node, error) {
	if len(members) > 1 {
		return node{}, wrong(path, "want nothing beside %q", t)
	}
	if level == MaxNestingLevels {
		return node{}, wrong(path, "want at most %d levels of conditions", MaxNestingLevels)
	}
	n, path := node{tie: t}, under(path, t.String())
	if t == not {
		x, err := c.node(path, v, level+1)
		n.all = []node{x}
		return n, err
	}
	if v.Kind != jsonscan.Array {
		return node{}, wrong(path, "want a list of conditions, got %s", v.Kind)
	}
	e := jsonscan.ReadArray(v.Raw)
	for e.Next() {
		if len(n.all) == MaxListItems {
			return node{}, wrong(path, "want at most %d conditions", MaxListItems)
		}
		x, err := c.node(path+"["+strconv.Itoa(len(n.all))+"]", e.Value, level+1)
		if err != nil {
			return node{}, err
		}
		n.all = append(n.all, x)
	}
	if len(n.all) == 0 {
		return node{}, wrong(path, "want at least one condition")
	}
	return n, nil
}

// The members of a condition beside its subject.
const (
	memberOf     = "of"
	memberIs     = "is"
	memberValue  = "value"
	memberZone   = "zone"
	memberDigits = "digits"
)

// leaf reads a condition.
func (c *compiler) leaf(path string, members map[string]jsonscan.Value) (node, error) {
	x := condition{}
	var err error
	if x.subject, err = c.about(path, members); err != nil {
		return node{}, err
	}
	if err := x.setName(under(path, x.subject.String()), members[x.subject.String()]); err != nil {
		return node{}, err
	}
	if err := x.setMore(path, members); err != nil {
		return node{}, err
	}
	if err := x.setOf(under(path, memberOf), members[memberOf]); err != nil {
		return node{}, err
	}
	is := members[memberIs]
	if is.Kind != jsonscan.String {
		return node{}, wrong(under(path, memberIs), "want a comparison, such as equals, got %s", is.Kind)
	}
	return c.compared(path, x, is.Text(), members)
}

// compared sets a condition's comparison, value and zone.
func (c *compiler) compared(path string, x condition, is string, members map[string]jsonscan.Value) (node, error) {
	atIs := under(path, memberIs)
	if c.conditions++; c.conditions > MaxConditions {
		return node{}, wrong(atIs, "want at most %d conditions in a rule", MaxConditions)
	}
	how, ok := comparisons[is]
	if !ok || how.of&x.class() == 0 || how.op == opExists && x.subject == ofBucket {
		return node{}, wrong(atIs, "want a comparison that %s has: %s; got %.40q", x.subject, comparisonNames(&x), is)
	}
	if how.wants == wantRegex {
		if c.regexes++; c.regexes > MaxRegexes {
			return node{}, wrong(atIs, "want at most %d regular expressions in a rule: say a|b in one", MaxRegexes)
		}
	}
	x.how, x.is = how, is
	if err := x.setZone(under(path, memberZone), members[memberZone]); err != nil {
		return node{}, err
	}
	if err := x.setValue(under(path, memberValue), members[memberValue]); err != nil {
		return node{}, err
	}
	if err := x.setDigits(under(path, memberDigits), members[memberDigits]); err != nil {
		return node{}, err
	}
	if err := x.setNeed(path); err != nil {
		return node{}, err
	}
	return node{cond: x}, nil
}

func (x *condition) setName(path string, v jsonscan.Value) error {
	if v.Kind != jsonscan.String {
		return wrong(path, "want a name, got %s", v.Kind)
	}
	x.rawName, x.name = v.Raw, v.Text()
	if !profile.NameFits(x.name) && x.subject != ofBucket {
		return wrong(path, "want a name of 1 to %d characters", profile.MaxNameRunes)
	}
	switch x.subject {
	case ofField:
		if x.name != fieldCreated && x.name != fieldExternalID && !profile.IsField(x.name) {
			return wrong(path, "want the name of a standard field, as email or country, got %.40q; others are an attribute", x.name)
		}
	case ofSubscription:
		if x.name != "email" && x.name != "push" {
			return wrong(path, "want email or push, got %.40q", x.name)
		}
	case ofJourney:
		return checkJourney(path, v)
	case ofMail:
		if !slices.Contains(journey.MailEvents, journey.MailEvent(x.name)) {
			return wrong(path, "want received, opened or clicked, got %.40q", x.name)
		}
	case ofBucket:
		if len(x.name) > profile.MaxNameRunes {
			return wrong(path, "want a seed of at most %d bytes", profile.MaxNameRunes)
		}
		x.seed = seedOf(x.name)
	}
	return nil
}

func (x *condition) setOf(path string, v jsonscan.Value) error {
	if v.Kind == jsonscan.None {
		return nil
	}
	if x.subject != ofEvent && x.subject != ofPurchase {
		return wrong(path, "want it with an event or a purchase only")
	}
	for part, name := range partNames {
		if v.Kind == jsonscan.String && v.Text() == name {
			x.part = part
			return nil
		}
	}
	return wrong(path, "want count, first or last, got %.40s", v.Raw)
}

func (x *condition) setZone(path string, v jsonscan.Value) error {
	x.zone = time.UTC
	if v.Kind == jsonscan.None {
		return nil
	}
	if !x.how.wants.isTime() {
		return wrong(path, "want it with a comparison of times only")
	}
	x.rawZone = v.Raw
	if v.Kind != jsonscan.String {
		return wrong(path, `want "user" or a name of the IANA database, as Europe/Vienna, got %s`, v.Kind)
	}
	if x.userZone = v.Text() == "user"; x.userZone {
		return nil
	}
	zone := zoneNamed(v.Text())
	if zone == nil {
		return wrong(path, `want "user" or a name of the IANA database, as Europe/Vienna, got %.40s`, v.Raw)
	}
	x.zone = zone
	return nil
}

// setDigits says whether numbers and texts of digits are times here. A rule asks for
// that by "digits": true, or by comparing with such a time itself: a profile has counts,
// years and postcodes too, and all of them would be in 1970.
func (x *condition) setDigits(path string, v jsonscan.Value) error {
	x.digits = x.timeText != "" && !(x.timeQuoted && timetext.Written(x.timeText))
	switch {
	case v.Kind == jsonscan.None:
		return nil
	case !x.how.wants.isTime():
		return wrong(path, "want it with a comparison of times only")
	case x.class() != classJSON:
		return wrong(path, "want it with an attribute, a field, a property or the context only")
	case v.Kind != jsonscan.Bool:
		return wrong(path, "want true or false, got %s", v.Kind)
	}
	x.rawDigits = v.Raw
	x.digits = x.digits || v.Raw == "true"
	return nil
}

// maxZoneBytes bounds the name of a zone.
const maxZoneBytes = 64

// zoneNamed returns a zone of the IANA database, nil for a name that is none.
func zoneNamed(name string) *time.Location {
	if len(name) > maxZoneBytes {
		return nil
	}
	return profile.Zone(name)
}

func (x *condition) setValue(path string, v jsonscan.Value) (err error) {
	x.rawValue = v.Raw
	switch x.how.wants {
	case wantNothing:
		if v.Kind != jsonscan.None {
			return wrong(path, "want none with %s", x.is)
		}
	case wantScalar:
		return x.setScalar(path, v)
	case wantNumber:
		if v.Kind != jsonscan.Number {
			return wrong(path, "want a number, got %s", v.Kind)
		}
		x.want = []scalar{scalarOf(v)}
	case wantList:
		return x.setList(path, v)
	case wantRegex:
		return x.setRegex(path, v)
	case wantTime:
		if v.Kind != jsonscan.String && v.Kind != jsonscan.Number {
			return wrong(path, "want a time, as 2026-01-31T10:20:30Z, got %s", v.Kind)
		}
		// A number has a moment; so has a text, once its zone is known.
		x.timeText, x.timeQuoted = v.Text(), v.Kind == jsonscan.String
		if x.atMillis, err = momentIn(x.timeText, x.timeQuoted, x.zone); err != nil {
			return wrong(path, "want a time, as 2026-01-31T10:20:30Z: %v", err)
		}
	case wantDays:
		days, err := strconv.Atoi(v.Raw)
		if err != nil || days < 0 || days > MaxDays || v.Kind != jsonscan.Number {
			return wrong(path, "want a whole number of days, 0 to %d, got %.40s", MaxDays, orNothing(v))
		}
		x.days = days
	}
	return nil
}

func orNothing(v jsonscan.Value) string {
	if v.Kind == jsonscan.None {
		return v.Kind.String()
	}
	return v.Raw
}

// momentIn reads a time that, unless it says so itself, is one of a zone.
func momentIn(text string, quoted bool, zone *time.Location) (millis int64, err error) {
	if quoted {
		return timetext.ParseAnyIn(text, zone) // a person born before 1970 was born before 1980
	}
	return timetext.Parse(text, false)
}

func (x *condition) setScalar(path string, v jsonscan.Value) error {
	switch x.class() {
	case classWhole:
		if v.Kind != jsonscan.Number {
			return wrong(path, "want a number, got %s", v.Kind)
		}
	case classWord:
		if v.Kind != jsonscan.String || !x.hasWord(v.Text()) {
			return wrong(path, "want one of %s, got %.40s", x.words(), orNothing(v))
		}
	default:
		if v.Kind != jsonscan.String && v.Kind != jsonscan.Number && v.Kind != jsonscan.Bool {
			return wrong(path, "want a text, a number or a boolean, got %s", v.Kind)
		}
	}
	x.want = []scalar{scalarOf(v)}
	return nil
}

func (x *condition) setList(path string, v jsonscan.Value) error {
	if v.Kind != jsonscan.Array {
		return wrong(path, "want a list of texts, numbers and booleans, got %s", v.Kind)
	}
	e := jsonscan.ReadArray(v.Raw)
	for e.Next() {
		if len(x.want) == MaxListItems {
			return wrong(path, "want at most %d items", MaxListItems)
		}
		if k := e.Value.Kind; k != jsonscan.String && k != jsonscan.Number && k != jsonscan.Bool {
			return wrong(path+"["+strconv.Itoa(len(x.want))+"]", "want a text, a number or a boolean, got %s", k)
		}
		x.want = append(x.want, scalarOf(e.Value))
	}
	if len(x.want) == 0 {
		return wrong(path, "want at least one item")
	}
	return nil
}

// setRegex bounds an expression twice. A short text (a{1000}) may be a long
// program, and a match takes as many steps as the program has, for each byte.
func (x *condition) setRegex(path string, v jsonscan.Value) error {
	if v.Kind != jsonscan.String {
		return wrong(path, "want a regular expression (RE2), got %s", v.Kind)
	}
	text := v.Text()
	if len(text) > MaxRegexBytes {
		return wrong(path, "want an expression of at most %d bytes, got %d", MaxRegexBytes, len(text))
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err == nil {
		var program *syntax.Prog
		if program, err = syntax.Compile(parsed.Simplify()); err == nil && len(program.Inst) > MaxRegexInstructions {
			err = errors.New("it is too large: repeat less")
		}
	}
	if err == nil {
		x.regex, err = regexp.Compile(text)
	}
	if err != nil {
		return wrong(path, "want a regular expression (RE2): %v", err)
	}
	return nil
}
