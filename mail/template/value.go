package template

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/lib/jsonscan"
	"sluice/user/profile"
)

// value is what a variable or an expression is: nil, bool, int64, float64,
// string, safe, list, *object, span, moment, *loop, user or special.
type value any

// safe is a text that is HTML already: it is not escaped again.
type safe string

// list and object are what JSON calls array and object. They are never changed
// once made, so they are shared.
type list []value

type object struct {
	names  []string
	values []value
	places map[string]int // nil of few members
}

// fewMembers is what an object has room for at once, manyMembers from where it
// has an index.
const (
	fewMembers  = 4
	manyMembers = 12
)

// span is a range: the numbers from one to another, both included.
type span struct{ from, to int64 }

// moment is a time in a zone, as the filter time_zone makes it.
type moment struct{ time.Time }

// special are the words that equal everything of their kind.
type special byte

const (
	empty special = iota // a text, a list or an object that has nothing in it
	blank                // that, blanks, false or nil
)

func (s span) length() int64 {
	if s.to < s.from {
		return 0
	}
	n := s.to - s.from + 1
	if n <= 0 { // more than an int64 holds
		return math.MaxInt64
	}
	return n
}

func (o *object) get(name string) (value, bool) {
	if i, ok := o.find(name, len(o.names)); ok {
		return o.values[i], true
	}
	return nil, false
}

// user is a profile, read as far as a template asks: its standard attributes,
// and custom with the customer's own.
type user struct {
	p      *profile.Profile
	custom bool
}

// attributeNames are names of Braze's and ours for what a profile calls otherwise.
var attributeNames = map[string]string{
	"email_address": "email", "phone_number": "phone", "city": "home_city", "date_of_birth": "dob",
}

// isAttribute reports whether ${name} can be something. It would be empty for
// everybody else, and an empty link or greeting is noticed when it is sent.
func isAttribute(name string) bool {
	_, other := attributeNames[name]
	return other || name == "external_id" || name == "user_id" || name == unsubscribeAttribute || profile.IsField(name)
}

func (r *run) attribute(u user, name string) (value, bool) {
	if u.p == nil {
		return nil, false
	}
	values := u.p.Fields
	if u.custom {
		values = u.p.Custom
	} else {
		switch name {
		case "custom":
			return user{u.p, true}, true
		case "external_id", "user_id":
			return u.p.ExternalID, u.p.ExternalID != ""
		}
		if other, ok := attributeNames[name]; ok {
			name = other
		}
	}
	raw := values.Get(name)
	if raw == "" {
		return nil, false
	}
	r.spendBytes(len(raw))
	v, err := decode(raw)
	return v, err == nil
}

// decode makes values of JSON text.
func decode(text string) (value, error) {
	v, err := jsonscan.Scan(text)
	if err != nil {
		return nil, err
	}
	return decoded(v), nil
}

// decoded makes values of what jsonscan has found to be JSON of bounded depth.
func decoded(v jsonscan.Value) value {
	switch v.Kind {
	case jsonscan.Bool:
		return v.Raw == "true"
	case jsonscan.String:
		return v.Text()
	case jsonscan.Number:
		return decodedNumber(v.Raw)
	case jsonscan.Array:
		all := list{}
		e := jsonscan.ReadArray(v.Raw)
		for e.Next() {
			all = append(all, decoded(e.Value))
		}
		return all
	case jsonscan.Object:
		o := decodedObject(v.Raw)
		if text, ok := o.time(); ok {
			return text
		}
		return o
	}
	return nil
}

// timeMember is how nested attributes and properties of Braze's have times:
// {"$time": "2026-03-14T10:00:00Z"}.
const timeMember = "$time"

// time is the text of such a time, which is what the object means.
func (o *object) time() (string, bool) {
	if len(o.names) != 1 || o.names[0] != timeMember {
		return "", false
	}
	return plainText(o.values[0])
}

