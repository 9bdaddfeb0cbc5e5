package main

import (
	"context"
	"fmt"
	"time"

	"sluice"
	"sluice/faults"
	"sluice/flow"
)

// machineClock is the machine's clock, or one that a test has set wrong.
func machineClock() sluice.Clock {
	if by := faults.Ahead("clock"); by != 0 {
		return wrongClock(by)
	}
	return sluice.SystemClock{}
}

// wrongClock is ahead of the machine's clock by so much.
type wrongClock time.Duration

// Now is without a monotonic reading, which would be wrong as well.
func (c wrongClock) Now() time.Time { return time.Now().Add(time.Duration(c)).Round(0) }

// own returns the clock of this machine.
func (m *Main) own() sluice.Clock {
	if m.Clock == nil {
		return machineClock()
	}
	return m.Clock
}

// clockOf returns the time that the processes on a Redis go by, for a command
// beside them: what it writes must not be dated ahead of what they write. If Redis
// does not say, that is this machine's.
func (c *call) clockOf(ctx context.Context, redis *flow.Redis) sluice.Clock {
	clock := flow.NewClock(c.main.own())
	if err := clock.Compare(ctx, redis); err != nil {
		return c.main.own()
	}
	return clock
}

// clockWithin bounds the call of a command that needs Redis for its time alone.
const clockWithin = 2 * time.Second

// clock is clockOf for a command that needs Redis for nothing else, and works
// without one.
func (c *call) clock(ctx context.Context) sluice.Clock {
	ctx, cancel := context.WithTimeout(ctx, clockWithin)
	defer cancel()
	_, redis, err := c.dialConfigured(ctx)
	if err != nil {
		return c.main.own()
	}
	defer redis.Close()
	return c.clockOf(ctx, redis)
}

// clockApart returns what is wrong with the process's clock or Redis's, nil if they
// agree well enough for mail to be released and to expire.
func (e *engine) clockApart() error {
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
