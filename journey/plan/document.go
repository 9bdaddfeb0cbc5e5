package plan

import "sluice/lib/jsonscan"

// Document is a journey as people write it. Its texts are as they were written:
// Compile reads them. An empty member is one that is not there.
//
// The tags of its types are what the schema says: doc is the description, form how a
// text is written, enum its words, need that the member must be there, single that one
// may stand for a list of one.
type Document struct {
	ID          string       `json:"id" need:"yes" form:"id" doc:"The journey's name for programs. It never changes."`
	Name        string       `json:"name,omitempty" doc:"The journey's name for people."`
	Description string       `json:"description,omitempty" doc:"What the journey is for."`
	Tags        []string     `json:"tags,omitempty" single:"yes" doc:"By these journeys are found and capped; mail has them too."`
	Zone        string       `json:"zone,omitempty" form:"zone" doc:"Zone of times of day where nothing else is said: user (that of each person's profile, UTC if it has none) or a name of the IANA database. UTC if absent."`
	Entry       Entry        `json:"entry" need:"yes" doc:"Who enters, and when."`
	Steps       []Step       `json:"steps" need:"yes" doc:"The first is where people enter."`
	ExitWhen    []Trigger    `json:"exit_when,omitempty" single:"yes" doc:"What takes a person out at once, also while a mail waits to be sent."`
	Exceptions  []Trigger    `json:"exceptions,omitempty" single:"yes" doc:"The same while the person is in the first step."`
	Quiet       *Quiet       `json:"quiet,omitempty" doc:"When marketing messages do not leave."`
	Limits      *Limits      `json:"limits,omitempty" doc:"How many messages leave."`
	Conversions []Conversion `json:"conversions,omitempty" doc:"What the journey is to bring about. The first is the main one."`
	Control     *Control     `json:"control,omitempty" doc:"People who enter and get nothing, to compare with."`
}

// Entry says who enters, and when.
type Entry struct {
	When       []Trigger   `json:"when" need:"yes" single:"yes" doc:"Any of these lets a person enter."`
	Who        Raw         `json:"who,omitempty" form:"rule" doc:"Whom it lets enter; everybody if absent."`
	AgainAfter string      `json:"again_after,omitempty" form:"duration" doc:"How long after an entry the person may enter again, once out: 0s at once. Who has finished is out once no conversion counts any more. Absent: a person enters once."`
	Limit      *EntryLimit `json:"limit,omitempty" doc:"How many may enter. Others are counted and left out."`
}

// EntryLimit bounds entries.
type EntryLimit struct {
	PerDay int64 `json:"per_day,omitempty" doc:"In a day, of UTC."`
	Total  int64 `json:"total,omitempty" doc:"In all."`
	PerRun int64 `json:"per_run,omitempty" doc:"Each time that a schedule is due."`
}

