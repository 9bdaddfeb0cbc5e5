package plan

import (
	"slices"
	"time"

	"sluice/journey"
	"sluice/mail"
	"sluice/user/rule"
)

// Plan is a compiled journey. It does not change, so many goroutines may use it.
type Plan struct {
	ID, Name string
	Tags     []string

	Entry       Entering
	Steps       []PlanStep // those of the document, in its order; people enter the first
	Exit        []On
	Exceptions  []On
	Quiet       *QuietHours // nil: none
	PerMinute   int64       // messages; 0: no limit
	Conversions []Converting
	Control     int // hundredths of a percent

	// Needs are the questions that rules of all steps and of who may enter ask: bit i of
	// rule.Given.Known answers the i-th.
	Needs []rule.Need

	// Branches is how many ways out all steps have that have several: PlanPath.Branch
	// is below it.
	Branches int

	canonical string
	segments  map[string]string // the rules of those that it names, by id
}

// Canonical returns the document as JSON in one form: rules, durations and times as
// they were understood, and what is so anyway left out. Two documents that mean the
// same have the same form, but for texts; compiled again it is the same plan.
func (p *Plan) Canonical() string { return p.canonical }

// Index is the index of a step, as records have it; -1: there is none of that id.
func (p *Plan) Index(step string) int {
	return slices.IndexFunc(p.Steps, func(s PlanStep) bool { return s.ID == step })
}

// Out is where a way ends: the person has finished.
const Out = -1

// Zone is a zone of times of day.
type Zone struct {
	User     bool           // that of each person's profile, UTC if it has none
	Location *time.Location // else
}

// In returns the zone for a person; own is that of the profile, nil: it has none.
func (z Zone) In(own *time.Location) *time.Location {
	switch {
	case !z.User:
		return z.Location
	case own != nil:
		return own
	}
	return time.UTC
}

// Entering says who enters, and when.
type Entering struct {
	When []On
	Who  *rule.Set // its one rule; nil: everybody

	Once         bool  // a person enters once
	AgainSeconds int64 // else so long after the entry, once out

	PerDay, Total, PerRun int64 // 0: no limit
}

// Kind says what a trigger is.
type Kind uint8

// The kinds.
const (
	OnEvent Kind = iota + 1
	OnPurchase
	OnAttribute // custom or standard, a subscription too
	OnGroup
	OnMail
	OnSchedule
	OnAPI
	OnRule
)

// String returns the kind's word, as documents have it.
func (k Kind) String() string {
	return [...]string{"", "event", "purchase", "attribute", "group", "mail", "at", "api", "rule"}[k]
}

// HasProperties reports whether what happened has properties.
func (k Kind) HasProperties() bool { return k == OnEvent || k == OnPurchase || k == OnAPI }

// On is a compiled trigger.
type On struct {
	Kind Kind

	// Name is the event, the product (or journey.Any), the attribute, the group. That
	// of a subscription is the attribute that has its state.
	Name  string
	Where *rule.Set // of an event or a purchase: its one rule, about properties alone; nil: all

	Path     []string // of an attribute
	From, To string   // JSON of a scalar, null: none; empty: any. Of a group To is a word

	Mail journey.MailEvent
	Of   journey.MailOf

	At *Schedule

	// Rule is the number of the rule among those of the step's set (wait_for), or
	// of exit_when, which come behind them (PlanStep.ExitBit). Looks is what it looks
	// at that may change.
	Rule  int
	Looks journey.Names
}

// Schedule is when a journey begins by itself: at First, and again by Every. Times are
// what clocks show in the zone, as times of UTC.
type Schedule struct {
	First    time.Time
	Every    Every
	Weekdays [7]bool // of every week, from Sunday
	Days     uint32  // of every month: bit d for day d
	Until    time.Time
	Zone     Zone
}

// Every is how often a schedule comes again.
type Every uint8

// How often.
const (
	Once Every = iota
	EveryDay
	EveryWeek
	EveryMonth
)

