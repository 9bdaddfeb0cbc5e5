package run

import (
	"fmt"
	"sync"
	"time"

	"sluice/flow"
)

// health tells how all partitions of a session fare, as one follower: it is fine when
// none of them has failed since it was fine last.
type health struct {
	of flow.Health

	mu      sync.Mutex
	failing map[int]time.Time // by partition: when it failed last
}

// partHealth is that of one partition.
type partHealth struct {
	*health
	partition int
}

// Fine implements flow.Health.
func (h partHealth) Fine(string) {
	if h.well(time.Time{}) {
		h.of.Fine(Role)
	}
}

// Lasts implements flow.Health. A failure of since the session began is its own.
func (h partHealth) Lasts(_ string, began time.Time) {
	if h.well(began) {
		h.of.Lasts(Role, began)
	}
}

// well notes that a partition is fine, unless it has failed since a time (zero: whenever
// that was), and reports whether all are.
func (h partHealth) well(since time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since.IsZero() || h.failing[h.partition].Before(since) {
		delete(h.failing, h.partition)
	}
	return len(h.failing) == 0
}

// Failed implements flow.Health.
func (h partHealth) Failed(_ string, err error, at time.Time) {
	h.mu.Lock()
	h.failing[h.partition] = at
	h.mu.Unlock()
	h.of.Failed(Role, fmt.Errorf("partition %d: %w", h.partition, err), at)
}