// Trigger is something that happens. One of its members says what.
type Trigger struct {
	Event        string `json:"event,omitempty" kind:"yes" doc:"The name of a custom event."`
	Purchase     string `json:"purchase,omitempty" kind:"yes" doc:"A product, or * for any."`
	Attribute    string `json:"attribute,omitempty" kind:"yes" doc:"A custom attribute whose value changes."`
	Field        string `json:"field,omitempty" kind:"yes" doc:"A standard attribute whose value changes."`
	Group        string `json:"group,omitempty" kind:"yes" doc:"A subscription group in which the state changes."`
	Subscription string `json:"subscription,omitempty" kind:"yes" enum:"email,push" doc:"The state of all mail, or push, that changes."`
	Mail         string `json:"mail,omitempty" kind:"yes" enum:"received,opened,clicked" doc:"What happens to mail of the person."`
	At           string `json:"at,omitempty" kind:"yes" form:"moment" doc:"A date and a time of day, once or the first of several."`
	API          bool   `json:"api,omitempty" kind:"yes" doc:"A call of the API that names the person."`
	Rule         Raw    `json:"rule,omitempty" kind:"yes" form:"rule" doc:"A rule that holds: looked at when the person enters a step, and whenever something is known of the person anew."`

	Where   Raw      `json:"where,omitempty" form:"rule" doc:"Of an event or a purchase: a rule about its properties."`
	Path    []string `json:"path,omitempty" doc:"Of an attribute: where in it the value is that changes."`
	From    Raw      `json:"from,omitempty" form:"scalar" doc:"Of an attribute: its value before; null: none. Any if absent."`
	To      Raw      `json:"to,omitempty" form:"scalar" doc:"Of an attribute: its value afterwards; null: none. Any if absent."`
	Becomes string   `json:"becomes,omitempty" enum:"subscribed,unsubscribed,opted_in" doc:"Of a group or a subscription: its state afterwards."`

	Message string `json:"message,omitempty" doc:"Of mail: the id of the message."`
	Tag     string `json:"tag,omitempty" doc:"Of mail: a tag that it has."`
	Journey string `json:"journey,omitempty" form:"id" doc:"Of mail: the journey that sent it."`
	Step    string `json:"step,omitempty" form:"id" doc:"Of mail: the step that sent it; of this journey if no other is named."`

	Every    string   `json:"every,omitempty" enum:"day,week,month" doc:"Of a time: how often it comes again. Absent: it does not."`
	Weekdays []string `json:"weekdays,omitempty" single:"yes" enum:"monday,tuesday,wednesday,thursday,friday,saturday,sunday" doc:"Of every week: on which days; that of the first time if absent."`
	Days     []int64  `json:"days,omitempty" single:"yes" doc:"Of every month: on which days, 1 to 31. A shorter month has its last day instead. That of the first time if absent."`
	Until    string   `json:"until,omitempty" form:"moment" doc:"Of a time that comes again: the last moment."`
	Zone     string   `json:"zone,omitempty" form:"zone" doc:"Of a time: its zone; that of the journey if absent."`
}

// Step is one part of a journey. One of its members says what it does.
type Step struct {
	ID   string `json:"id" need:"yes" form:"id" doc:"The step's name. People who are in it keep their place by it."`
	Name string `json:"name,omitempty" doc:"The step's name for people."`

	Message   *Message   `json:"message,omitempty" kind:"yes" doc:"Sends a mail, and goes on whatever becomes of it."`
	Delay     *Delay     `json:"delay,omitempty" kind:"yes" doc:"Waits."`
	Split     *Split     `json:"split,omitempty" kind:"yes" doc:"Goes one of two ways."`
	Audiences *Audiences `json:"audiences,omitempty" kind:"yes" doc:"Goes the first way whose rule holds."`
	WaitFor   *WaitFor   `json:"wait_for,omitempty" kind:"yes" doc:"Waits for something to happen."`
	Random    *Random    `json:"random,omitempty" kind:"yes" doc:"Goes one of several ways by chance, always the same for a person."`
	Update    *Update    `json:"update,omitempty" kind:"yes" doc:"Changes the profile."`
	Go        *Go        `json:"go,omitempty" kind:"yes" doc:"Leaves, and enters another journey."`
	Exit      *Exit      `json:"exit,omitempty" kind:"yes" doc:"Ends here."`

	Next string `json:"next,omitempty" form:"next" doc:"Of message, delay and update: the next step. Absent, or exit: the person has finished."`
}

// Message is a mail to send.
type Message struct {
	Template    string   `json:"template,omitempty" kind:"yes" doc:"The id of a stored template."`
	Version     int64    `json:"version,omitempty" doc:"Its version; the one in use when the mail is made if absent."`
	Content     *Content `json:"content,omitempty" kind:"yes" doc:"What the mail says, instead of a template."`
	Class       string   `json:"class,omitempty" enum:"marketing,transactional" doc:"That of the template if absent; of content: marketing."`
	Group       string   `json:"group,omitempty" doc:"The subscription group that the mail belongs to: nobody gets it who has left that."`
	Priority    string   `json:"priority,omitempty" enum:"high,normal,low" doc:"normal if absent."`
	From        string   `json:"from,omitempty" doc:"The sender: an address, perhaps with a name. That of the template if absent."`
	Route       string   `json:"route,omitempty" doc:"The route by which it leaves; any if absent."`
	Tags        []string `json:"tags,omitempty" single:"yes" doc:"Beside those of the journey."`
	Variables   Raw      `json:"variables,omitempty" form:"object" doc:"Values for the template, beside what is known of the person."`
	Latest      string   `json:"latest,omitempty" form:"duration" doc:"How late the mail may leave, 1m to 30d; 3d if absent. One that is later is left out."`
	IgnoreCaps  bool     `json:"ignore_caps,omitempty" doc:"The mail leaves whatever the person got before, and counts for no cap."`
	IgnoreQuiet bool     `json:"ignore_quiet,omitempty" doc:"The mail leaves in quiet hours too."`
}

