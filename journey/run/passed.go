package run

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/store"
)

const (
	// passedEvery is how often is looked how far facts were read.
	passedEvery = 10 * time.Second

	// factsKept is how long facts stay that were read and are in a checkpoint: a Redis and
	// a database that go back together by less have them again.
	factsKept = 10 * time.Minute
)

// Passed knows up to where the checkpoints of all partitions have the facts, so that the
// store can delete them: those behind it are applied again if Redis is lost. What it says
// may be old, and then some facts stay longer.
type Passed struct {
	Store store.CheckpointStore
	Clock sluice.Clock
	Log   *slog.Logger

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
			if err := x.look(fetch); err != nil && fetch.Err() == nil {
				x.Log.Warn("it could not be looked which facts of journeys may go; they stay for now", "error", err)
			}
		case <-fetch.Done():
			return
		}
	}
}

// look reads the checkpoints. Of a partition without one, nothing goes.
func (x *Passed) look(ctx context.Context) error {
	all, err := x.Store.Checkpoints(ctx)
	if err != nil {
		return err
	}
	at := make(map[int]sluice.Place)
	for i := range all {
		c := &all[i]
		fields := make(map[string]string)
		if c.Notes == "" {
			continue
		}
		if err := json.Unmarshal([]byte(c.Notes), &fields); err != nil {
			return err
		}
		if text := flow.NoteIn(fields, flow.FactsNote); text != "" {
			place, err := parsePlace(c.Partition, text)
			if err != nil {
				return err
			}
			at[c.Partition] = place
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at = at
	return nil
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
