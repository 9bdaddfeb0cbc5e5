package rule

import (
	"strconv"
	"time"

	"sluice/lib/jsonscan"
	"sluice/lib/timetext"
)

// found is what a profile has where a condition looks.
type found struct {
	there bool
	json  jsonscan.Value // classJSON
	whole int64          // classWhole; of money, millionths
	money bool
	at    int64  // classMoment: ms
	word  string // classWord
}

// find looks into the slot of a condition.
func (e *evaluation) find(x *condition) (f found) {
	v := jsonscan.Value{}
	if x.subject < ofBucket {
		v = e.slots[x.slot]
	}
	f.there = v.Kind != jsonscan.None && v.Kind != jsonscan.Null
	switch x.subject {
	case ofBucket:
		f.whole, f.there = bucketOf(e.id, x.seed), true
	case ofJourney, ofMail:
		f.there = e.known>>x.slot&1 == 1
	case ofSpent:
		f.money = true
		f.whole, _, _ = numberOrZero(v)
	case ofEvent, ofPurchase:
		f.tally(v, x.part)
	case ofGroup:
		f.word = wordUnknown
		if v = firstOf(v); v.Kind == jsonscan.String {
			f.word = v.Text()
		}
	case ofSubscription:
		f.word = wordSubscribed
		if v.Kind == jsonscan.String {
			f.word = v.Text()
		}
	default:
		if x.more != nil {
			v = descend(v, x.more.path)
			f.there = v.Kind != jsonscan.None && v.Kind != jsonscan.Null
		}
		f.json = v
		if x.class() == classMoment {
			var exact bool
			f.at, exact, _ = numberOrZero(v)
			f.there = exact
		}
	}
	return f
}

func numberOrZero(v jsonscan.Value) (whole int64, exact bool, float float64) {
	if v.Kind != jsonscan.Number {
		return 0, false, 0
	}
	return numberOf(v.Raw)
}

// tally reads the part that is wanted of [count, first ms, last ms].
func (f *found) tally(v jsonscan.Value, p part) {
	f.there = false
	if v.Kind != jsonscan.Array {
		return
	}
	e := jsonscan.ReadArray(v.Raw)
	for i := partCount; e.Next(); i++ {
		if i == p {
			n, exact, _ := numberOrZero(e.Value)
			f.whole, f.at, f.there = n, n, exact
			return
		}
	}
}

func firstOf(v jsonscan.Value) jsonscan.Value {
	if v.Kind != jsonscan.Array {
		return jsonscan.Value{}
	}
	e := jsonscan.ReadArray(v.Raw)
	e.Next()
	return e.Value
}

// compare tells whether a condition holds, had it no negation.
func (e *evaluation) compare(x *condition, f found) bool {
	switch x.how.op {
	case opExists, opKnown:
		return f.there
	case opEquals:
		return e.equals(x, f)
	case opGreater, opGreaterOrEqual, opLess, opLessOrEqual:
		return ordered(x, f)
	case opRegex:
		return f.json.Kind == jsonscan.String && e.matches(x, f.json)
	case opIncludes:
		if f.json.Kind != jsonscan.Array {
			return false
		}
		list := jsonscan.ReadArray(f.json.Raw)
		for list.Next() {
			if e.sameScalar(list.Value, &x.want[0]) {
				return true
			}
		}
		return false
	}
	return e.comparesTime(x, f)
}

func (e *evaluation) equals(x *condition, f found) bool {
	for i := range x.want {
		s := &x.want[i]
		switch x.class() {
		case classWord:
			if f.word == s.text {
				return true
			}
		case classWhole:
			if f.compared(s) == 0 {
				return true
			}
		default:
			if e.sameScalar(f.json, s) {
				return true
			}
		}
	}
	return false
}

// compared compares a count, or money. Millionths divided are the very number
// that the digits of a rule make, up to nine thousand million of a currency.
func (f *found) compared(s *scalar) int {
	if f.money {
		return compared(0, false, float64(f.whole)/1e6, s)
	}
	return compared(f.whole, true, float64(f.whole), s)
}

func ordered(x *condition, f found) bool {
	order := 0
	if x.class() == classWhole {
		order = f.compared(&x.want[0])
	} else {
		if f.json.Kind != jsonscan.Number {
			return false
		}
		whole, exact, float := numberOf(f.json.Raw)
		order = compared(whole, exact, float, &x.want[0])
	}
	switch x.how.op {
	case opGreater:
		return order > 0
	case opGreaterOrEqual:
		return order >= 0
	case opLess:
		return order < 0
	}
	return order <= 0
}

