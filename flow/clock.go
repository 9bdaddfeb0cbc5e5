package flow

import (
	"context"
	"sync/atomic"
	"time"

	"sluice"
)

// Clock is the time that a process goes by: the earlier of its own clock's and
// Redis's. It implements sluice.SharedClock; its methods may be called from several
// goroutines at once.
//
// The idea. All processes share Redis, so its clock is the one by which they
// agree. Each beat (lease.go) brings its time along. From then on it is known
// by the monotonic clock, which nothing can set. So a clock that is set ahead
// while the process runs releases nothing either, from the first instant on.
type Clock struct {
	own    sluice.Clock
	system bool // own is the machine's clock
	at     atomic.Pointer[compared]
}

var _ sluice.SharedClock = (*Clock)(nil)

// compared is what Redis's clock said, and when, by the monotonic clock.
type compared struct {
	redis time.Time
	when  time.Time
	slack time.Duration // how exactly that is known, at least
}

const (
	// clockSlack is how far clocks are apart before the difference counts: NTP keeps
	// them closer.
	clockSlack = 1 * time.Second

	// clockWithin bounds the call that brings Redis's time: after a longer call
	// the moment of that time is unknown.
	clockWithin = 2 * time.Second
)

// NewClock returns a clock that goes by its own time until it is compared.
func NewClock(own sluice.Clock) *Clock {
	_, system := own.(sluice.SystemClock)
	return &Clock{own: own, system: system}
}

// Compare asks a Redis for its time, as a program does before it begins.
func (c *Clock) Compare(ctx context.Context, r *Redis) error {
	began := time.Now()
	millis, err := r.TimeMillis(ctx)
	if err == nil {
		c.Heard(time.UnixMilli(millis), began, time.Now())
	}
	return err
}

// Heard notes what Redis's clock said in a call that began and ended at times of
// the machine's clock.
func (c *Clock) Heard(redis, began, ended time.Time) {
	took := ended.Sub(began)
	if took > clockWithin && c.at.Load() != nil {
		return // the process stood still, or Redis did
	}
	c.at.Store(&compared{redis: redis.Round(0), when: ended, slack: clockSlack + took})
}

// theirs returns Redis's time; ok: it is known and differs from now.
func (c *Clock) theirs(now time.Time) (redis time.Time, ok bool) {
	at := c.at.Load()
	if at == nil {
		return now, false
	}
	read := now
	if !c.system { // its times have no monotonic reading
		read = time.Now()
	}
	redis = at.redis.Add(read.Sub(at.when))
	return redis, now.Sub(redis).Abs() > at.slack
}

// Now returns the earlier time.
func (c *Clock) Now() time.Time {
	now := c.own.Now()
	if redis, ok := c.theirs(now); ok && redis.Before(now) {
		return redis
	}
	return now
}

// Later returns the later time.
func (c *Clock) Later() time.Time {
	now := c.own.Now()
	if redis, ok := c.theirs(now); ok && redis.After(now) {
		return redis
	}
	return now
}

// Ahead returns how far the process's clock is ahead of Redis's: less than 0 if it
// is behind, 0 while they agree.
func (c *Clock) Ahead() time.Duration {
	now := c.own.Now()
	if redis, ok := c.theirs(now); ok {
		return now.Sub(redis)
	}
	return 0
}
