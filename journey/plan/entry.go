package plan

import (
	"errors"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"sluice/journey"
	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/user/profile"
)

var utc = Zone{Location: time.UTC}

func (c *compiler) entry() {
	e, p := &c.doc.Entry, &c.plan.Entry
	if len(e.When) == 0 {
		c.lacks("entry.when", "want at least one trigger, there is none")
	}
	for i := range e.When {
		t := &e.When[i]
		c.hasContext = c.hasContext || t.Event != "" || t.Purchase != "" || t.API
	}
	p.When = c.triggers("entry.when", e.When, forEntry)
	for i := range p.When {
		if p.When[i].Kind == OnSchedule && len(p.When) > 1 {
			c.wrong(c.at("entry.when", i, len(p.When)), "want a time alone: make a second journey for what else lets people enter")
		}
	}
	if e.Who != "" {
		p.Who = c.set("entry.who", c.rule("entry.who", &e.Who, c.ofPerson()))
	}
	if p.Once = e.AgainAfter == ""; !p.Once {
		p.AgainSeconds = c.duration("entry.again_after", &e.AgainAfter, 0, MaxSeconds)
	}
	if l := e.Limit; l != nil {
		p.PerDay = c.count("entry.limit.per_day", l.PerDay, MaxEntries)
		p.Total = c.count("entry.limit.total", l.Total, MaxEntries)
		p.PerRun = c.count("entry.limit.per_run", l.PerRun, MaxEntries)
		if l.PerRun != 0 && !slices.ContainsFunc(p.When, func(on On) bool { return on.Kind == OnSchedule }) {
			c.wrong("entry.limit.per_run", "want it with a schedule (entry.when.at) only: others have no runs")
		}
		if *l == (EntryLimit{}) {
			e.Limit = nil
		}
	}
}

// use says where a trigger stands, hence what it may be.
type use struct {
	kinds []Kind
	why   string // others are not
}

var facts = []Kind{OnEvent, OnPurchase, OnAttribute, OnGroup, OnMail}

var (
	forEntry       = use{append([]Kind{OnSchedule, OnAPI}, facts...), "a rule lets nobody enter by itself: name what happens in when, and the rule in who"}
	forExit        = use{append([]Kind{OnRule}, facts...), "only what happens to a person takes the person out"}
	forWait        = use{append([]Kind{OnRule}, facts...), "only what happens to a person can be waited for"}
	forExceptions  = use{facts, "an exception is something that happens; a rule is for exit_when"}
	forConversions = use{facts, "a conversion is something that happens to a person"}
)

// triggers compiles a list of triggers.
func (c *compiler) triggers(place string, all []Trigger, u use) []On {
	if len(all) > MaxTriggers {
		c.wrong(place, "want at most %d triggers, got %d", MaxTriggers, len(all))
		return nil
	}
	on := make([]On, len(all))
	for i := range all {
		on[i] = c.trigger(c.at(place, i, len(all)), &all[i], u)
	}
	return on
}

// triggerMembers are the members that a trigger of a kind has beside its own.
var triggerMembers = map[string][]string{
	"event": {"where"}, "purchase": {"where"},
	"attribute": {"path", "from", "to"}, "field": {"path", "from", "to"},
	"group": {"becomes"}, "subscription": {"becomes"},
	"mail": {"message", "tag", "journey", "step"},
	"at":   {"every", "weekdays", "days", "until", "zone"},
	"api":  {}, "rule": {},
}

func (c *compiler) trigger(place string, t *Trigger, u use) On {
	if c.isBad(place) {
		return On{}
	}
	name := c.oneKind(place, t)
	if name == "" {
		return On{}
	}
	for _, other := range membersOf(t) {
		if !hasTag(t, other, "kind") && !slices.Contains(triggerMembers[name], other) {
			c.wrong(join(place, other), "want no such member beside %s", name)
		}
	}
	on := c.on(place, name, t)
	if !slices.Contains(u.kinds, on.Kind) {
		c.wrong(join(place, name), "want another trigger here: %s", u.why)
	}
	return on
}

