package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/flow"
)

// The placeholders of a template.
const (
	holdApp  = "{app_id}"
	holdDate = "{date}"
	holdName = "{name}"
)

// HashTemplate says how the keys of foreign hashes are written, and what their
// fields are: hours of a day.
//
// The text before {name} is matched from the left and the text after it from
// the right, each as short as can be. {name} is the rest. So a name may contain
// the separator, and an app may not.
type HashTemplate struct {
	text     string
	literals []string // one more than holes: before the first, between, behind the last
	holes    []string
	zone     *time.Location
	app      string // of keys without {app_id}
}

// NewHashTemplate reads a template such as "{app_id}|{date}|{name}". {{TAG}} in it
// stands for {TAG}, the hash tag of keys on a Redis Cluster. Days and hours are
// those of the zone; app is the app of a template without {app_id}.
func NewHashTemplate(text string, zone *time.Location, app string) (*HashTemplate, error) {
	t := &HashTemplate{text: text, zone: zone, app: app}
	literal, rest := "", text
	for {
		before, hole, behind, err := cutHole(rest)
		literal += before
		if err != nil {
			return nil, err
		}
		if hole == "" {
			break
		}
		rest = behind
		switch {
		case strings.HasPrefix(hole, "{{"): // a hash tag
			literal += hole[1 : len(hole)-1]
			continue
		case hole != holdApp && hole != holdDate && hole != holdName:
			return nil, fmt.Errorf("has the placeholder %s, want %s, %s and %s", hole, holdApp, holdDate, holdName)
		case slices.Contains(t.holes, hole):
			return nil, fmt.Errorf("has %s twice", hole)
		case len(t.holes) > 0 && literal == "":
			return nil, fmt.Errorf("has nothing between %s and %s; a separator must say where one ends", t.holes[len(t.holes)-1], hole)
		}
		t.literals, t.holes = append(t.literals, literal), append(t.holes, hole)
		literal = ""
	}
	t.literals = append(t.literals, literal)
	if !slices.Contains(t.holes, holdDate) || !slices.Contains(t.holes, holdName) {
		return nil, fmt.Errorf("needs %s and %s, as in %s|%s|%s", holdDate, holdName, holdApp, holdDate, holdName)
	}
	return t, nil
}

// cutHole cuts a template at its first placeholder, or its first {{TAG}}.
func cutHole(text string) (before, hole, behind string, err error) {
	open := strings.IndexByte(text, '{')
	if open < 0 {
		return text, "", "", nil
	}
	end := "}"
	if strings.HasPrefix(text[open:], "{{") {
		end = "}}"
	}
	length := strings.Index(text[open:], end) + len(end)
	if length < len(end) {
		return "", "", "", fmt.Errorf("has a { without }; the placeholders are %s, %s and %s", holdApp, holdDate, holdName)
	}
	return text[:open], text[open : open+length], text[open+length:], nil
}

// Prefix is what all keys of the template begin with.
func (t *HashTemplate) Prefix() string { return t.literals[0] }

// hashDay is what a key says.
type hashDay struct {
	app, name string
	year, day int
	month     time.Month
}

// parse reads a key. The error is the reason of a dead letter.
func (t *HashTemplate) parse(key string) (hashDay, error) {
	d := hashDay{app: t.app}
	last := len(t.holes)
	s, ok := strings.CutPrefix(key, t.literals[0])
	if ok {
		s, ok = strings.CutSuffix(s, t.literals[last])
	}
	name := slices.Index(t.holes, holdName)
	for i := 0; ok && i < name; i++ {
		var value string
		if value, s, ok = cutLeft(t.holes[i], s, t.literals[i+1]); ok {
			ok = d.set(t.holes[i], value)
		}
	}
	for i := last - 1; ok && i > name; i-- {
		var value string
		if value, s, ok = cutRight(t.holes[i], s, t.literals[i]); ok {
			ok = d.set(t.holes[i], value)
		}
	}
	if !ok || s == "" {
		return d, fmt.Errorf("the key does not fit %s, with a date as 2026-01-31 or 20260131", t.text)
	}
	d.name = s
	for field, limit := range map[*string]int{&d.name: sluice.MaxNameBytes, &d.app: sluice.MaxAppIDBytes} {
		if err := checkText("name or app", *field, limit, true); err != nil {
			return d, err
		}
	}
	if !utf8.ValidString(key) {
		return d, errors.New("the key is not UTF-8")
	}
	return d, nil
}

