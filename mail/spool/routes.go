package spool

import (
	"sync"
	"time"

	"sluice"
)

// Pauses of a route whose attempts cannot be begun.
const (
	pauseSoonest = 100 * time.Millisecond
	pauseLatest  = 30 * time.Second
)

// OneRoute sends everything by one transport. When attempts cannot be begun
// (nobody answers) it waits for a time that grows until one can.
type OneRoute struct {
	Transport sluice.Transport

	mu     sync.Mutex
	until  time.Time
	length time.Duration
}

// Transports is the one.
func (r *OneRoute) Transports() []sluice.Transport { return []sluice.Transport{r.Transport} }

// Takes is OK unless it waits.
func (r *OneRoute) Takes(_ sluice.Transport, _ *sluice.Send, _ []sluice.Transport, now time.Time) Take {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.until) {
		return Take{Wait: r.until.Sub(now)}
	}
	return Take{OK: true}
}

// Elsewhere is false: there is no other.
func (*OneRoute) Elsewhere(*sluice.Send, []sluice.Transport, time.Time) bool { return false }

// Report looks whether the attempt was one.
func (r *OneRoute) Report(_ sluice.Transport, _ *sluice.Send, result *sluice.Result, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case result.Kind != sluice.ResultUntried:
		r.length = 0
	case !now.Before(r.until): // the others of its window say the same
		r.length = min(max(2*r.length, pauseSoonest), pauseLatest)
		r.until = now.Add(r.length)
	}
}

// Busy changes nothing: there is no other.
func (*OneRoute) Busy(sluice.Transport, bool, time.Time) {}

// Ended adds nothing to that.
func (*OneRoute) Ended(sluice.Transport, []*sluice.Send, []sluice.Result, time.Time) {}