func (c *compiler) on(place, name string, t *Trigger) On {
	switch name {
	case "event":
		c.profileName(join(place, name), t.Event)
		return On{Kind: OnEvent, Name: t.Event, Where: c.where(place, t)}
	case "purchase":
		c.profileName(join(place, name), t.Purchase)
		return On{Kind: OnPurchase, Name: t.Purchase, Where: c.where(place, t)}
	case "attribute", "field":
		return c.onAttribute(place, name, t)
	case "group":
		c.profileName(join(place, name), t.Group)
		return On{Kind: OnGroup, Name: t.Group, To: c.becomes(place, t, "subscribed", "unsubscribed")}
	case "subscription":
		if t.Subscription != "email" && t.Subscription != "push" {
			c.wrong(join(place, name), "want email or push, got %s", strconv.Quote(shown(t.Subscription)))
		}
		return On{Kind: OnAttribute, Name: t.Subscription + "_subscribe", To: profile.Quoted(c.becomes(place, t, "subscribed", "unsubscribed", "opted_in"))}
	case "mail":
		return c.onMail(place, t)
	case "at":
		return On{Kind: OnSchedule, At: c.schedule(place, t)}
	case "api":
		return On{Kind: OnAPI}
	}
	return c.onRule(join(place, name), t)
}

// where compiles the rule about properties.
func (c *compiler) where(place string, t *Trigger) *setOf {
	if t.Where == "" {
		return nil
	}
	place = join(place, "where")
	r := c.rule(place, &t.Where, ofEvent())
	if r == nil {
		return nil
	}
	if reads, _ := r.Reads(); len(reads) > 0 {
		c.wrong(place, "want properties of what happens only, got %s: put that into who or a split", reads[0].About)
	}
	return c.set(place, r)
}

func (c *compiler) onAttribute(place, name string, t *Trigger) On {
	attribute, isField := t.Attribute, name == "field"
	if isField {
		attribute = t.Field
	}
	at := join(place, name)
	switch {
	case isField && !profile.IsField(attribute):
		c.wrong(at, "want the name of a standard field, as email or country, got %s; others are an attribute", strconv.Quote(shown(attribute)))
	case !isField && profile.IsField(attribute):
		c.wrong(at, "want a custom attribute; %s is a standard field: say field", attribute)
	case !isField:
		c.profileName(at, attribute)
	}
	c.path(join(place, "path"), t.Path)
	c.scalar(join(place, "from"), t.From)
	c.scalar(join(place, "to"), t.To)
	switch to := join(place, "to"); {
	case t.From == "" || t.To == "":
	case t.From == t.To:
		c.wrong(to, "want another value than from: this is no change")
	case SameValue(string(t.From), string(t.To)):
		c.wrongOfNew(to, "want another value than from: %s is %s, and this is no change", shown(string(t.To)), shown(string(t.From)))
	}
	return On{Kind: OnAttribute, Name: attribute, Path: t.Path, From: string(t.From), To: string(t.To)}
}

func (c *compiler) path(place string, names []string) {
	if len(names) > maxPathNames {
		c.wrong(place, "want at most %d names, got %d", maxPathNames, len(names))
	}
	for i, name := range names {
		if !profile.NameFits(name) {
			c.wrong(c.at(place, i, len(names)), "want a name of 1 to %d characters", profile.MaxNameRunes)
		}
	}
}

// scalar checks a value to compare with.
func (c *compiler) scalar(place string, raw Raw) {
	if raw == "" {
		return
	}
	if v, err := jsonscan.Scan(string(raw)); err != nil || v.Kind == jsonscan.Object || v.Kind == jsonscan.Array {
		c.wrong(place, "want a text, a number, a boolean or null, got %s", shown(string(raw)))
	}
}

// SameValue reports whether two texts of JSON are the same value, as rules compare it: 5 is
// 5.0, and "\u00e9" is "é". Objects and arrays are if their texts are.
func SameValue(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := jsonscan.Scan(a)
	y, errY := jsonscan.Scan(b)
	switch {
	case errX != nil, errY != nil, x.Kind != y.Kind:
	case x.Kind == jsonscan.String:
		return x.Text() == y.Text()
	case x.Kind == jsonscan.Number:
		return sameNumber(a, b)
	}
	return false
}

