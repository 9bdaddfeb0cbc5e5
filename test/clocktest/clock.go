// Package clocktest is a clock for tests: it stands still until a test moves
// it. Rest is for what only the real one brings.
package clocktest

import (
	"sync"
	"time"
)

// Clock is a sluice.Clock that a test moves. Its methods may be called from
// several goroutines at once.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// At returns a clock that stands at a time.
func At(now time.Time) *Clock { return &Clock{now: now} }

// Now returns where the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Move moves the clock, back if d is negative.
func (c *Clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
