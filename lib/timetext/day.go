package timetext

import "time"

// StartOfDay returns the first moment of a time's day, in its zone. It is not
// always midnight. Where clocks go forward at midnight the day begins at one
// o'clock (Santiago, Havana). Where they go back over midnight it begins with
// the first of two.
func StartOfDay(t time.Time) time.Time {
	return FirstMoment(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC), t.Location())
}

// DayAfter returns the first moment of the day after that of t. A day that
// a zone left out (Apia, 2011-12-30) has none: then it is that of the next.
func DayAfter(t time.Time) time.Time {
	return FirstMoment(time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC), t.Location())
}

// FirstMoment returns when the clocks of a zone first show what those of UTC
// show at wall, or leap over it.
func FirstMoment(wall time.Time, zone *time.Location) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
	began, ends := t.ZoneBounds()
	if shown(t).Before(wall) {
		return ends // leapt over, and time.Date took the offset before the leap
	}
	if began.IsZero() {
		return t
	}
	if shown(t).After(wall) {
		return began // leapt over, and it took the one behind
	}
	_, before := began.Add(-1).Zone()
	if first := wall.Add(-time.Duration(before) * time.Second); first.Before(began) {
		return first.In(zone)
	}
	return t
}

// IsOn reports whether t, the first moment of a wall clock in a zone, counts for the day of
// that wall clock. It is no moment of a day that the zone left out as a whole (Apia,
// 2011-12-30). Where clocks leap over the last hour of a day (Nuuk, in March), the first
// moment of the next one does.
func IsOn(t, wall time.Time, zone *time.Location) bool {
	if t.In(zone).YearDay() == wall.YearDay() {
		return true
	}
	begins := FirstMoment(time.Date(wall.Year(), wall.Month(), wall.Day(), 0, 0, 0, 0, time.UTC), zone)
	return begins.In(zone).YearDay() == wall.YearDay()
}

// shown is what the clocks show at t, as a time of UTC.
func shown(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}