// Content is what a mail says, in the language of templates.
type Content struct {
	Subject   string `json:"subject,omitempty" need:"yes" doc:"The subject."`
	Preheader string `json:"preheader,omitempty" doc:"What mailboxes show behind the subject."`
	From      string `json:"from,omitempty" doc:"The sender, in the language of templates."`
	HTML      string `json:"html,omitempty" doc:"The mail as HTML."`
	Text      string `json:"text,omitempty" doc:"The mail as text."`
}

// Delay is how long to wait. With For and Until the one is waited for after the other.
type Delay struct {
	For       string     `json:"for,omitempty" form:"duration" doc:"So long; a day is 24 hours."`
	Until     *TimeOfDay `json:"until,omitempty" doc:"Until the next such time."`
	UntilDate *UntilDate `json:"until_date,omitempty" doc:"Until a date of the person's own."`
}

// TimeOfDay is a time of day, perhaps of some days.
type TimeOfDay struct {
	Time     string   `json:"time,omitempty" need:"yes" form:"time" doc:"HH:MM."`
	Weekdays []string `json:"weekdays,omitempty" single:"yes" enum:"monday,tuesday,wednesday,thursday,friday,saturday,sunday" doc:"On these days; any if absent."`
	Zone     string   `json:"zone,omitempty" form:"zone" doc:"That of the journey if absent."`
}

// UntilDate is a date that a profile or the context has.
type UntilDate struct {
	Attribute string   `json:"attribute,omitempty" kind:"yes" doc:"The custom attribute that has it."`
	Field     string   `json:"field,omitempty" kind:"yes" doc:"The standard attribute that has it."`
	Context   string   `json:"context,omitempty" kind:"yes" doc:"The member of the context that has it."`
	Path      []string `json:"path,omitempty" doc:"Where in the value it is."`
	Yearly    bool     `json:"yearly,omitempty" doc:"Each year on that day, as a birthday: the next one. The 29th of February is the first of March in other years."`
	Plus      string   `json:"plus,omitempty" form:"offset" doc:"So much later, in days of the calendar; with a minus sign before it so much earlier."`
	Time      string   `json:"time,omitempty" form:"time" doc:"At this time of that day. Absent: at the time that the value has."`
	Zone      string   `json:"zone,omitempty" form:"zone" doc:"Of a value that has none, and of time; that of the journey if absent."`
	Otherwise string   `json:"otherwise,omitempty" form:"next" doc:"Where a person goes whose date is missing, past or more than two years away; exit if absent."`
}

// Split is one of two ways.
type Split struct {
	If   Raw    `json:"if,omitempty" need:"yes" form:"rule" doc:"The rule that decides."`
	Then string `json:"then,omitempty" need:"yes" form:"next" doc:"The next step if it holds."`
	Else string `json:"else,omitempty" need:"yes" form:"next" doc:"The next step if it does not."`
}

// Audiences are ways with a rule each.
type Audiences struct {
	Paths     []AudiencePath `json:"paths,omitempty" need:"yes" doc:"The first whose rule holds is taken."`
	Otherwise string         `json:"otherwise,omitempty" need:"yes" form:"next" doc:"The next step where none holds."`
}

// AudiencePath is one of them.
type AudiencePath struct {
	Name string `json:"name" need:"yes" form:"id" doc:"Its name in counts."`
	If   Raw    `json:"if,omitempty" need:"yes" form:"rule" doc:"The rule."`
	Next string `json:"next,omitempty" need:"yes" form:"next" doc:"The next step."`
}

