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
		format := r.textAt(args, 0, "")
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
		return proseTime(strings.Trim(text, blanks))
	}
	t := time.UnixMilli(millis).UTC()
	// A time in RFC 3339 with an offset is shown in it, all others in UTC.
	if zoned, err := time.Parse(time.RFC3339Nano, strings.Trim(text, blanks)); err == nil {
		t = zoned
	}
	return t, true
}

// proseLayouts are times as people write them. They name the month: 1/2/2026 is another
// day in another country.
var proseLayouts = [...]string{
	"January 2, 2006", "January 2, 2006 15:04", "January 2 2006", "Jan 2, 2006", "Jan 2, 2006 15:04", "Jan 2 2006",
	"2 January 2006", "2 January 2006 15:04", "2 Jan 2006", "2 Jan 2006 15:04",
}

// maxProseBytes is longer than any of them.
const maxProseBytes = 32

func proseTime(text string) (time.Time, bool) {
	if len(text) > maxProseBytes {
		return time.Time{}, false
	}
	for _, layout := range proseLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
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

// composed are the fields that are several, or a sign.
var composed = map[byte]string{
	'%': "%", 'n': "\n", 't': "\t",
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
	f, ok := numbers[field]
	if !ok {
		return dst, false
	}
	width, pad := f.width, f.pad
	switch flag {
	case '-':
		width = 1
	case '0':
		pad = '0'
	case '_':
		pad = ' '
	}
	digits := strconv.Itoa(f.of(t))
	for range width - len(digits) {
		dst = append(dst, pad)
	}
	return append(dst, digits...), true
}

// numbers are the fields that are numbers, and how they are padded.
var numbers = map[byte]struct {
	of    func(time.Time) int
	width int
	pad   byte
}{
	's': {func(t time.Time) int { return int(t.Unix()) }, 1, '0'},
	'Y': {time.Time.Year, 4, '0'},
	'C': {func(t time.Time) int { return t.Year() / 100 }, 2, '0'},
	'y': {func(t time.Time) int { return t.Year() % 100 }, 2, '0'},
	'G': {func(t time.Time) int { year, _ := t.ISOWeek(); return year }, 4, '0'},
	'V': {func(t time.Time) int { _, week := t.ISOWeek(); return week }, 2, '0'},
	'U': {func(t time.Time) int { return (t.YearDay() + 6 - int(t.Weekday())) / 7 }, 2, '0'},
	'W': {func(t time.Time) int { return (t.YearDay() + 7 - weekday(t)) / 7 }, 2, '0'},
	'm': {func(t time.Time) int { return int(t.Month()) }, 2, '0'},
	'd': {time.Time.Day, 2, '0'},
	'e': {time.Time.Day, 2, ' '},
	'j': {time.Time.YearDay, 3, '0'},
	'H': {time.Time.Hour, 2, '0'},
	'k': {time.Time.Hour, 2, ' '},
	'I': {hour12, 2, '0'},
	'l': {hour12, 2, ' '},
	'M': {time.Time.Minute, 2, '0'},
	'S': {time.Time.Second, 2, '0'},
	'L': {func(t time.Time) int { return t.Nanosecond() / 1e6 }, 3, '0'},
	'N': {time.Time.Nanosecond, 9, '0'},
	'u': {weekday, 1, '0'},
	'w': {func(t time.Time) int { return int(t.Weekday()) }, 1, '0'},
}

func hour12(t time.Time) int { return (t.Hour()+11)%12 + 1 }

// weekday is 1 for Monday to 7 for Sunday.
func weekday(t time.Time) int { return (int(t.Weekday())+6)%7 + 1 }
