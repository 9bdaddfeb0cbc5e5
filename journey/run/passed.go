package run

import (
	"context"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
)

const (
	// passedEvery is how often is looked how far facts were read.
	passedEvery = 10 * time.Second

	// factsKept is how long facts stay that were read: a Redis that goes back by less
	// has them again.
	factsKept = 10 * time.Minute
)

// Passed knows up to where journeys have read the facts of all partitions, so that the
// store can delete them. What it says may be old, and then some facts stay longer.
type Passed struct {
	Logs  []*flow.Log // by partition
	Clock sluice.Clock

	mu sync.Mutex
	at map[int]sluice.Place
}

// Run looks from time to time until fetch ends.
func (x *Passed) Run(fetch, _ context.Context) {
	ticker := time.NewTicker(passedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			x.look(fetch)
		case <-fetch.Done():
			return
		}
	}
}

// look reads the notes of all partitions. Of one that cannot be read, nothing goes.
func (x *Passed) look(ctx context.Context) {
	at := make(map[int]sluice.Place)
	for _, l := range x.Logs {
		if text, err := l.NoteOf(ctx, flow.FactsNote); err == nil && text != "" {
			if place, err := parsePlace(l.Partition(), text); err == nil {
				at[l.Partition()] = place
			}
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at = at
}

// UpTo returns up to which place the facts of a partition may go; false: none may.
func (x *Passed) UpTo(partition int) (sluice.Place, bool) {
	x.mu.Lock()
	at, ok := x.at[partition]
	x.mu.Unlock()
	kept := uint64(max(x.Clock.Now().Add(-factsKept).UnixMilli(), 0))
	if at.Position.Major >= kept {
		at.Position, at.Index = sluice.Position{Major: kept}, 0
	}
	return at, ok && at.Position.Major > 0
}
