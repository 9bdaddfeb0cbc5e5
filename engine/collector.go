package engine

import (
	"os"
	"runtime/debug"
)

// What the program holds is small and short-lived, so the collector would run
// a hundred times a second under load, for a fifth of the time that is not the
// database's. It runs seldom instead, until the heap is large. GOGC and
// GOMEMLIMIT win.
const (
	collectAtPercent = 400
	heapLimitBytes   = 160 << 20
)

// TuneCollector sets the collector of garbage for a process that is an engine.
func TuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAtPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapLimitBytes)
	}
}
