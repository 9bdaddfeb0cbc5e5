package sluice

import "time"

// Clock is where the program gets its time from, so that a test may hand in
// another. Leases do not use it: they are judged by the beats that a process
// has itself watched (flow), never by comparing two machines' clocks.
type Clock interface {
	Now() time.Time
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now returns the machine's time.
func (SystemClock) Now() time.Time { return time.Now() }