// dateLengths are those of 2026-01-31 and 20260131.
var dateLengths = [...]int{10, 8}

func cutLeft(hole, s, separator string) (value, rest string, ok bool) {
	if hole != holdDate {
		return strings.Cut(s, separator)
	}
	for _, n := range dateLengths { // a date may contain the separator
		if len(s) >= n && strings.HasPrefix(s[n:], separator) && isDate(s[:n]) {
			return s[:n], s[n+len(separator):], true
		}
	}
	return "", "", false
}

func cutRight(hole, s, separator string) (value, rest string, ok bool) {
	if hole != holdDate {
		at := strings.LastIndex(s, separator)
		if at < 0 {
			return "", "", false
		}
		return s[at+len(separator):], s[:at], true
	}
	for _, n := range dateLengths {
		if at := len(s) - n; at >= 0 && strings.HasSuffix(s[:at], separator) && isDate(s[at:]) {
			return s[at:], s[:at-len(separator)], true
		}
	}
	return "", "", false
}

func isDate(s string) bool {
	for i := range len(s) {
		if dash := len(s) == 10 && (i == 4 || i == 7); dash != (s[i] == '-') || (!dash && s[i]-'0' > 9) {
			return false
		}
	}
	return true
}

func (d *hashDay) set(hole, value string) bool {
	if hole == holdApp {
		d.app = value
		return true
	}
	digits := strings.ReplaceAll(value, "-", "")
	year, _ := strconv.Atoi(digits[:4]) // they are digits: isDate
	month, _ := strconv.Atoi(digits[4:6])
	day, _ := strconv.Atoi(digits[6:])
	at := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	d.year, d.month, d.day = year, time.Month(month), day
	return at.Month() == d.month && at.Day() == d.day // there is such a day
}

// maxFieldCount bounds what one field may have counted: 300 million a second,
// for an hour. The sum of all that a transaction can have (some 60,000 fields a
// server, 64 servers) still fits 64 bits.
const maxFieldCount = 1_000_000_000_000

// count reads a field of a key. The error is the reason of a dead letter.
func (t *HashTemplate) count(d *hashDay, f flow.HashField) (sluice.Count, error) {
	hour, err := strconv.ParseUint(f.Name, 10, 8)
	if err != nil || hour > 23 || len(f.Name) > 2 {
		return sluice.Count{}, fmt.Errorf("field %.40q is no hour, want 0 to 23 or 00 to 23", f.Name)
	}
	n, ok := flow.ParseCount(f.Value)
	if !ok {
		return sluice.Count{}, fmt.Errorf("field %s has %.40q, which is no integer", f.Name, f.Value)
	}
	if n > maxFieldCount || n < -maxFieldCount {
		return sluice.Count{}, fmt.Errorf("field %s has %d, the limit of an hour is %d", f.Name, n, maxFieldCount)
	}
	at := time.Date(d.year, d.month, d.day, int(hour), 0, 0, 0, t.zone).UnixMilli()
	if at < sluice.MinEventTimeMillis || at > sluice.MaxEventTimeMillis {
		return sluice.Count{}, fmt.Errorf("time out of range: the year is %d", d.year)
	}
	return sluice.Count{Kind: sluice.KindCounter, TimeMillis: at, By: n, App: d.app, Name: d.name}, nil
}
