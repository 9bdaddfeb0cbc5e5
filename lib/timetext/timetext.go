// Package timetext reads the times that producers write.
package timetext

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"sluice"
)

// An event's time is what producers call so: ISO 8601 text, or a number since
// the epoch with an unwritten unit. The magnitude tells the unit: it is the
// coarsest one in which the number is a time that an event may have.
//
//	up to 253402300799 (2.5e11)  seconds: 1970 to 9999
//	up to 253402300799999        milliseconds: from 1978-01-11
//	up to 253402300799999999     microseconds: from 1978-01-11
//	above                        nanoseconds: from 1978-01-11 to 2554
//
// So every time in seconds is read rightly. In finer units all times are,
// except the first eight years, which read as seconds in the far future. The
// other custom, a threshold at 1e11, reads "9999-12-31" in seconds as 1978, and
// that date is a usual one for "never".
//
// Parts below a millisecond are cut off, not rounded: so a time never moves
// into the next second.
const (
	maxEpochSeconds = sluice.MaxEventTimeMillis / 1000
	maxEpochMillis  = sluice.MaxEventTimeMillis
	maxEpochMicros  = sluice.MaxEventTimeMillis*1000 + 999

	// yearOneMillis is 0001-01-01, the earliest that a text may say.
	yearOneMillis = -62_135_596_800_000
)

// Parse reads a time and returns its milliseconds. quoted says that it was a
// JSON string, not a number. A string may also be a date, and eight digits that
// make a date (20240131) are one there, not seconds of the year 1970. The
// errors begin "time out of range" or "time not understood".
func Parse(s string, quoted bool) (int64, error) {
	ms, _, err := parse(s, quoted, sluice.MinEventTimeMillis)
	return ms, err
}

// ParseIn is Parse for a text of a person who has a zone in mind. A date and a
// time of day without a zone are in that one.
func ParseIn(s string, zone *time.Location) (int64, error) {
	return parseIn(s, zone, sluice.MinEventTimeMillis)
}

// ParseAnyIn is ParseIn of what need not be the time of an event, as a birthday:
// of the years 1 to 9999. Numbers since the epoch are from 1970 on here too.
func ParseAnyIn(s string, zone *time.Location) (int64, error) {
	return parseIn(s, zone, yearOneMillis)
}

func parseIn(s string, zone *time.Location, least int64) (int64, error) {
	ms, zoned, err := parse(s, true, least)
	if err == nil && !zoned {
		ms = FirstMoment(time.UnixMilli(ms).UTC(), zone).UnixMilli()
	}
	return ms, err
}

// parse also says whether the text left no doubt about the zone. A date before
// least is none.
func parse(s string, quoted bool, least int64) (ms int64, zoned bool, err error) {
	if quoted {
		s = strings.TrimSpace(s)
		if isoShape(s) {
			return parseISO(s, least)
		}
		if len(s) == len("20240131") {
			if ms, ok := parseDate(s[:4], s[4:6], s[6:]); ok && ms >= least {
				return ms, false, nil
			}
		}
	}
	ms, err = parseEpoch(s)
	return ms, true, err
}

func errNotTime(s string) error {
	return fmt.Errorf("time not understood: %.40q, want ISO 8601 or a number since the epoch", s)
}

func errTimeRange(s string) error {
	return fmt.Errorf("time out of range: %.40q, want the years 1970 to 9999", s)
}

// parseEpoch reads a number since the epoch.
func parseEpoch(s string) (int64, error) {
	digits, negative := s, false
	if digits != "" && digits[0] == '-' {
		digits, negative = digits[1:], true
	}
	n, i := uint64(0), 0
	for ; i < len(digits) && digits[i]-'0' <= 9; i++ {
		if n > (math.MaxUint64-9)/10 {
			return parseLongEpoch(s)
		}
		n = n*10 + uint64(digits[i]-'0')
	}
	if i == 0 {
		return 0, errNotTime(s)
	}
	millis := 0
	if i < len(digits) {
		var ok bool
		point := digits[i] == '.' || digits[i] == ',' // ISO 8601 allows both
		if millis, ok = fraction(digits[i+1:]); !ok || !point {
			return parseLongEpoch(s)
		}
	}
	if negative && strings.Trim(digits, "0.") != "" {
		return 0, errTimeRange(s)
	}
	switch {
	case n <= maxEpochSeconds:
		return int64(n)*1000 + int64(millis), nil
	case n <= maxEpochMillis:
		return int64(n), nil
	case n <= maxEpochMicros:
		return int64(n / 1000), nil
	}
	return int64(n / 1_000_000), nil
}

// parseLongEpoch reads the numbers that programs write when they mean a
// floating-point number (1.7e9). Its fraction is rounded: the number is as
// close to what was meant as its digits are. What has too many digits for
// parseEpoch ends here as well, out of range.
func parseLongEpoch(s string) (int64, error) {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c == '.', c|0x20 == 'e', c == '-', c == '+':
		default:
			return 0, errNotTime(s)
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, errNotTime(s)
	}
	if f < 0 || f >= math.MaxUint64 {
		return 0, errTimeRange(s)
	}
	switch {
	case f < maxEpochSeconds+1:
		return min(int64(math.Round(f*1000)), maxEpochMillis), nil
	case f < maxEpochMillis+1:
		return int64(f), nil
	case f <= maxEpochMicros:
		return int64(f) / 1000, nil
	}
	return int64(uint64(f) / 1_000_000), nil
}