// sameNumber compares whole numbers of 64 bits exactly, others as float64. Numbers beyond
// that, of which ParseFloat says that they are out of range, are infinite, as to rules.
func sameNumber(a, b string) bool {
	m, errM := strconv.ParseInt(a, 10, 64)
	n, errN := strconv.ParseInt(b, 10, 64)
	if errM == nil && errN == nil {
		return m == n
	}
	f, errF := strconv.ParseFloat(a, 64)
	g, errG := strconv.ParseFloat(b, 64)
	known := func(err error) bool { return err == nil || errors.Is(err, strconv.ErrRange) }
	return known(errF) && known(errG) && f == g
}

func (c *compiler) becomes(place string, t *Trigger, words ...string) string {
	switch {
	case t.Becomes == "":
		c.lacks(join(place, "becomes"), "want the state that it changes to: one of %s", joined(words))
	case !slices.Contains(words, t.Becomes):
		c.wrong(join(place, "becomes"), "want one of %s, got %s", joined(words), strconv.Quote(shown(t.Becomes)))
	}
	return t.Becomes
}

// profileName checks the name of an event, a product, an attribute or a group.
func (c *compiler) profileName(place, name string) {
	if !profile.NameFits(name) {
		c.wrong(place, "want a name of 1 to %d characters", profile.MaxNameRunes)
	}
}

func (c *compiler) onMail(place string, t *Trigger) On {
	on := On{Kind: OnMail, Mail: journey.MailEvent(t.Mail), Of: journey.MailOf{Message: t.Message, Tag: t.Tag, Journey: t.Journey, Step: t.Step}}
	if !slices.Contains(journey.MailEvents, on.Mail) {
		c.wrong(join(place, "mail"), "want received, opened or clicked, got %s", strconv.Quote(shown(t.Mail)))
	}
	if t.Tag != "" {
		c.tags(join(place, "tag"), []string{t.Tag})
	}
	if t.Message != "" {
		if _, err := mail.NewSelector(mail.SelectMessage, t.Message); err != nil {
			c.wrong(join(place, "message"), "want the id of a message, 32 hexadecimal digits; a step of a journey is journey and step; got %s", strconv.Quote(shown(t.Message)))
		}
	}
	if t.Journey != "" {
		c.id(join(place, "journey"), t.Journey, "a journey")
	}
	if t.Step != "" {
		c.id(join(place, "step"), t.Step, "a step")
		if t.Journey == c.doc.ID {
			t.Journey = "" // it is this one anyway
		}
		if t.Journey == "" {
			on.Of.Journey = c.doc.ID
		}
	}
	if !c.isBad(place) {
		at := join(place, "journey")
		if t.Journey == "" {
			at = join(place, "step")
		}
		c.mailOf(at, on.Of)
	}
	return on
}

// onRule compiles a rule that is waited for: one of exit_when, or of the step at hand.
func (c *compiler) onRule(place string, t *Trigger) On {
	options := c.ofPerson()
	if c.waitRules != nil {
		options = c.ofStep()
	}
	r := c.rule(place, &t.Rule, options)
	on := On{Kind: OnRule, Looks: looksAt(r)}
	if c.waitRules != nil {
		on.Rule = len(c.waitRules)
		c.waitRules = append(c.waitRules, r)
		return on
	}
	on.Rule = len(c.exitRules)
	c.exitRules = append(c.exitRules, r)
	if len(c.exitRules) > MaxExitRules {
		c.wrong(place, "want at most %d rules in exit_when: say or in one", MaxExitRules)
	}
	return on
}

