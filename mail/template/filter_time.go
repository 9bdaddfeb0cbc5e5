package template

import (
	"strconv"
	"strings"
	"time"

	"sluice/lib/timetext"
)

var timeFilters = map[string]filter{
	"date": {0, 1, func(r *run, in value, args []value) value {
		t, ok := r.moment(in)
		format := ""
		if len(args) > 0 {
			format = r.text(args[0])
		}
		if !ok || format == "" {
			return in // as in the reference
		}
		r.room(len(format) * maxTimeGrowth)
		return r.made(string(appendTime(nil, t, format)))
	}},
	"time_zone": {1, 1, func(r *run, in value, args []value) value {
		t, ok := r.moment(in)
		if !ok {
			return in
		}
		return moment{t.In(r.zone(r.text(args[0])))}
	}},
}

// zoneSteps is what it costs to look up a zone that was not used before in the
// same mail: some 20 µs.
const zoneSteps = 50

func (r *run) zone(name string) *time.Location {
	if z, ok := r.zones[name]; ok {
		return z
	}
	r.spend(zoneSteps)
	z, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		r.fail(KindValue, "time_zone: there is no zone %.64q; want a name of the IANA database, as Europe/Vienna", name)
	}
	if r.zones == nil {
		r.zones = make(map[string]*time.Location)
	}
	r.zones[name] = z
	return z
}

// moment reads a time: now, today, seconds since 1970, or a text as producers
// write times. Without a zone it is UTC.
func (r *run) moment(v value) (time.Time, bool) {
	switch v := v.(type) {
	case moment:
		return v.Time, true
	case int64:
		millis, err := timetext.Parse(strconv.FormatInt(v, 10), false)
		return time.UnixMilli(millis).UTC(), err == nil
	}
	text, ok := plainText(v)
	if !ok {
		return time.Time{}, false
	}
	if text == "now" || text == "today" {
		return r.started.UTC(), true
	}
	millis, err := timetext.ParseAnyIn(strings.Trim(text, blanks), time.UTC)
	if err != nil {
		return time.Time{}, false
	}
	t := time.UnixMilli(millis).UTC()
	// A time that was written with an offset is shown in it.
	if zoned, err := time.Parse(time.RFC3339Nano, strings.Trim(text, blanks)); err == nil {
		t = zoned
	}
	return t, true
}

// maxTimeGrowth is how many bytes one of a format may become, at most: "%c" is
// "Wed Jan  2 15:04:05 2026".
const maxTimeGrowth = 16

// appendTime writes a time as strftime of the reference does (Ruby's). What is
// unknown stays as it is.
func appendTime(dst []byte, t time.Time, format string) []byte {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			dst = append(dst, format[i])
			continue
		}
		start := i
		flag := byte(0)
		if i++; strings.IndexByte("-0^_#", format[i]) >= 0 && i+1 < len(format) {
			flag = format[i]
			i++
		}
		before := len(dst)
		var ok bool
		if dst, ok = appendField(dst, t, format[i], flag); !ok {
			dst = append(dst[:before], format[start:i+1]...)
		} else if flag == '^' || flag == '#' {
			dst = append(dst[:before], strings.ToUpper(string(dst[before:]))...)
		}
	}
	return dst
}

// composed are the fields that are several.
var composed = map[byte]string{
	'c': "%a %b %e %H:%M:%S %Y", 'D': "%m/%d/%y", 'x': "%m/%d/%y", 'F': "%Y-%m-%d", 'r': "%I:%M:%S %p", 'R': "%H:%M",
	'T': "%H:%M:%S", 'X': "%H:%M:%S", 'v': "%e-%^b-%Y", '+': "%a %b %e %H:%M:%S %Z %Y",
}

// named are the fields that Go's layouts have.
var named = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'p': "PM", 'P': "pm", 'z': "-0700", 'Z': "MST",
}

// appendField writes one field.
func appendField(dst []byte, t time.Time, field, flag byte) ([]byte, bool) {
	if format, ok := composed[field]; ok {
		return appendTime(dst, t, format), true
	}
	if layout, ok := named[field]; ok {
		return t.AppendFormat(dst, layout), true
	}
	switch field {
	case '%':
		return append(dst, '%'), true
	case 'n':
		return append(dst, '\n'), true
	case 't':
		return append(dst, '\t'), true
	case 's':
		return strconv.AppendInt(dst, t.Unix(), 10), true
	}
	n, width, pad := numberField(t, field)
	if width == 0 {
		return dst, false
	}
	switch flag {
	case '-':
		width = 1
	case '0':
		pad = '0'
	case '_':
		pad = ' '
	}
	digits := strconv.Itoa(n)
	for range width - len(digits) {
		dst = append(dst, pad)
	}
	return append(dst, digits...), true
}

// numberField returns the number of a field and how it is padded; width 0: it
// is none.
func numberField(t time.Time, field byte) (n, width int, pad byte) {
	year, week := t.ISOWeek()
	switch field {
	case 'Y':
		return t.Year(), 4, '0'
	case 'C':
		return t.Year() / 100, 2, '0'
	case 'y':
		return t.Year() % 100, 2, '0'
	case 'G':
		return year, 4, '0'
	case 'V':
		return week, 2, '0'
	case 'U':
		return (t.YearDay() + 6 - int(t.Weekday())) / 7, 2, '0'
	case 'W':
		return (t.YearDay() + 6 - (int(t.Weekday())+6)%7) / 7, 2, '0'
	case 'm':
		return int(t.Month()), 2, '0'
	case 'd':
		return t.Day(), 2, '0'
	case 'e':
		return t.Day(), 2, ' '
	case 'j':
		return t.YearDay(), 3, '0'
	case 'H':
		return t.Hour(), 2, '0'
	case 'k':
		return t.Hour(), 2, ' '
	case 'I':
		return (t.Hour()+11)%12 + 1, 2, '0'
	case 'l':
		return (t.Hour()+11)%12 + 1, 2, ' '
	case 'M':
		return t.Minute(), 2, '0'
	case 'S':
		return t.Second(), 2, '0'
	case 'L':
		return t.Nanosecond() / 1e6, 3, '0'
	case 'N':
		return t.Nanosecond(), 9, '0'
	case 'u':
		return (int(t.Weekday())+6)%7 + 1, 1, '0'
	case 'w':
		return int(t.Weekday()), 1, '0'
	}
	return 0, 0, 0
}