// fraction reads digits, at least one and nothing behind them, as the decimals
// of a second or of a millisecond, and returns whole thousandths.
func fraction(s string) (millis int, ok bool) {
	if s == "" {
		return 0, false
	}
	unit := 100
	for i := range len(s) {
		if s[i]-'0' > 9 {
			return 0, false
		}
		millis += int(s[i]-'0') * unit
		unit /= 10
	}
	return millis, true
}

// Written reports whether a text is meant as a date or a time of ISO 8601 with
// hyphens. Others that Parse takes are digits, which may as well be a count or a year.
func Written(s string) bool { return isoShape(strings.TrimSpace(s)) }

// isoShape reports whether a text is meant as an ISO date: digits, at least
// four, and a hyphen.
func isoShape(s string) bool {
	i := 0
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i >= 4 && i < len(s) && s[i] == '-'
}

// number reads decimal digits, at most nine; -1 if there is anything else.
func number(s string) int {
	n := 0
	for i := range len(s) {
		if s[i]-'0' > 9 {
			return -1
		}
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// parseDate returns the milliseconds of a day's first moment in UTC.
func parseDate(year, month, day string) (ms int64, ok bool) {
	y, m, d := number(year), number(month), number(day)
	if y < 0 || m < 1 || m > 12 || d < 1 || d > 31 {
		return 0, false
	}
	t := time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)
	if d > 28 && t.Day() != d { // time.Date goes on into the next month
		return 0, false
	}
	return t.UnixMilli(), true
}

// parseISO reads what isoShape has found:
//
//	YYYY-MM-DD
//	YYYY-MM-DD(T|t|space)hh:mm[:ss[(.|,|:)digits, up to 9]][space][Z|z|+hh|+hhmm|+hh:mm]
//
// that is RFC 3339, section 5.6, and the loose forms of it that databases and
// scripts write (10:20:30:123 is what Braze's documentation asks for). Without a zone it is UTC. A leap second (:60) is the first
// moment of the next minute.
func parseISO(s string, least int64) (ms int64, zoned bool, err error) {
	if s[4] != '-' {
		return 0, false, fmt.Errorf("time out of range: year %.20q, want the years %d to 9999", s[:strings.IndexByte(s, '-')], yearOf(least))
	}
	if len(s) < 10 || s[7] != '-' {
		return 0, false, errNotTime(s)
	}
	ms, ok := parseDate(s[:4], s[5:7], s[8:10])
	if ok && len(s) > 10 {
		var clock int64
		clock, zoned, ok = parseClock(s[10:])
		ms += clock
	}
	if !ok {
		return 0, false, errNotTime(s)
	}
	if ms < least || ms > sluice.MaxEventTimeMillis {
		return 0, false, fmt.Errorf("time out of range: year %d, want the years %d to 9999 in UTC", yearOf(ms), yearOf(least))
	}
	return ms, zoned, nil
}

func yearOf(millis int64) int { return time.UnixMilli(millis).UTC().Year() }

// parseClock reads the text after the date, from its T. It returns how many
// milliseconds it is behind the day's first moment in UTC. With a zone it may
// be negative, or more than a day.
func parseClock(s string) (ms int64, zoned, ok bool) {
	if len(s) < 6 || s[0]|0x20 != 't' && s[0] != ' ' || s[3] != ':' {
		return 0, false, false
	}
	hour, minute, second, millis := number(s[1:3]), number(s[4:6]), 0, 0
	s = s[6:]
	if len(s) >= 3 && s[0] == ':' {
		second = number(s[1:3])
		s = s[3:]
		if s != "" && (s[0] == '.' || s[0] == ',' || s[0] == ':') {
			end := 1
			for end < len(s) && s[end]-'0' <= 9 {
				end++
			}
			if millis, ok = fraction(s[1:end]); !ok || end > 10 {
				return 0, false, false
			}
			s = s[end:]
		}
	}
	if len(s) > 1 && s[0] == ' ' {
		s = s[1:]
	}
	zone, ok := parseZone(s)
	if !ok || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60 {
		return 0, false, false
	}
	return int64((hour*60+minute-zone)*60+second)*1000 + int64(millis), s != "", true
}

// parseZone reads a zone and returns how many minutes it is ahead of UTC.
func parseZone(s string) (minutes int, ok bool) {
	if s == "" || s == "Z" || s == "z" {
		return 0, true
	}
	hour, minute := 0, 0
	switch {
	case len(s) == 3: // +hh
		hour = number(s[1:3])
	case len(s) == 5: // +hhmm
		hour, minute = number(s[1:3]), number(s[3:5])
	case len(s) == 6 && s[3] == ':': // +hh:mm
		hour, minute = number(s[1:3]), number(s[4:6])
	default:
		return 0, false
	}
	if hour < 0 || hour > 23 || minute < 0 || minute > 59 {
		return 0, false
	}
	switch s[0] {
	case '+':
		return hour*60 + minute, true
	case '-':
		return -(hour*60 + minute), true
	}
	return 0, false
}
