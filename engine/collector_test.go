package engine

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"sluice/test/clocktest"
)

// TestTheLimitFollowsWhatIsLive: a heap that is larger than the limit, as with a long list of
// suppressions, raises it, and is collected as seldom as any other.
func TestTheLimitFollowsWhatIsLive(t *testing.T) {
	limitByLive(new(collected))
	if limit := debug.SetMemoryLimit(-1); limit < heapLimitBytes {
		t.Errorf("the limit is %d bytes, want %d at least", limit, heapLimitBytes)
	}
	const live = heapLimitBytes + 1
	held := make([]byte, live)
	until := func(what string, is func(limit int64) bool) {
		t.Helper()
		for began := time.Now(); !is(debug.SetMemoryLimit(-1)); clocktest.Rest(began) {
			if time.Since(began) > time.Minute {
				t.Fatalf("the limit is %d bytes: %s", debug.SetMemoryLimit(-1), what)
			}
			runtime.GC()
		}
	}
	until("it does not grow with what is live", func(limit int64) bool { return limit >= limitTimesLive*live })
	runtime.KeepAlive(held) // and no longer
	until("it does not fall again", func(limit int64) bool { return limit < limitTimesLive*live })
}
