package step

import (
	"math"
	"strings"
	"time"

	"sluice/journey/plan"
	"sluice/lib/jsonscan"
	"sluice/lib/timetext"
	"sluice/user/profile"
)

// daysAhead bounds the search for a time of day: a week, and a day that a change of
// zones leaves out.
const daysAhead = 9

// next returns the first moment at or after now at which clocks in a zone show a time
// of day, on one of the weekdays. A time that never comes, in the night when clocks are
// put forward, is the first moment after it. One that comes twice is the first of the
// two (timetext.FirstMoment).
func next(now time.Time, minute int, weekdays *[7]bool, zone *time.Location) time.Time {
	year, month, day := now.In(zone).Date()
	for ahead := range daysAhead {
		wall := time.Date(year, month, day+ahead, 0, minute, 0, 0, time.UTC)
		at := timetext.FirstMoment(wall, zone)
		switch {
		case at.Before(now), !timetext.IsOn(at, wall, zone): // past, or a day that a zone left out
		case weekdays == nil || *weekdays == [7]bool{} || weekdays[wall.Weekday()]:
			return at
		}
	}
	return now // not reached: every week has each of its days
}

// Quiet returns when mail of a message step may leave: now, or the end of the hours
// without mail, and whether it is left out meanwhile. Of the person only the profile counts.
func (j *Journey) Quiet(at int, p *Person, now time.Time) (until time.Time, skip bool) {
	if j.p.Quiet == nil || j.p.Steps[at].Message.IgnoreQuiet {
		return now, false
	}
	return quietUntil(j.p.Quiet, now, p), j.p.Quiet.Skip
}

// quietUntil returns when mail may leave: now, or the end of the hours without mail.
func quietUntil(q *plan.QuietHours, now time.Time, p *Person) time.Time {
	zone := zoneFor(q.Zone, p)
	begin, end := next(now, q.From, nil, zone), next(now, q.To, nil, zone)
	switch {
	case begin.Before(end) && begin.After(now), end.Equal(now): // they are yet to begin, or just over
		return now
	case begin.Equal(end) && q.From < q.To: // clocks leap over all of them, and they last no time
		return now
	}
	return end
}

// zoneFor is a zone for a person. The profile is read only where that decides.
func zoneFor(z plan.Zone, p *Person) *time.Location {
	if !z.User {
		return z.In(nil)
	}
	return z.In(OwnZone(p.Profile))
}

// OwnZone is the zone that a profile has; nil: none.
func OwnZone(of string) *time.Location {
	return profile.Zone(text(member(of, "fields", "time_zone")))
}

// member is a value inside an object, by names one inside the other; of no kind if it
// is not there.
func member(object string, names ...string) jsonscan.Value {
	v := jsonscan.Value{Kind: jsonscan.Object, Raw: object}
	for _, name := range names {
		if v.Kind != jsonscan.Object || v.Raw == "" {
			return jsonscan.Value{}
		}
		found := jsonscan.Value{}
		for m := jsonscan.Read(v.Raw); m.Next(); {
			if m.Key == name {
				found = m.Value
				break
			}
		}
		v = found
	}
	return v
}

// text is a value's text, empty if it is none.
func text(v jsonscan.Value) string {
	if v.Kind != jsonscan.String {
		return ""
	}
	return v.Text()
}

// end returns when a pause ends that begins now; false: the person has no such date.
func end(w *plan.Waiting, now time.Time, p *Person) (time.Time, bool) {
	if w.Date != nil {
		return dateOf(w.Date, now, p)
	}
	at := now.Add(time.Duration(w.ForSeconds) * time.Second)
	if w.Until != nil {
		at = next(at, w.Until.Minute, &w.Until.Weekdays, zoneFor(w.Until.Zone, p))
	}
	return at, true
}

// dateOf returns a date of a person's own, moved as the step says. False: there is
// none, it is past, or more than two years ahead.
func dateOf(d *plan.Date, now time.Time, p *Person) (time.Time, bool) {
	var v jsonscan.Value
	names := append([]string{d.Name}, d.Path...)
	switch d.Source {
	case plan.FromAttribute:
		v = member(p.Profile, append([]string{"custom"}, names...)...)
	case plan.FromField:
		v = member(p.Profile, append([]string{"fields"}, names...)...)
	case plan.FromContext:
		v = member(p.Given.Context, names...)
	}
	zone := zoneFor(d.Zone, p)
	value := strings.Trim(v.Raw, `"`)
	if v.Kind == jsonscan.String {
		value = v.Text()
	}
	ms, err := timetext.ParseAnyIn(value, zone)
	if v.Kind != jsonscan.String && v.Kind != jsonscan.Number || err != nil {
		return time.Time{}, false
	}
	at := time.UnixMilli(ms).In(zone)
	moved := move(at, d)
	if d.Yearly {
		// The day of this year, or of the next: one behind a shift of two years at most.
		for year := now.In(zone).Year() - 2; moved.Before(now) || year == now.In(zone).Year()-2; year++ {
			wall := time.Date(year, at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
			moved = move(timetext.FirstMoment(wall, zone), d)
			if year > now.In(zone).Year()+3 {
				break
			}
		}
	}
	return moved, !moved.Before(now) && moved.Sub(now) <= plan.MaxSeconds*time.Second
}

// daySeconds is a day of 24 hours.
const daySeconds = 24 * 60 * 60

// move moves a date as a step says: by days of the calendar first, then by what is left
// of an offset, then to a time of the day that it has come to. Three days before the
// first of April are the 29th of March, whatever clocks do in between.
func move(at time.Time, d *plan.Date) time.Time {
	zone := at.Location()
	if days := int(d.PlusSeconds / daySeconds); days != 0 {
		at = timetext.FirstMoment(time.Date(at.Year(), at.Month(), at.Day()+days, at.Hour(), at.Minute(), at.Second(), 0, time.UTC), zone)
	}
	at = at.Add(time.Duration(d.PlusSeconds%daySeconds) * time.Second)
	if d.Minute < 0 {
		return at
	}
	return timetext.FirstMoment(time.Date(at.Year(), at.Month(), at.Day(), 0, d.Minute, 0, 0, time.UTC), zone)
}

// second is a moment as records have it, the next whole second.
func second(t time.Time) uint32 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return uint32(min(max(s, 1), math.MaxUint32-1))
}