// WaitFor is ways that wait for something to happen.
type WaitFor struct {
	Within    string     `json:"within,omitempty" need:"yes" form:"duration" doc:"How long to wait."`
	Ranked    bool       `json:"ranked,omitempty" doc:"Wait to the end, and take the first path of all that happened. Absent: the path that happens first, at once."`
	Paths     []WaitPath `json:"paths,omitempty" need:"yes" doc:"What to wait for."`
	Otherwise string     `json:"otherwise,omitempty" need:"yes" form:"next" doc:"The next step where nothing happened."`
}

// WaitPath is one of them.
type WaitPath struct {
	Name string    `json:"name" need:"yes" form:"id" doc:"Its name in counts."`
	When []Trigger `json:"when,omitempty" need:"yes" single:"yes" doc:"Any of these."`
	Next string    `json:"next,omitempty" need:"yes" form:"next" doc:"The next step."`
}

// Random are ways taken by chance.
type Random struct {
	Paths []RandomPath `json:"paths,omitempty" need:"yes" doc:"Their weights add up to 100."`
}

// RandomPath is one of them.
type RandomPath struct {
	Name    string `json:"name" need:"yes" form:"id" doc:"Its name in counts: the variant."`
	Weight  Number `json:"weight,omitempty" need:"yes" form:"percent" doc:"How many of a hundred people take it, with at most two decimals."`
	Control bool   `json:"control,omitempty" doc:"The others are compared with it."`
	Next    string `json:"next,omitempty" need:"yes" form:"next" doc:"The next step."`
}

// Update changes a profile.
type Update struct {
	Attributes Raw `json:"attributes,omitempty" need:"yes" form:"object" doc:"As in /users/track: values, inc, add and remove."`
}

// Go leads to another journey.
type Go struct {
	Journey string `json:"journey,omitempty" need:"yes" form:"id" doc:"Its id. The context goes along."`
}

// Exit has nothing to say.
type Exit struct{}

// Quiet is a time of day in which marketing messages do not leave.
type Quiet struct {
	From string `json:"from,omitempty" need:"yes" form:"time" doc:"HH:MM, from then on."`
	To   string `json:"to,omitempty" need:"yes" form:"time" doc:"HH:MM, up to then; of the next day if it is earlier than from."`
	Zone string `json:"zone,omitempty" form:"zone" doc:"That of the journey if absent."`
	Then string `json:"then,omitempty" enum:"wait,skip" doc:"What becomes of a message: it waits until the end (if absent), or is left out and the person goes on."`
}

// Limits bound the messages of a journey.
type Limits struct {
	PerMinute  int64 `json:"per_minute,omitempty" doc:"Messages that leave in a minute."`
	IgnoreCaps bool  `json:"ignore_caps,omitempty" doc:"All messages of the journey ignore caps."`
}

// Conversion is what a journey is to bring about.
type Conversion struct {
	Name   string    `json:"name" need:"yes" form:"id" doc:"Its name in counts."`
	When   []Trigger `json:"when,omitempty" need:"yes" single:"yes" doc:"Any of these."`
	Within string    `json:"within,omitempty" need:"yes" form:"duration" doc:"How long after the entry it counts, at most 90d."`
}

// Control is a share of people who get nothing.
type Control struct {
	Percent Number `json:"percent,omitempty" need:"yes" form:"percent" doc:"How many of a hundred, with at most two decimals."`
}

// Raw is JSON that stands in a document: a rule, an object, a scalar.
type Raw string

// MarshalJSON returns it.
func (r Raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// UnmarshalJSON takes it as it is.
func (r *Raw) UnmarshalJSON(text []byte) error {
	*r = Raw(text)
	return nil
}

// Number is a decimal number as it was written.
type Number string

// MarshalJSON returns it.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// UnmarshalJSON takes it as it is.
func (n *Number) UnmarshalJSON(text []byte) error {
	*n = Number(text)
	return nil
}

// Text is the document as JSON on one line, as it was written: ParseJSON reads it again.
func (d *Document) Text() (string, error) {
	text, err := jsonscan.Marshal(d)
	return string(text), err
}
