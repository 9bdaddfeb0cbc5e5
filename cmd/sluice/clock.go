package main

import (
	"context"
	"time"

	"sluice"
	"sluice/engine"
	"sluice/flow"
)

// own returns the clock of this machine.
func (m *Main) own() sluice.Clock {
	if m.Clock == nil {
		return engine.MachineClock()
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
	redis, err := engine.DialRunning(ctx, c.config)
	if err != nil {
		return c.main.own()
	}
	defer redis.Close()
	return c.clockOf(ctx, redis)
}
