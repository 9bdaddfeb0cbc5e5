package feed

import (
	"context"
	"sync"
	"time"

	"sluice"
	"sluice/store"
)

// Every is how often a reader that has read all looks for more.
const Every = 250 * time.Millisecond

// Heads is how far the logs are stored, read once for all who ask within Every: however
// many readers there are, the database is asked four times a second.
type Heads struct {
	Store    store.FeedStore
	Follower string // that stores the logs
	Clock    sluice.Clock
	Streams  Stats // of the streams that ask

	mu   sync.Mutex
	read time.Time
	all  map[int]sluice.Position
}

// Get returns it, by partition. The map must not be changed.
func (h *Heads) Get(ctx context.Context) (map[int]sluice.Position, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Clock.Now()
	if age := now.Sub(h.read); h.all != nil && age >= 0 && age < Every {
		return h.all, nil
	}
	all, err := h.Store.FeedHeads(ctx, h.Follower)
	if err == nil {
		h.all, h.read = all, now
	}
	return all, err
}
