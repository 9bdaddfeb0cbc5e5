package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/user/profile"
)

const (
	minuteSeconds = 60
	hourSeconds   = 60 * minuteSeconds
	daySeconds    = 24 * hourSeconds
	weekSeconds   = 7 * daySeconds

	// MaxSeconds bounds every duration: two years, one of them a leap year.
	MaxSeconds = 731 * daySeconds
)

// units are those of durations, the largest first.
var units = []struct {
	letter  byte
	seconds int64
}{{'w', weekSeconds}, {'d', daySeconds}, {'h', hourSeconds}, {'m', minuteSeconds}, {'s', 1}}

var errDuration = errors.New("want a duration as 30s, 5m, 2h, 3d or 2w, or several of these as 1d12h, the largest first")

// ParseDuration reads a duration: whole numbers with a unit each, the largest unit
// first, each at most once. A day is 24 hours.
func ParseDuration(text string) (seconds int64, err error) {
	last := -1
	for rest := text; rest != "" || last < 0; {
		digits := 0
		for digits < len(rest) && rest[digits]-'0' <= 9 {
			digits++
		}
		if digits == 0 || digits > 9 || digits == len(rest) {
			return 0, errDuration
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		unit := slices.IndexFunc(units, func(u struct {
			letter  byte
			seconds int64
		}) bool {
			return u.letter == rest[digits]
		})
		if err != nil || unit <= last {
			return 0, errDuration
		}
		seconds += n * units[unit].seconds
		last, rest = unit, rest[digits+1:]
	}
	if seconds > MaxSeconds {
		return 0, fmt.Errorf("want at most two years (%dd), got %s", MaxSeconds/daySeconds, shown(text))
	}
	return seconds, nil
}

// DurationText writes a duration in one form: 2w, 1d12h, 0s.
func DurationText(seconds int64) string {
	if seconds == 0 {
		return "0s"
	}
	if seconds < 0 {
		return "-" + DurationText(-seconds)
	}
	text := ""
	for _, u := range units {
		if u.letter == 'w' && seconds%weekSeconds != 0 {
			continue // 10d is plainer than 1w3d
		}
		if n := seconds / u.seconds; n > 0 {
			text += strconv.FormatInt(n, 10) + string(u.letter)
			seconds %= u.seconds
		}
	}
	return text
}

// duration reads a duration that has bounds, and brings its text into one form.
func (c *compiler) duration(place string, text *string, least, most int64) int64 {
	seconds, err := ParseDuration(*text)
	switch {
	case *text == "":
		c.lacks(place, "%v", errDuration)
	case err != nil:
		c.wrong(place, "%v; got %s", err, strconv.Quote(shown(*text)))
	case seconds < least || seconds > most:
		c.wrong(place, "want %s to %s, got %s", DurationText(least), DurationText(most), shown(*text))
	default:
		*text = DurationText(seconds)
	}
	return seconds
}

// offset reads a duration that may have a minus sign; empty: none.
func (c *compiler) offset(place string, text *string) int64 {
	if *text == "" {
		return 0
	}
	plain, minus := strings.CutPrefix(*text, "-")
	seconds, err := ParseDuration(plain)
	if err != nil {
		c.wrong(place, "%v; perhaps with a minus sign; got %s", err, strconv.Quote(shown(*text)))
		return 0
	}
	if minus {
		seconds = -seconds
	}
	if *text = DurationText(seconds); seconds == 0 {
		*text = ""
	}
	return seconds
}

// minuteOf reads a time of day.
func (c *compiler) minuteOf(place, text string) int {
	t, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		c.wrong(place, "want a time of day as 09:30 (in quotes, in YAML), got %s", strconv.Quote(shown(text)))
		return 0
	}
	return t.Hour()*60 + t.Minute()
}

var weekdayNames = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// weekdays reads some, and brings them into the order of a week that begins on Monday.
// None are all.
func (c *compiler) weekdays(place string, names *[]string) (days [7]bool) {
	for i, name := range *names {
		day := slices.Index(weekdayNames, name)
		if day < 0 {
			c.wrong(c.at(place, i, len(*names)), "want a weekday as monday, got %s", strconv.Quote(shown(name)))
			continue
		}
		if days[day] {
			c.wrong(c.at(place, i, len(*names)), "want each weekday once, %s is there twice", name)
		}
		days[day] = true
	}
	if len(*names) == 0 {
		return [7]bool{true, true, true, true, true, true, true}
	}
	*names = nil
	for i := range 7 {
		if day := (i + 1) % 7; days[day] {
			*names = append(*names, weekdayNames[day])
		}
	}
	if len(*names) == 7 {
		*names = nil
	}
	return days
}

// zoneOfUser is the word for the zone of each person.
const zoneOfUser = "user"

// zone reads a zone; empty: the one of the journey.
func (c *compiler) zone(place string, text *string) Zone {
	switch {
	case *text == "":
		return c.home
	case *text == zoneOfUser:
		return Zone{User: true}
	}
	location := profile.Zone(*text)
	if location == nil {
		c.wrong(place, `want "user" (that of each person) or a name of the IANA database, as Europe/Vienna; got %s`, strconv.Quote(shown(*text)))
		return c.home
	}
	return Zone{Location: location}
}

const momentForm = "2006-01-02 15:04"

// moment reads a date and a time of day.
func (c *compiler) moment(place string, text *string) time.Time {
	t, err := time.Parse(momentForm, strings.Replace(*text, "T", " ", 1))
	if err != nil || t.Year() < 1970 || t.Year() > 2100 {
		c.wrong(place, "want a date and a time of day, as 2026-12-01 09:00, of the years 1970 to 2100; got %s", strconv.Quote(shown(*text)))
		return time.Time{}
	}
	*text = t.Format(momentForm)
	return t
}
