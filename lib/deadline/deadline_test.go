package deadline

import (
	"testing"
	"time"
)

// Requests of one step share a context that lasts as long as they may take.
func TestShared(t *testing.T) {
	s := Shared{Timeout: time.Minute, Step: time.Second}
	now := time.Now()
	first := s.Context(now)
	if s.Context(now.Add(s.Step-1)) != first {
		t.Error("a request of the same step got a context of its own")
	}
	next := s.Context(now.Add(s.Step))
	if next == first {
		t.Error("a request of the next step got the context of the first")
	}
	if s.Context(now) == next {
		t.Error("a clock that was set back keeps the context that was made for later")
	}
	for _, ctx := range []interface{ Deadline() (time.Time, bool) }{first, next} {
		if end, ok := ctx.Deadline(); !ok || end.Sub(now) < s.Timeout-s.Step || end.Sub(now) > s.Timeout+s.Step {
			t.Errorf("it ends at %v, %v", end, ok)
		}
	}
}
