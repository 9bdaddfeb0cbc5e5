package engine

import (
	"fmt"
	"time"

	"sluice"
	"sluice/lib/faults"
)

// MachineClock is the machine's clock, or one that a test has set wrong.
func MachineClock() sluice.Clock {
	if by := faults.Ahead("clock"); by != 0 {
		return wrongClock(by)
	}
	return sluice.SystemClock{}
}

// wrongClock is ahead of the machine's clock by so much.
type wrongClock time.Duration

// Now is without a monotonic reading, which would be wrong as well.
func (c wrongClock) Now() time.Time { return time.Now().Add(time.Duration(c)).Round(0) }

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