func (c *compiler) schedule(place string, t *Trigger) *Schedule {
	s := &Schedule{First: c.moment(join(place, "at"), &t.At), Zone: c.zone(join(place, "zone"), &t.Zone)}
	every := slices.Index([]string{"", "day", "week", "month"}, t.Every)
	if every < 0 {
		c.wrong(join(place, "every"), "want day, week or month, got %s", strconv.Quote(shown(t.Every)))
		return s
	}
	s.Every = Every(every)
	if s.Every != EveryWeek && len(t.Weekdays) > 0 {
		c.wrong(join(place, "weekdays"), "want them with every: week only")
	}
	if s.Every != EveryMonth && len(t.Days) > 0 {
		c.wrong(join(place, "days"), "want them with every: month only")
	}
	switch s.Every {
	case EveryWeek:
		if len(t.Weekdays) == 0 {
			t.Weekdays = []string{weekdayNames[s.First.Weekday()]}
		}
		s.Weekdays = c.weekdays(join(place, "weekdays"), &t.Weekdays)
		if t.Weekdays == nil {
			s.Every, t.Every = EveryDay, "day"
		}
	case EveryMonth:
		c.monthDays(join(place, "days"), s, t)
	}
	if t.Until != "" {
		if s.Every == Once {
			c.wrong(join(place, "until"), "want it with every only")
		}
		if s.Until = c.moment(join(place, "until"), &t.Until); !s.Until.IsZero() && s.Until.Before(s.First) {
			c.wrong(join(place, "until"), "want a moment after the first, which is %s", t.At)
		}
	}
	return s
}

func (c *compiler) monthDays(place string, s *Schedule, t *Trigger) {
	if len(t.Days) == 0 {
		t.Days = []int64{int64(s.First.Day())}
	}
	for i, day := range t.Days {
		if day < 1 || day > 31 {
			c.wrong(c.at(place, i, len(t.Days)), "want days of 1 to 31, got %d", day)
			continue
		}
		s.Days |= 1 << day
	}
	t.Days = nil
	for rest := s.Days; rest != 0; rest &= rest - 1 {
		t.Days = append(t.Days, int64(bits.TrailingZeros32(rest)))
	}
}

func (c *compiler) quiet() {
	q := c.doc.Quiet
	if q == nil {
		return
	}
	hours := &QuietHours{From: c.minuteOf("quiet.from", q.From), To: c.minuteOf("quiet.to", q.To), Zone: c.zone("quiet.zone", &q.Zone), Skip: q.Then == "skip"}
	if q.From == q.To && !c.isBad("quiet.from") {
		c.wrong("quiet.to", "want another time than from: nothing would ever leave")
	}
	if q.Then != "" && q.Then != "wait" && q.Then != "skip" {
		c.wrong("quiet.then", "want wait or skip, got %s", strconv.Quote(shown(q.Then)))
	}
	if q.Then == "wait" {
		q.Then = ""
	}
	c.plan.Quiet = hours
}

func (c *compiler) limits() {
	l := c.doc.Limits
	if l == nil {
		return
	}
	c.plan.PerMinute = c.count("limits.per_minute", l.PerMinute, MaxPerMinute)
	if *l == (Limits{}) {
		c.doc.Limits = nil
	}
}

func (c *compiler) conversions() {
	all := c.doc.Conversions
	if len(all) > MaxConversions {
		c.wrong("conversions", "want at most %d, got %d", MaxConversions, len(all))
		return
	}
	names := make(map[string]bool)
	for i := range all {
		place := c.at("conversions", i, len(all))
		c.pathName(place, all[i].Name, names)
		if len(all[i].When) == 0 {
			c.lacks(join(place, "when"), "want at least one trigger, there is none")
		}
		c.plan.Conversions = append(c.plan.Conversions, Converting{
			Name:          all[i].Name,
			When:          c.triggers(join(place, "when"), all[i].When, forConversions),
			WithinSeconds: c.duration(join(place, "within"), &all[i].Within, 1, MaxConversionDays*daySeconds),
		})
	}
}

// pathName checks the name of a path or a conversion.
func (c *compiler) pathName(place, name string, seen map[string]bool) {
	c.id(join(place, "name"), name, "a path or a conversion, its name")
	if seen[name] && name != "" {
		c.wrong(join(place, "name"), "want a name of its own, %s is there twice", name)
	}
	seen[name] = true
}
