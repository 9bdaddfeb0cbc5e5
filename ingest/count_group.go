package ingest

import (
	"context"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/store"
)

// CountGroup commits the counts of many servers together.
//
// The idea. Twelve servers have hashes of the same hundred names. Drained and
// stored each by itself they cost 1,200 rows a second; summed up before they
// are stored, 100. So each server has its own follower, session and cursor, and
// a failure at one delays no other. Followers with something to commit at the
// same time do it in one transaction. Drains begin at full seconds (package
// flow), so they nearly always share one.
//
// The first follower that comes leads the round. It waits a moment for the
// others, or until all are there, then commits for all. While one transaction
// runs, the next round fills.
type CountGroup struct {
	Store  store.Store
	Leases *flow.Leases
	Stats  *Stats

	mu      sync.Mutex
	members int    // followers in a session
	open    *round // that fills; nil: none

	committing sync.Mutex // held by the leader of the round that is committed
}

// countWait is how long a round waits for absent followers.
const countWait = 50 * time.Millisecond

// round is what is committed together.
type round struct {
	units []*countUnit
	all   chan struct{} // closed when every member is there
	once  sync.Once
	done  chan struct{} // closed when err says how it ended
	err   error
}

func (g *CountGroup) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members++
}

func (g *CountGroup) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members--
}

// apply commits a unit, with those of others. Each follower has one at a time.
func (g *CountGroup) apply(ctx context.Context, u *countUnit) error {
	g.mu.Lock()
	r := g.open
	leads := r == nil
	if leads {
		r = &round{all: make(chan struct{}), done: make(chan struct{})}
		g.open = r
	}
	r.units = append(r.units, u)
	if len(r.units) == g.members {
		r.once.Do(func() { close(r.all) }) // members come and go
	}
	g.mu.Unlock()
	if !leads {
		select {
		case <-r.done:
			return r.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-r.all:
	case <-time.After(countWait):
	case <-ctx.Done():
	}
	g.committing.Lock()
	defer g.committing.Unlock()
	g.mu.Lock()
	g.open = nil
	g.mu.Unlock()
	r.err = g.commit(ctx, r.units)
	close(r.done)
	return r.err
}

// commit carries out one transaction.
func (g *CountGroup) commit(ctx context.Context, units []*countUnit) error {
	effect := &store.Effect{Stripe: g.stripe()}
	total := make(sums)
	for _, u := range units {
		effect.Moves = append(effect.Moves, u.move)
		effect.Dead = append(effect.Dead, u.dead...)
		for key, n := range u.counts {
			total.add(sluice.Count{Kind: sluice.KindCounter, TimeMillis: key.hour, By: n, App: key.app, Name: key.name})
		}
	}
	for key, n := range total {
		if n != 0 {
			effect.Counts = append(effect.Counts, sluice.Count{Kind: sluice.KindCounter, TimeMillis: key.hour, By: n, App: key.app, Name: key.name})
		}
	}
	prepared, err := prepare(g.Store, g.Stats, effect)
	if err != nil {
		return err
	}
	if _, err := apply(ctx, g.Store, g.Stats, units[0].move.Follower, prepared); err != nil {
		return err
	}
	for _, u := range units[1:] {
		g.Stats.Fine(u.move.Follower)
	}
	return nil
}

// stripe is the lowest place that this process holds: no other process has it.
func (g *CountGroup) stripe() int {
	held, _ := g.Leases.Held(ListRole)
	lowest := -1
	for place := range held {
		if lowest < 0 || place < lowest {
			lowest = place
		}
	}
	return max(0, lowest)
}

// sums are counts by what they count.
type sums map[sumKey]int64

type sumKey struct {
	app, name string
	hour      int64 // milliseconds
}

// add adds a count. No sum overflows: maxFieldCount.
func (s sums) add(c sluice.Count) { s[sumKey{c.App, c.Name, c.TimeMillis}] += c.By }