// decodedObject has each name once: the last one of a name wins.
func decodedObject(raw string) *object {
	o := &object{names: make([]string, 0, fewMembers), values: make([]value, 0, fewMembers)}
	m := jsonscan.Read(raw)
	for m.Next() {
		o.names, o.values = append(o.names, m.Key), append(o.values, decoded(m.Value))
	}
	if len(o.names) > manyMembers {
		o.places = make(map[string]int, len(o.names))
	}
	kept := 0
	for i, name := range o.names {
		at, twice := o.find(name, kept)
		if twice {
			o.values[at] = o.values[i]
			continue
		}
		o.names[kept], o.values[kept] = name, o.values[i]
		if o.places != nil {
			o.places[name] = kept
		}
		kept++
	}
	o.names, o.values = o.names[:kept], o.values[:kept]
	return o
}

// find looks for a name among the first kept.
func (o *object) find(name string, kept int) (int, bool) {
	if o.places != nil {
		i, ok := o.places[name]
		return i, ok
	}
	for i, n := range o.names[:kept] {
		if n == name {
			return i, true
		}
	}
	return 0, false
}

// decodedNumber keeps a whole number beyond 64 bits as the text that it is: an
// id that was rounded would be another one.
func decodedNumber(raw string) value {
	if !strings.ContainsAny(raw, ".eE") {
		if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
			return n
		}
		return raw
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil || math.IsInf(f, 0) {
		return raw
	}
	return f
}

func truthy(v value) bool { return v != nil && v != false }

// plainText returns the text of a value that is a text.
func plainText(v value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case safe:
		return string(v), true
	}
	return "", false
}

// kindName is what errors call a value.
func kindName(v value) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case string, safe:
		return "a text"
	case list:
		return "a list"
	case span:
		return "a range"
	case moment:
		return "a time"
	}
	return "an object"
}

// number is what a value counts as in arithmetic, as in the reference. A text
// is the number it is, or the whole one it begins with; all else is 0.
func number(v value) value {
	switch v := v.(type) {
	case int64, float64:
		return v
	}
	text, _ := plainText(v)
	text = strings.Trim(text, blanks)
	if n := numberPrefix(text); n > 0 {
		if n < len(text) {
			n = strings.IndexAny(text[:n]+".", ".")
		}
		if v, ok := parseNumber(text[:n]); ok {
			return v
		}
	}
	return int64(0)
}

func numberPrefix(text string) int {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') || text[0] == '-' && (len(text) < 2 || text[1] < '0' || text[1] > '9') {
		return 0
	}
	return numberLength(text)
}

func float(v value) float64 {
	switch v := number(v).(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// integer is a number without its fraction, as far as an int64 goes.
func integer(v value) int64 {
	switch v := number(v).(type) {
	case int64:
		return v
	case float64:
		return whole(v)
	}
	return 0
}

func whole(f float64) int64 {
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	case f != f:
		return 0
	}
	return int64(f)
}

// decimals is how many digits of a number count. The reference computes in
// decimals: 183.357 - 180 is 3.357 and not 3.3569999999999993. Rounding to 15
// digits, all that a float64 can be relied on for, gives the same.
const decimals = 15

func rounded(f float64) value {
	if math.IsInf(f, 0) || f != f {
		return f
	}
	n, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', decimals, 64), 64)
	if err != nil {
		return f
	}
	return n
}

func appendFloat(dst []byte, f float64) []byte {
	if math.IsInf(f, 0) || f != f {
		return append(dst, '0')
	}
	start := len(dst)
	format := byte('f')
	if abs := math.Abs(f); abs >= 1e16 || abs != 0 && abs < 1e-4 {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if format == 'f' && !strings.ContainsRune(string(dst[start:]), '.') {
		dst = append(dst, '.', '0')
	}
	return dst
}

// isEmpty and isBlank are what equals the words empty and blank.
func isEmpty(v value) bool {
	if text, ok := plainText(v); ok {
		return text == ""
	}
	switch v := v.(type) {
	case list:
		return len(v) == 0
	case span:
		return v.length() == 0
	case *object:
		return len(v.names) == 0
	}
	return false
}

func isBlank(v value) bool {
	if text, ok := plainText(v); ok {
		return strings.Trim(text, blanks) == ""
	}
	return !truthy(v) || isEmpty(v)
}

// runeCut returns how many bytes the first n characters of a text have.
func runeCut(text string, n int64) int {
	at := 0
	for ; n > 0 && at < len(text); n-- {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}