func (e *evaluation) matches(x *condition, v jsonscan.Value) bool {
	if !v.Escaped {
		text := v.Raw[1 : len(v.Raw)-1]
		return len(text) <= MaxRegexTextBytes && x.regex.MatchString(text)
	}
	text := e.textOf(v)
	return len(text) <= MaxRegexTextBytes && x.regex.Match(text)
}

func (e *evaluation) comparesTime(x *condition, f found) bool {
	zone := x.zone
	if x.userZone {
		zone = e.zone()
	}
	at, ok := f.at, f.there
	if x.class() == classJSON {
		if at, ok = timeOf(f.json, zone, x.digits); !ok {
			return false
		}
	}
	if !ok {
		return false
	}
	switch x.how.op {
	case opBefore, opAfter:
		with := x.atMillis
		if x.userZone {
			var err error
			if with, err = momentIn(x.timeText, x.timeQuoted, zone); err != nil {
				return false // a moment of this zone that is past the year 9999
			}
		}
		if x.how.op == opBefore {
			return at < with
		}
		return at > with
	case opLessDaysAgo, opMoreDaysAgo:
		return e.daysAgo(x, at, zone)
	}
	return e.daysAhead(x, at, zone)
}

// zone is the user's own time zone; UTC if the user has none.
func (e *evaluation) zone() *time.Location {
	if v := e.slots[slotOfZone]; v.Kind == jsonscan.String {
		if zone := zoneNamed(v.Text()); zone != nil {
			return zone
		}
	}
	return time.UTC
}

// timeOf reads a time out of an attribute. Without digits it is a text that is written
// as a date.
func timeOf(v jsonscan.Value, zone *time.Location, digits bool) (millis int64, ok bool) {
	quoted := v.Kind == jsonscan.String
	if !(v.Kind == jsonscan.Number && digits) && !(quoted && mayBeTime(v.Raw)) {
		return 0, false
	}
	text := v.Text()
	if quoted && !digits && !timetext.Written(text) {
		return 0, false
	}
	millis, err := momentIn(text, quoted, zone)
	return millis, err == nil
}

// maxTimeBytes is more than any time is long.
const maxTimeBytes = 64

// mayBeTime tells most texts that are no times before an error is made of
// them: a time begins with a digit, perhaps behind white space.
func mayBeTime(raw string) bool {
	for i := 1; i < len(raw) && len(raw) <= maxTimeBytes; i++ {
		if raw[i] != ' ' {
			return raw[i]-'0' <= 9 || raw[i] == '\\' || raw[i] >= 0x80
		}
	}
	return false
}

// dayMillis is a day where a condition names no zone, 24 hours: less than 3
// days ago is less than 72 hours. In a zone it is a day of the calendar: less
// than 1 day ago is today, greater than 1 day ago is before yesterday.
const dayMillis = 24 * 60 * 60 * 1000

func (e *evaluation) daysAgo(x *condition, at int64, zone *time.Location) bool {
	less := x.how.op == opLessDaysAgo
	if x.rawZone == "" {
		since := e.nowMillis - int64(x.days)*dayMillis
		if less {
			return at <= e.nowMillis && at > since
		}
		return at < since
	}
	if less {
		return at <= e.nowMillis && at >= e.startOfDay(1-x.days, zone)
	}
	return at < e.startOfDay(-x.days, zone)
}

func (e *evaluation) daysAhead(x *condition, at int64, zone *time.Location) bool {
	less := x.how.op == opLessDaysAhead
	if x.rawZone == "" {
		until := e.nowMillis + int64(x.days)*dayMillis
		if less {
			return at >= e.nowMillis && at < until
		}
		return at > until
	}
	if less {
		return at >= e.nowMillis && at < e.startOfDay(x.days, zone)
	}
	return at >= e.startOfDay(x.days+1, zone)
}

// startOfDay is when the day begins that is so many days from today.
func (e *evaluation) startOfDay(days int, zone *time.Location) int64 {
	today := time.UnixMilli(e.nowMillis).In(zone)
	noon := time.Date(today.Year(), today.Month(), today.Day()+days, 12, 0, 0, 0, zone)
	return timetext.StartOfDay(noon).UnixMilli()
}

// text writes what was found for people.
func (f *found) text(x *condition) string {
	switch c := x.class(); {
	case c == classPlace || c == classMail:
		return map[bool]string{true: "yes", false: "no"}[f.there]
	case c == classWord:
		return f.word
	case c == classWhole && f.money:
		return strconv.FormatFloat(float64(f.whole)/1e6, 'f', -1, 64)
	case c == classWhole:
		return strconv.FormatInt(f.whole, 10)
	case !f.there:
		return "nothing"
	case c == classMoment:
		return time.UnixMilli(f.at).UTC().Format(time.RFC3339)
	}
	return f.json.Raw
}
