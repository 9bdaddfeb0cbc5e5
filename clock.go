package sluice

import (
	"context"
	"time"
)

// Clock is where the program gets its time from, so that a test may hand in
// another. Leases do not use it: they are judged by the beats that a process
// has itself watched (flow), never by comparing two machines' clocks.
type Clock interface {
	Now() time.Time
}

// SharedClock is a Clock that is compared with one that all processes share. Its Now
// is the earlier of both times.
type SharedClock interface {
	Clock

	// Later returns the later of both times: until when something is good is
	// reckoned from it, so that a clock that is behind makes nothing expire early.
	Later() time.Time

	// Ahead returns how far the process's own clock is ahead of the shared one.
	Ahead() time.Duration
}

// Later is SharedClock.Later; of a clock that is not compared it is Now.
func Later(c Clock) time.Time {
	if shared, ok := c.(SharedClock); ok {
		return shared.Later()
	}
	return c.Now()
}

// ClocksApart reports whether a clock and the one that all share are further apart
// than MaxClockApart. One of them is wrong, and nobody knows which: nothing is due,
// and nothing is over, until they agree.
func ClocksApart(c Clock) bool {
	shared, ok := c.(SharedClock)
	return ok && shared.Ahead().Abs() > MaxClockApart
}

// MaxClockApart is how far a process's clock and the shared one may be apart.
const MaxClockApart = 5 * time.Minute

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now returns the machine's time.
func (SystemClock) Now() time.Time { return time.Now() }

// Rest returns how long it is until the next multiple of every, at least a
// tenth of it. A loop that polls rests so between its looks. All loops then look at
// the same instants, and an idle process is woken a few times a second in all
// instead of a few times by each.
func Rest(now time.Time, every time.Duration) time.Duration {
	rest := every - now.Sub(now.Truncate(every))
	if rest < every/10 {
		rest += every
	}
	return rest
}

// Pause waits for d, or until a context ends, whose error it then returns.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
