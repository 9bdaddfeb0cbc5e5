package run

import (
	"time"

	"sluice/journey"
	"sluice/journey/step"
)

// sweep is a run of a journey that begins when clocks show a time where each person is.
//
// The idea. A sweep looks at all people of the partition, as a run of one zone does, and
// lets those in whose moment came since the sweep before. So each moment is in one sweep,
// whenever they are made and however late, and whatever clocks do: a person's moment is
// that of the schedule in the person's zone. A sweep also learns the earliest moment
// behind it of anybody: that is when the next one is made. People whose zone has changed
// meanwhile are found an hour later at most.
//
// The invariants. The note has the seconds from and up to which a sweep looks, and how
// far it is: a successor goes on with the same sweep. It knows of no next moment, so its
// next sweep is at a quarter of an hour. A person's
// entry is named by the person's moment: a sweep that is made again makes the same mails.
//
// A person who travels comes by the same time twice, or nearly so. Nobody enters within
// sweepRest of the entry before.
//
// What was dropped. A run for each zone: nobody knows which zones people have. A sweep
// each quarter of an hour: 96 reads of all profiles a day, where 24 do, of weekly times
// fewer still.
type sweep struct {
	from    int64     // it looks for moments behind this second, up to scan.last
	learned bool      // it has seen all people
	seen    time.Time // the earliest moment behind scan.last; zero: nobody has one
	zones   map[*time.Location]moment
}

// moment is what a schedule says of a zone.
type moment struct {
	at   uint32 // the last one within the sweep; 0: none
	next time.Time
}

// west is where days begin last.
var west = time.FixedZone("UTC-12", -12*60*60)

const (
	sweepSpan = 26 * time.Hour // a time comes in all zones within it, from UTC+14 to UTC-12
	sweepRest = 20 * time.Hour

	// sweepEvery is how often is looked while moments are to come, and sweepBlind if no
	// sweep has learned when they come.
	sweepEvery = time.Hour
	sweepBlind = 15 * time.Minute
)

// begin begins a sweep behind the one that has looked up to a second.
func (w *sweep) begin(last int64) {
	*w = sweep{from: last, learned: true, zones: make(map[*time.Location]moment)}
}

// planSweep returns when the next sweep is due; zero: nobody's moment is to come. What
// versions before the one of now owe is due at once.
func (s *scan) planSweep() time.Time {
	if s.sweep == nil {
		s.sweep = &sweep{}
	}
	now := time.Unix(s.last, 0)
	for i := range s.times {
		next, ok := s.times[i].first(s.last)
		if !ok {
			continue
		}
		if !next.After(now) {
			next = s.sweep.next(now)
		}
		if until := s.times[i].until; next.Unix() > until {
			return time.Unix(until, 0)
		}
		return next
	}
	return time.Time{}
}

// next returns when the sweep behind this one is due, while moments are to come.
func (w *sweep) next(now time.Time) time.Time {
	every := sweepBlind
	if w.learned {
		every = sweepEvery
	}
	next := now.Truncate(every).Add(every)
	if !w.seen.IsZero() && w.seen.Before(next) {
		next = w.seen
	}
	return next
}

// entry returns the second under which somebody enters by the run that is under way;
// false: it is not the person's time.
func (s *scan) entry(profile string) (at uint32, due bool) {
	if s.sweep == nil {
		return uint32(s.last), true
	}
	w := s.sweep
	if w.zones == nil { // a successor goes on, and does not see all
		w.zones = make(map[*time.Location]moment)
	}
	own := step.OwnZone(profile)
	m, ok := w.zones[own]
	if !ok {
		m = s.momentOf(own)
		w.zones[own] = m
		if !m.next.IsZero() && (w.seen.IsZero() || m.next.Before(w.seen)) {
			w.seen = m.next
		}
	}
	return m.at, m.at != 0
}

// momentOf asks the timetable about a zone.
func (s *scan) momentOf(own *time.Location) (m moment) {
	for after := s.sweep.from; ; after = int64(m.at) {
		next, ok := s.times.next(after, own)
		if !ok {
			return m
		}
		if next.Unix() > s.last {
			m.next = next
			return m
		}
		m.at = uint32(next.Unix())
	}
}

// tooSoon reports whether somebody has entered by the same time in another zone.
func (s *scan) tooSoon(p *step.Person) bool {
	if s == nil || s.sweep == nil || p.EnteredAt == 0 || p.Record.State == journey.StateNone {
		return false
	}
	return time.Duration(int64(p.EnteredAt)-int64(p.Record.Entered))*time.Second < sweepRest
}
