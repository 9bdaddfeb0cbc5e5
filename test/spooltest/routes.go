// Package spooltest has the simplest routes, for tests and benches of the spool.
package spooltest

import (
	"sync"
	"time"

	"sluice/mail"
	"sluice/mail/spool"
)

// Pauses of a route whose attempts cannot be begun.
const (
	pauseSoonest = 100 * time.Millisecond
	pauseLatest  = 30 * time.Second
)

// OneRoute sends everything by one transport. When attempts cannot be begun
// (nobody answers) it waits for a time that grows until one can.
type OneRoute struct {
	Transport mail.Transport

	mu     sync.Mutex
	until  time.Time
	length time.Duration
}

// Transports is the one.
func (r *OneRoute) Transports() []mail.Transport { return []mail.Transport{r.Transport} }

// TransportOf returns the one if that is its name.
func (r *OneRoute) TransportOf(name string) mail.Transport {
	if r.Transport.Name() == name {
		return r.Transport
	}
	return nil
}

// Takes is OK unless it waits.
func (r *OneRoute) Takes(_ mail.Transport, _ *mail.Send, _ []mail.Transport, now time.Time) spool.Take {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.until) {
		return spool.Take{Wait: r.until.Sub(now)}
	}
	return spool.Take{OK: true}
}

// Elsewhere is false: there is no other.
func (*OneRoute) Elsewhere(*mail.Send, []mail.Transport, time.Time) bool { return false }

// Holds is false: nothing is stopped.
func (*OneRoute) Holds(mail.Transport, *mail.Send) bool { return false }

// Report looks whether the attempt was one.
func (r *OneRoute) Report(_ mail.Transport, _ *mail.Send, result *mail.Result, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case result.Kind != mail.ResultUntried:
		r.length = 0
	case !now.Before(r.until): // the others of its window say the same
		r.length = min(max(2*r.length, pauseSoonest), pauseLatest)
		r.until = now.Add(r.length)
	}
}

// NotAttempted changes nothing: there are no tokens.
func (*OneRoute) NotAttempted(mail.Transport, []*mail.Send, time.Time) {}

// Busy changes nothing: there is no other.
func (*OneRoute) Busy(mail.Transport, bool, time.Time) {}

// Ended adds nothing to that.
func (*OneRoute) Ended(mail.Transport, []*mail.Send, []mail.Result, time.Time) {}
