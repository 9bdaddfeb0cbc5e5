package api

import (
	"testing"
	"time"
)

// Requests of one second share a context that lasts as long as they may take.
func TestDeadlines(t *testing.T) {
	var d deadlines
	now := time.Now()
	first := d.context(now)
	if d.context(now.Add(deadlineStep-1)) != first {
		t.Error("a request of the same second got a context of its own")
	}
	next := d.context(now.Add(deadlineStep))
	if next == first {
		t.Error("a request of the next second got the context of the first")
	}
	if d.context(now) == next {
		t.Error("a clock that was set back keeps the context that was made for later")
	}
	for _, ctx := range []interface{ Deadline() (time.Time, bool) }{first, next} {
		if end, ok := ctx.Deadline(); !ok || end.Sub(now) < acceptTimeout-deadlineStep {
			t.Errorf("it ends at %v, %v", end, ok)
		}
	}
}
