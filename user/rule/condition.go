package rule

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/lib/jsonscan"
)

// condition compares one thing that is known of a user.
type condition struct {
	subject  subject
	name     string
	part     part // of a tally
	is       string
	how      comparison
	want     []scalar // equals, is_one_of and their like: any of these
	regex    *regexp.Regexp
	days     int
	zone     *time.Location
	userZone bool // the user's own, instead of zone

	// A time to compare with: its moment in zone, and its text, which is
	// another moment in the zone of each user.
	atMillis   int64
	timeText   string
	timeQuoted bool
	digits     bool // numbers and texts of digits are times too

	seed uint64 // of a bucket
	slot int    // of its Set: where Match puts the value, or which of the set's needs it is

	more *more // nil: it is about a member of the profile as a whole

	rawName, rawValue, rawZone, rawDigits string // as JSON
}

// subject is what a condition is about.
type subject uint8

const (
	noSubject subject = iota
	ofAttribute
	ofField
	ofEvent
	ofPurchase
	ofSpent
	ofGroup
	ofSubscription
	ofProperty
	ofContext
	ofBucket // from here on there is no text to look into
	ofJourney
	ofMail
)

// String returns the name of a subject as rules have it.
func (s subject) String() string {
	return [...]string{"", "attribute", "field", "event", "purchase", "spent", "group", "subscription",
		"property", "context", "bucket", "journey", "mail"}[s]
}

const subjectNames = "attribute, field, event, purchase, spent, group, subscription, bucket"

var subjects = func() map[string]subject {
	all := make(map[string]subject)
	for s := ofAttribute; s <= ofMail; s++ {
		all[s.String()] = s
	}
	return all
}()

// Members of a profile that are no standard fields, and read as such.
const (
	fieldExternalID = "external_id"
	fieldCreated    = "created"
)

type part int

const (
	partCount part = iota
	partFirst
	partLast
)

var partNames = map[part]string{partCount: "count", partFirst: "first", partLast: "last"}

// class is what kind of value a subject has. It says which comparisons it has.
type class uint8

const (
	classJSON   class = 1 << iota // an attribute: any JSON value
	classWhole                    // counts, money, buckets: never absent, 0 instead
	classMoment                   // first, last, created
	classWord                     // states of subscriptions: never absent
	classPlace                    // where somebody is in a journey: an answer, yes or no
	classMail                     // what somebody did with mail: the same
)

func (x *condition) class() class {
	switch x.subject {
	case ofEvent, ofPurchase:
		if x.part != partCount {
			return classMoment
		}
		return classWhole
	case ofSpent, ofBucket:
		return classWhole
	case ofGroup, ofSubscription:
		return classWord
	case ofJourney:
		return classPlace
	case ofMail:
		return classMail
	case ofField:
		if x.name == fieldCreated {
			return classMoment
		}
	}
	return classJSON
}

// States of subscriptions. A user who never said anything is subscribed to mail and
// push, as Braze has it, and unknown to a group.
const (
	wordSubscribed = "subscribed"
	wordUnknown    = "unknown"
)

func (x *condition) words() string {
	if x.subject == ofGroup {
		return "subscribed, unsubscribed, unknown"
	}
	return "opted_in, subscribed, unsubscribed"
}

func (x *condition) hasWord(word string) bool {
	return slices.Contains(strings.Split(x.words(), ", "), word)
}

// comparison is one word of the language. The negated ones hold exactly where
// their opposite does not, so also where there is no value.
type comparison struct {
	op      op
	negated bool
	wants   shape
	of      class
}

type op uint8

const (
	opExists op = iota
	opEquals
	opGreater
	opGreaterOrEqual
	opLess
	opLessOrEqual
	opRegex
	opIncludes
	opBefore
	opAfter
	opLessDaysAgo
	opMoreDaysAgo
	opLessDaysAhead
	opMoreDaysAhead
	opKnown // a need of the rule: the answer is handed in
)

// shape is what the value of a comparison has to be.
type shape uint8

const (
	wantNothing shape = iota
	wantScalar
	wantNumber
	wantList
	wantRegex
	wantTime
	wantDays
)

func (s shape) isTime() bool { return s == wantTime || s == wantDays }

