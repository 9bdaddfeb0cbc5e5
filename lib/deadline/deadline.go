// Package deadline gives requests that come within a moment one context with one
// deadline.
package deadline

import (
	"context"
	"sync"
	"time"
)

// Shared makes one context for all requests within a step. A context and a timer for
// each request cost a tenth of what accepting a single event does, and as much as the
// MAC of a link. A client that hangs up is waited for to the end: what it sent is being
// written. Its method may be called from several goroutines at once.
type Shared struct {
	Timeout time.Duration // of a context, from when it is made
	Step    time.Duration // for how long it is given out

	mu      sync.Mutex
	began   time.Time
	current context.Context
}

// Context returns one that ends Timeout from now, or up to Step sooner.
func (s *Shared) Context(now time.Time) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil || now.Sub(s.began) >= s.Step || now.Before(s.began) {
		ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
		context.AfterFunc(ctx, cancel) // it ends by its time, and nothing is left of it
		s.began, s.current = now, ctx
	}
	return s.current
}
