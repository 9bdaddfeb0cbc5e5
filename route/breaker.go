package route

import "time"

// Bounds of a breaker.
const (
	openAfter  = 5 // failures more than successes
	openFirst  = 5 * time.Second
	openLatest = 5 * time.Minute
)

// breaker keeps mail from a route (or of a direct one, from a domain) whose
// attempts fail for reasons that are ours. It pauses; it drops nothing.
//
// Closed, it counts a failure up and a success down, so that what fails now and
// then does not open it. Open, it lets nothing through for a time. Then it is
// half open: one probe may go, and another each time as long if it is not heard
// of; its success closes the breaker, its failure opens it for twice as long.
// What was under way when it opened and fails later changes nothing.
type breaker struct {
	score  int
	length time.Duration // 0: closed
	until  time.Time     // when it is half open, and of a probe, when the next may go
	probed bool          // since then
	opened int64         // how often
}

// wait returns how long nothing may go; 0: something may.
func (b *breaker) wait(now time.Time) time.Duration {
	if b.length == 0 || !now.Before(b.until) {
		return 0
	}
	return b.until.Sub(now)
}

// take notes that something goes.
func (b *breaker) take(now time.Time) {
	if b.length > 0 {
		b.probed, b.until = true, now.Add(b.length)
	}
}

// report notes how an attempt has ended. after is how long the other side asks
// for; 0: it does not.
func (b *breaker) report(ok bool, after time.Duration, now time.Time) {
	switch {
	case ok:
		b.score = max(0, b.score-1)
		if b.length > 0 && b.probed {
			*b = breaker{opened: b.opened}
		}
		return
	case b.length == 0:
		if b.score++; b.score < openAfter {
			return
		}
		b.length = openFirst
	case b.probed:
		b.length = min(2*b.length, openLatest)
	default:
		return
	}
	b.opened++
	b.probed, b.until = false, now.Add(max(b.length, after))
}

// What a breaker may be.
const (
	BreakerClosed   = "closed"
	BreakerOpen     = "open"
	BreakerHalfOpen = "half-open"
)

// state is what metrics show.
func (b *breaker) state(now time.Time) string {
	switch {
	case b.length == 0:
		return BreakerClosed
	case b.wait(now) > 0 && !b.probed:
		return BreakerOpen
	}
	return BreakerHalfOpen
}