var comparisons = map[string]comparison{
	"exists":                            {opExists, false, wantNothing, classJSON | classWhole | classMoment | classMail},
	"does_not_exist":                    {opExists, true, wantNothing, classJSON | classWhole | classMoment | classMail},
	"equals":                            {opEquals, false, wantScalar, classJSON | classWhole | classWord},
	"not_equal":                         {opEquals, true, wantScalar, classJSON | classWhole | classWord},
	"is_one_of":                         {opEquals, false, wantList, classJSON},
	"is_none_of":                        {opEquals, true, wantList, classJSON},
	"greater_than":                      {opGreater, false, wantNumber, classJSON | classWhole},
	"greater_than_or_equal_to":          {opGreaterOrEqual, false, wantNumber, classJSON | classWhole},
	"less_than":                         {opLess, false, wantNumber, classJSON | classWhole},
	"less_than_or_equal_to":             {opLessOrEqual, false, wantNumber, classJSON | classWhole},
	"matches_regex":                     {opRegex, false, wantRegex, classJSON},
	"does_not_match_regex":              {opRegex, true, wantRegex, classJSON},
	"includes_value":                    {opIncludes, false, wantScalar, classJSON},
	"does_not_include_value":            {opIncludes, true, wantScalar, classJSON},
	"before":                            {opBefore, false, wantTime, classJSON | classMoment},
	"after":                             {opAfter, false, wantTime, classJSON | classMoment},
	"less_than_x_days_ago":              {opLessDaysAgo, false, wantDays, classJSON | classMoment | classMail},
	"greater_than_x_days_ago":           {opMoreDaysAgo, false, wantDays, classJSON | classMoment},
	"less_than_x_days_in_the_future":    {opLessDaysAhead, false, wantDays, classJSON | classMoment},
	"greater_than_x_days_in_the_future": {opMoreDaysAhead, false, wantDays, classJSON | classMoment},
	isInside:                            {opKnown, false, wantNothing, classPlace},
	"not_inside":                        {opKnown, true, wantNothing, classPlace},
	isWasInside:                         {opKnown, false, wantNothing, classPlace},
	"was_not_inside":                    {opKnown, true, wantNothing, classPlace},
	isPassed:                            {opKnown, false, wantNothing, classPlace},
	"not_passed":                        {opKnown, true, wantNothing, classPlace},
}

// comparisonNames lists what a condition may have, for errors.
func comparisonNames(x *condition) string {
	var all []string
	for name, how := range comparisons {
		if how.of&x.class() != 0 && (how.op != opExists || x.subject != ofBucket) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// scalar is a text, a number or a boolean to compare with.
type scalar struct {
	kind  jsonscan.Kind
	text  string // decoded; of a boolean, true or false
	whole int64  // of a number, if it is exact
	exact bool
	float float64
}

func scalarOf(v jsonscan.Value) scalar {
	s := scalar{kind: v.Kind, text: v.Text()}
	if v.Kind == jsonscan.Number {
		s.whole, s.exact, s.float = numberOf(v.Raw)
	}
	return s
}

// maxWholeBytes is the length up to which digits are exact in 64 bits.
const maxWholeBytes = 18

// numberOf reads a number: exactly, if it is whole and short enough, and as
// the nearest floating-point number. One beyond these is infinite.
func numberOf(raw string) (whole int64, exact bool, float float64) {
	if len(raw) <= maxWholeBytes {
		n, i := int64(0), 0
		if raw[0] == '-' {
			i = 1
		}
		for i < len(raw) && raw[i]-'0' <= 9 {
			n = n*10 + int64(raw[i]-'0')
			i++
		}
		if i == len(raw) {
			if raw[0] == '-' {
				n = -n
			}
			return n, true, float64(n)
		}
	} else if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
		return n, true, float64(n)
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false, 0
	}
	return 0, false, f
}

// compared returns -1, 0 or 1 for a number below, at or above a scalar.
func compared(whole int64, exact bool, float float64, with *scalar) int {
	if exact && with.exact {
		return cmp.Compare(whole, with.whole)
	}
	return cmp.Compare(float, with.float)
}

// append appends the condition as JSON.
func (x *condition) append(dst []byte) []byte {
	dst = append(dst, `{"`+x.subject.String()+`":`+x.rawName...)
	if x.more != nil {
		dst = append(dst, x.more.raw...)
	}
	if x.part != partCount {
		dst = append(dst, `,"of":"`+partNames[x.part]+`"`...)
	}
	dst = append(dst, `,"is":"`+x.is+`"`...)
	if x.rawValue != "" {
		dst = append(dst, `,"value":`+x.rawValue...)
	}
	if x.rawZone != "" {
		dst = append(dst, `,"zone":`+x.rawZone...)
	}
	if x.rawDigits != "" {
		dst = append(dst, `,"digits":`+x.rawDigits...)
	}
	return append(dst, '}')
}
