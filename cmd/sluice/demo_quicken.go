package main

import (
	"fmt"
	"strings"
	"time"

	"sluice/journey/plan"
)

// What takes a journey an hour takes the demo a second. What has no length of its own
// gets one.
const (
	demoFaster     = 3600
	demoTimeOfDay  = 12 * time.Hour      // until a time of day, on average
	demoWeekday    = 3 * 24 * time.Hour  // until one of two weekdays
	demoDate       = 30 * 24 * time.Hour // until a person's date
	demoSoon       = 5 * time.Second     // until a schedule begins, at least; it does with a minute
	demoSaysFaster = " In the demo what takes an hour takes a second, and times of day are left out."
)

// quicken makes a journey as fast as a person can watch.
func quicken(d *plan.Document, now time.Time) (err error) {
	faster := func(text *string, plus time.Duration) {
		seconds := int64(0)
		if *text != "" && err == nil {
			seconds, err = plan.ParseDuration(*text)
		}
		if seconds += int64(plus.Seconds()); seconds > 0 {
			*text = fmt.Sprintf("%ds", max(1, seconds/demoFaster))
		}
	}
	d.Description = strings.TrimSpace(d.Description + demoSaysFaster)
	d.Zone, d.Quiet = "UTC", nil
	faster(&d.Entry.AgainAfter, 0)
	if when := d.Entry.When; len(when) > 0 && when[0].At != "" {
		first := now.UTC().Add(demoSoon).Truncate(time.Minute).Add(time.Minute)
		d.Entry.When = []plan.Trigger{{At: first.Format("2006-01-02 15:04")}}
	}
	for i := range d.Steps {
		s := &d.Steps[i]
		if s.WaitFor != nil {
			faster(&s.WaitFor.Within, 0)
		}
		if s.Delay == nil {
			continue
		}
		plus := time.Duration(0)
		switch until := s.Delay.Until; {
		case s.Delay.UntilDate != nil:
			plus = demoDate
		case until != nil && len(until.Weekdays) > 0:
			plus = demoWeekday
		case until != nil:
			plus = demoTimeOfDay
		}
		s.Delay.Until, s.Delay.UntilDate = nil, nil
		faster(&s.Delay.For, plus)
	}
	for i := range d.Conversions {
		faster(&d.Conversions[i].Within, 0)
	}
	return err
}
