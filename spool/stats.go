package spool

import (
	"sync"
	"time"

	"sluice"
	"sluice/meter"
)

// Stats is what a process has seen of its sends. The zero value is ready.
type Stats struct {
	Health flowHealth

	mu     sync.Mutex
	routes map[string]*RouteStats
}

// flowHealth is told how the sessions fare (flow.Health).
type flowHealth interface {
	Fine(follower string)
	Failed(follower string, err error, at time.Time)
}

// Fine passes on that a session is well.
func (s *Stats) Fine(follower string) {
	if s.Health != nil {
		s.Health.Fine(follower)
	}
}

// Failed passes on that a session has failed.
func (s *Stats) Failed(follower string, err error, at time.Time) {
	if s.Health != nil {
		s.Health.Failed(follower, err, at)
	}
}

// RouteStats is what is known of a route: how its attempts ended, and where the
// time of each went.
type RouteStats struct {
	Results map[sluice.ResultKind]int64
	Stages  [sluice.Stages]meter.Seconds
}

// recorded counts a send that is recorded.
func (s *Stats) recorded(f *finished) {
	if f.kind == 0 {
		return // no attempt
	}
	s.mu.Lock()
	r := s.routes[f.route]
	if r == nil {
		if s.routes == nil {
			s.routes = make(map[string]*RouteStats)
		}
		r = &RouteStats{Results: make(map[sluice.ResultKind]int64)}
		s.routes[f.route] = r
	}
	r.Results[f.kind]++
	s.mu.Unlock()
	for stage := range f.item.took {
		r.Stages[stage].Observe(f.item.took[stage])
	}
}

// RouteSnapshot is what RouteStats had counted.
type RouteSnapshot struct {
	Results map[sluice.ResultKind]int64
	Stages  [sluice.Stages]meter.Snapshot
}

// Routes returns what was counted so far, by route.
func (s *Stats) Routes() map[string]RouteSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]RouteSnapshot, len(s.routes))
	for name, r := range s.routes {
		snapshot := RouteSnapshot{Results: make(map[sluice.ResultKind]int64, len(r.Results))}
		for kind, n := range r.Results {
			snapshot.Results[kind] = n
		}
		for stage := range r.Stages {
			snapshot.Stages[stage] = r.Stages[stage].Snapshot()
		}
		all[name] = snapshot
	}
	return all
}
