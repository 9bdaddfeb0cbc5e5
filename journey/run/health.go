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
	failing map[int]bool // by partition
}

// partHealth is that of one partition.
type partHealth struct {
	*health
	partition int
}

// Fine implements flow.Health.
func (h partHealth) Fine(string) {
	h.mu.Lock()
	delete(h.failing, h.partition)
	all := len(h.failing) == 0
	h.mu.Unlock()
	if all {
		h.of.Fine(Role)
	}
}

// Failed implements flow.Health.
func (h partHealth) Failed(_ string, err error, at time.Time) {
	h.mu.Lock()
	h.failing[h.partition] = true
	h.mu.Unlock()
	h.of.Failed(Role, fmt.Errorf("partition %d: %w", h.partition, err), at)
}
