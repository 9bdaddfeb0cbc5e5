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

// Passed reads the checkpoints of all partitions from time to time. It knows up to where
// they have the facts, so that the store can delete them: those behind it are applied
// again if Redis is lost. What it says may be old, and then some facts stay longer. And it
// ends versions of journeys that nobody is inside (occupied).
type Passed struct {
	Store store.CheckpointStore
	Clock sluice.Clock
	Log   *slog.Logger

	Journeys   store.JourneyStore // nil: no version ends
	Partitions int

	since map[versionKey]time.Time // since when nobody has been inside

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
			left, err := x.look(fetch)
			what := "it could not be looked which facts of journeys may go; they stay for now"
			if err == nil {
				err, what = x.end(fetch, left), "versions of journeys that nobody is inside could not be ended, trying again"
			}
			if err != nil && fetch.Err() == nil {
				x.Log.Warn(what, "error", err)
			}
		case <-fetch.Done():
			return
		}
	}
}

// look reads the checkpoints, and returns which versions nobody is inside, by partition.
// Of a partition without a checkpoint, nothing goes.
func (x *Passed) look(ctx context.Context) (left []map[int64][]int, err error) {
	all, err := x.Store.Checkpoints(ctx)
	if err != nil {
		return nil, err
	}
	at := make(map[int]sluice.Place)
	for i := range all {
		c := &all[i]
		fields := make(map[string]string)
		if c.Notes == "" {
			continue
		}
		if err := json.Unmarshal([]byte(c.Notes), &fields); err != nil {
			return nil, err
		}
		of, err := readLeft(flow.NoteIn(fields, leftNote))
		if err != nil {
			return nil, err
		}
		left = append(left, of)
		if text := flow.NoteIn(fields, flow.FactsNote); text != "" {
			place, err := parsePlace(c.Partition, text)
			if err != nil {
				return nil, err
			}
			at[c.Partition] = place
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at = at
	return left, nil
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
