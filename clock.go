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

// Rest returns how long it is until the next multiple of every, at least a
// tenth of it. Whoever looks at something again and again rests so between the
// looks: all look at the same instants then, and an idle process is woken a few
// times a second in all instead of a few times by each.
func Rest(now time.Time, every time.Duration) time.Duration {
	rest := every - now.Sub(now.Truncate(every))
	if rest < every/10 {
		rest += every
	}
	return rest
}
