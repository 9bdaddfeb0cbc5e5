package run

import (
	"context"
	"fmt"
	"sync"

	"sluice"
	"sluice/journey"
	"sluice/journey/env"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/store"
)

// past has the versions of a journey that have ended, as far as somebody asked for them:
// records of people who were inside speak of them still.
type past struct {
	mu    sync.Mutex
	of    env.Versions
	walks map[int]*step.Journey // by version
}

// pastKept bounds the versions that are kept in memory.
const pastKept = 32

// walkOf is the version of a record, for looking at; nil: it cannot be read.
func (j *plans) walkOf(ctx context.Context, s store.JourneyStore, e plan.Env, r *journey.Record) (*step.Journey, error) {
	if v := j.versions[r.Version]; v != nil && (r.Inside() || j.newest <= store.MaxVersionsInUse) {
		return v.walk, nil
	}
	p := &j.past
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of.Store, p.of.Journey, p.of.Newest = s, j.number, j.newest
	number, err := p.of.Number(ctx, r)
	if walk := p.walks[number]; err == nil && walk != nil {
		return walk, nil
	}
	var v store.JourneyVersion
	if err == nil {
		v, err = s.JourneyVersion(ctx, j.number, number)
	}
	if sluice.IsNotFound(err) { // the database has gone back
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, compiled, err := plan.LoadVersion(v.Document, e)
	if err != nil && !lasting(err) {
		return nil, fmt.Errorf("read version %d of journey %s, which has ended: %w", v.Version, j.id, err)
	}
	if err != nil {
		return nil, nil
	}
	walk, err := step.New(compiled)
	if err != nil {
		return nil, nil
	}
	if p.walks == nil || len(p.walks) >= pastKept {
		p.walks = make(map[int]*step.Journey)
	}
	p.walks[number] = walk
	return walk, nil
}
