package engine

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// What the program holds is small and short-lived, so the collector would run
// a hundred times a second under load, for a fifth of the time that is not the
// database's. It runs seldom instead, until the heap is large. GOGC and
// GOMEMLIMIT win.
const (
	collectAtPercent = 400
	heapLimitBytes   = 160 << 20

	// limitTimesLive is how many times what is live the limit is at least. A long list of
	// suppressions takes more than heapLimitBytes by itself: below it, or little above,
	// the collector would run without a pause.
	limitTimesLive = 2
)

// TuneCollector sets the collector of garbage for a process that is an engine.
func TuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAtPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		limitByLive(new(collected))
	}
}

// collected is garbage: each collection calls limitByLive for it. A timer would wake a
// process that has nothing to do.
type collected [32]byte // smaller ones may never be told of

// limitByLive sets the limit by what was live at the last collection, now and behind each
// later one.
func limitByLive(c *collected) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if limit := max(heapLimitBytes, limitTimesLive*int64(live[0].Value.Uint64())); limit != debug.SetMemoryLimit(-1) {
		debug.SetMemoryLimit(limit)
	}
	runtime.SetFinalizer(c, limitByLive)
}