// StepKind says what a step does.
type StepKind uint8

// The kinds.
const (
	StepMessage StepKind = iota + 1
	StepDelay
	StepSplit
	StepAudiences
	StepWait
	StepRandom
	StepUpdate
	StepGo
	StepExit
)

// MarshalText writes the kind as documents say it.
func (k StepKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// String returns the kind's word, as documents have it.
func (k StepKind) String() string {
	return [...]string{"", "message", "delay", "split", "audiences", "wait_for", "random", "update", "go", "exit"}[k]
}

// PlanStep is a compiled step. Which of its members hold is said by its kind.
type PlanStep struct {
	ID, Name string
	Kind     StepKind

	// Next is the index of the next step, or Out: of a message, a delay, an update. Of
	// those with paths it is where a person goes who takes none.
	Next int

	// Paths are the ways of a split (then), of audiences, a wait, a random step.
	// Otherwise is the branch of Next, of steps with paths.
	Paths     []PlanPath
	Otherwise int

	// Rules are all rules that are asked in this step: that of path i has bit i if it
	// has one (a wait's are numbered by On.Rule), those of exit_when have the bits from
	// ExitBit on, in their order. nil: there are none.
	Rules   *rule.Set
	ExitBit int

	Message *Mailing
	Delay   *Waiting
	Within  int64 // of a wait: seconds
	Ranked  bool  // of a wait
	Seed    string
	Update  string // an object as profile.Check returns it
	Journey string // of go
}

// PlanPath is a way out of a step.
type PlanPath struct {
	Name   string
	Next   int
	Branch int // among all of the plan

	When    []On // of a wait
	UpTo    int  // of a random step: the buckets below, of 10,000, that the paths before have not
	Control bool
}

// Mailing is a message to send.
type Mailing struct {
	Template string // empty: Content
	Version  int    // 0: the one in use
	Content  *mail.TemplateVersion

	Class         mail.Class
	Priority      mail.Priority
	Group         string
	From          string
	Route         string
	Tags          []string // those of the journey too
	Variables     string   // an object, or empty
	LatestSeconds int64    // after it was due
	IgnoreCaps    bool
	IgnoreQuiet   bool // also all transactional mail
}

// Waiting is a delay: ForSeconds, then until Until; or until Date.
type Waiting struct {
	ForSeconds int64
	Until      *Clock
	Date       *Date
}

// Clock is a time of day. A day on which clocks leap over it has it right after the
// leap; one on which they show it twice has it the first time.
type Clock struct {
	Minute   int     // of the day
	Weekdays [7]bool // from Sunday
	Zone     Zone
}

// Date is a date that a profile or the context has.
type Date struct {
	Source      Source
	Name        string
	Path        []string
	Yearly      bool // the next such day of a year
	PlusSeconds int64
	Minute      int // of the day; -1: the time that the value has
	Zone        Zone
	Otherwise   int // where a person goes who has no such date, as PlanStep.Next
}

// Source is where a date stands.
type Source uint8

// The sources.
const (
	FromAttribute Source = iota
	FromField
	FromContext
)

// QuietHours are a part of each day, From its first minute, To the first one after it.
type QuietHours struct {
	From, To int // minutes of the day; To may be the smaller one
	Zone     Zone
	Skip     bool // messages are left out; else they wait
}

// Converting is a compiled conversion.
type Converting struct {
	Name          string
	When          []On
	WithinSeconds int64
}

// Env says what there is beside the journey. An error of its own is one of the store:
// what is asked for may be there or not.
type Env interface {
	// Template returns the class of a template's version, 0: of the one in use. Not found:
	// there is none; one that is archived is found.
	Template(id string, version int) (class mail.Class, found bool, err error)

	// Segment returns the rule of a segment by its id.
	Segment(id string) (definition string, found bool, err error)

	// Journey reports whether there is a journey of that id.
	Journey(id string) (found bool, err error)
}
