package plan

import (
	"time"

	"sluice/lib/timetext"
)

// daysAhead bounds the search for the next day of a schedule: two months have every
// day that a schedule can name.
const daysAhead = 63

// Next returns the first moment after another at which a schedule is due, in the zone
// of a person (own is that of the profile, nil: it has none). False: it is not due any
// more. A time that clocks leap over is the first moment after the leap, one that they
// show twice the first of the two. A day that a zone left out has none.
func (s *Schedule) Next(after time.Time, own *time.Location) (at time.Time, ok bool) {
	zone := s.Zone.In(own)
	if s.Every == Once {
		at = timetext.FirstMoment(s.First, zone)
		return at, at.After(after)
	}
	wall := s.First
	if y, m, d := after.In(zone).Date(); wall.Before(time.Date(y, m, d, 0, 0, 0, 0, time.UTC)) {
		wall = time.Date(y, m, d, wall.Hour(), wall.Minute(), 0, 0, time.UTC)
	}
	for range daysAhead {
		if !s.Until.IsZero() && wall.After(s.Until) {
			return time.Time{}, false
		}
		if s.isOn(wall) {
			at = timetext.FirstMoment(wall, zone)
			if at.After(after) && timetext.IsOn(at, wall, zone) {
				return at, true
			}
		}
		wall = wall.AddDate(0, 0, 1)
	}
	return time.Time{}, false
}

// isOn reports whether a day is one of the schedule.
func (s *Schedule) isOn(day time.Time) bool {
	switch s.Every {
	case EveryWeek:
		return s.Weekdays[day.Weekday()]
	case EveryMonth:
		if day.AddDate(0, 0, 1).Day() == 1 { // the last of its month stands for those that it lacks
			return s.Days>>day.Day() != 0
		}
		return s.Days>>day.Day()&1 == 1
	}
	return true
}
