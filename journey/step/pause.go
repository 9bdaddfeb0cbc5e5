package step

import (
	"time"
)

// Pause is how long somebody waits: for a duration, or until a time of day.
type Pause struct {
	For time.Duration

	// Until waits for the next such time of day, on Weekday if that is set.
	Until   *Clock
	Weekday *time.Weekday
	Zone    *time.Location // nil: the journey's, or the person's own
	Own     bool           // the person's own zone, whatever the journey's is
}

// Clock is a time of day.
type Clock struct{ Hour, Minute int }

// Quiet are the hours in which no mail leaves: from one time of day until another, of
// the same day or the next.
type Quiet struct {
	From, To Clock
	Zone     *time.Location // nil: the person's own
	Skip     bool           // the mail is left out; otherwise it waits for the end
}

// maxDaysAhead bounds the search for a time of day: a week, and a day that a change of
// zones leaves out.
const maxDaysAhead = 9

// after returns the first moment at or after now at which clocks in a zone show a time
// of day. An hour that never comes, in the night when clocks are put forward, is the
// first moment after it. One that comes twice is the first of the two.
func (c Clock) after(now time.Time, zone *time.Location, weekday *time.Weekday) time.Time {
	year, month, day := now.In(zone).Date()
	for ahead := range maxDaysAhead {
		at := c.on(year, month, day+ahead, zone)
		if !at.Before(now) && (weekday == nil || at.In(zone).Weekday() == *weekday) {
			return at
		}
	}
	return now // not reached: every week has each of its days
}

// on returns the moment at which a day has this time.
func (c Clock) on(year int, month time.Month, day int, zone *time.Location) time.Time {
	at := time.Date(year, month, day, c.Hour, c.Minute, 0, 0, zone)
	if h, m, _ := at.Clock(); h != c.Hour || m != c.Minute {
		// time.Date gives the time by the offset before the gap, or by that behind it:
		// the gap ends where the offset changes.
		return transition(at.Add(-24*time.Hour), at.Add(24*time.Hour), zone)
	}
	// Of a time that comes twice it may give either.
	for _, shift := range [...]time.Duration{2 * time.Hour, time.Hour, 30 * time.Minute} {
		before := at.Add(-shift)
		if h, m, _ := before.Clock(); h == c.Hour && m == c.Minute && before.In(zone).Day() == at.Day() {
			return before
		}
	}
	return at
}

// transition returns the first second in a range at which the offset of a zone is that
// of its end.
func transition(from, to time.Time, zone *time.Location) time.Time {
	_, last := to.In(zone).Zone()
	for to.Sub(from) > time.Second {
		middle := from.Add(to.Sub(from) / 2).Truncate(time.Second)
		if _, offset := middle.In(zone).Zone(); offset == last {
			to = middle
		} else {
			from = middle
		}
	}
	return to
}

// end returns when a pause that begins now ends.
func (p *Pause) end(now time.Time, journey, person *time.Location) time.Time {
	if p.Until == nil {
		return now.Add(p.For)
	}
	zone := p.Zone
	switch {
	case p.Own || zone == nil && journey == nil:
		zone = person
	case zone == nil:
		zone = journey
	}
	return p.Until.after(now, zone, p.Weekday)
}

// until returns when mail may leave: now, or the end of the hours without mail.
func (q *Quiet) until(now time.Time, person *time.Location) time.Time {
	zone := q.Zone
	if zone == nil {
		zone = person
	}
	end := q.To.after(now, zone, nil)
	begin := q.From.after(now, zone, nil)
	if begin.Before(end) || end.Equal(now) { // the hours are yet to begin
		return now
	}
	return end
}

// needsZone reports whether a person's own zone decides about a pause.
func (p *Pause) needsZone(journey *time.Location) bool {
	return p.Until != nil && (p.Own || p.Zone == nil && journey == nil)
}
