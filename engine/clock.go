package engine

import (
	"fmt"
	"time"

	"sluice"
	"sluice/lib/faults"
)

// MachineClock is the machine's clock, or one that a test sets wrong.
func MachineClock() sluice.Clock {
	if faults.SetsClock(clockFault) {
		return wrongClock{}
	}
	return sluice.SystemClock{}
}

// clockFault is the failpoint that says by how much the clock is wrong.
const clockFault = "clock"

// wrongClock is ahead of the machine's clock, now by so much, and later by another time.
type wrongClock struct{}

// Now is without a monotonic reading, which would be wrong as well.
func (wrongClock) Now() time.Time { return time.Now().Add(faults.Ahead(clockFault)).Round(0) }

// clockApart returns what is wrong with the process's clock or Redis's, nil if they
// agree well enough for mail to be released and to expire.
func (e *core) clockApart() error {
	ahead := e.clock.Ahead()
	if ahead.Abs() <= sluice.MaxClockApart {
		return nil
	}
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	return fmt.Errorf("clock: this process is %s %s Redis, more than %s: it releases no mail that waits for a time, and lets none expire; set both clocks by NTP",
		ahead.Abs().Round(time.Second), way, sluice.MaxClockApart)
}
