package spool

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/lib/meter"
	"sluice/mail"
)

// Stats is what a process has seen of its sends. The zero value is ready.
type Stats struct {
	Health flowHealth

	looks, lost atomic.Int64

	mu     sync.Mutex
	began  time.Time
	routes map[string]*routeStats // as many as there are transports
}

// flowHealth is told how the sessions fare (flow.Health).
type flowHealth interface {
	Fine(follower string)
	Lasts(follower string, began time.Time)
	Failed(follower string, err error, at time.Time)
}

// Fine passes on that a session is well.
func (s *Stats) Fine(follower string) {
	if s.Health != nil {
		s.Health.Fine(follower)
	}
}

// Lasts passes on that a session has run for a while.
func (s *Stats) Lasts(follower string, began time.Time) {
	if s.Health != nil {
		s.Health.Lasts(follower, began)
	}
}

// Failed passes on that a session has failed.
func (s *Stats) Failed(follower string, err error, at time.Time) {
	if s.Health != nil {
		s.Health.Failed(follower, err, at)
	}
}

// Lost returns how many sends were found in doubt because they waited in the ledger
// and in no lane (lost.go).
func (s *Stats) Lost() int64 { return s.lost.Load() }

// Of the last minute there are slices, the oldest of which is forgotten as a
// whole: "the last minute" is 55 to 60 seconds.
const (
	sliceSeconds = 5
	slices60     = 60 / sliceSeconds
)

// routeStats is what is known of a route: how its attempts ended, and where the
// time of each went. Each attempt is counted once, in its slice; what leaves the
// ring of slices is added to past.
type routeStats struct {
	results map[mail.ResultKind]int64
	past    stageTimes
	ring    [slices60 + 1]struct {
		number int64 // of the slice, since 1970
		stageTimes
	}
}

// stageTimes is where the time of some attempts went.
type stageTimes struct {
	mails  int64
	stages [mail.Stages]meter.Waits
}

func (t *stageTimes) add(other *stageTimes) {
	t.mails += other.mails
	for i := range t.stages {
		t.stages[i].Add(&other.stages[i])
	}
}

// at is the slice of a moment.
func (r *routeStats) at(now time.Time) *stageTimes {
	number := now.Unix() / sliceSeconds
	s := &r.ring[number%int64(len(r.ring))]
	if s.number != number {
		r.past.add(&s.stageTimes)
		s.number, s.stageTimes = number, stageTimes{}
	}
	return &s.stageTimes
}

// begin notes since when attempts are counted.
func (s *Stats) begin(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = now
}

// recorded counts the attempts of a batch that is recorded.
func (s *Stats) recorded(batch []finished, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range batch {
		f := &batch[i]
		if f.kind == 0 || f.waits {
			continue // no attempt
		}
		r := s.routes[f.route]
		if r == nil {
			if s.routes == nil {
				s.routes = make(map[string]*routeStats)
			}
			r = &routeStats{results: make(map[mail.ResultKind]int64)}
			s.routes[f.route] = r
		}
		r.results[f.kind]++
		t := r.at(now)
		t.mails++
		for stage := range f.item.took {
			t.stages[stage].Observe(f.item.took[stage])
		}
	}
}

// Results returns how attempts by a route ended so far.
func (s *Stats) Results(route string) map[mail.ResultKind]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.routes[route]; r != nil {
		return maps.Clone(r.results)
	}
	return nil
}

// RouteProfile is what was counted of a route.
type RouteProfile struct {
	Route   string
	Results map[mail.ResultKind]int64
	All     StageProfile // since the program began
	Recent  StageProfile // in the last minute
}

// StageProfile is where the time of the attempts of a while went, summed over
// them.
type StageProfile struct {
	Seconds float64 // how long the while is
	Mails   int64   // attempts whose result was recorded in it
	Stages  [mail.Stages]meter.Snapshot
}

// Routes returns what was counted so far, in the order of the names.
func (s *Stats) Routes(now time.Time) []RouteProfile {
	s.mu.Lock()
	defer s.mu.Unlock()
	this := now.Unix() / sliceSeconds
	lasted := max(0, now.Sub(s.began).Seconds())
	minute := min(lasted, now.Sub(time.Unix((this-slices60+1)*sliceSeconds, 0)).Seconds())
	var all []RouteProfile
	for _, name := range slices.Sorted(maps.Keys(s.routes)) {
		r := s.routes[name]
		whole, recent := r.past, stageTimes{}
		for i := range r.ring {
			slice := &r.ring[i]
			whole.add(&slice.stageTimes)
			if slice.number > this-slices60 && slice.number <= this {
				recent.add(&slice.stageTimes)
			}
		}
		all = append(all, RouteProfile{Route: name, Results: maps.Clone(r.results), All: whole.profile(lasted), Recent: recent.profile(minute)})
	}
	return all
}

func (t *stageTimes) profile(seconds float64) StageProfile {
	p := StageProfile{Seconds: seconds, Mails: t.mails}
	for i := range t.stages {
		p.Stages[i] = t.stages[i].Snapshot()
	}
	return p
}

// Shares returns the parts of the stages in the time of all, in percent, and
// without the lane. The time that mail spends in a lane says how much there is,
// not how fast it leaves. Either adds up to 100, or is 0 if there was nothing.
func (p *StageProfile) Shares() (all, attempt [mail.Stages]float64) {
	sum := 0.0
	for i := range p.Stages {
		sum += p.Stages[i].Sum
	}
	without := sum - p.Stages[mail.StageLane].Sum
	for i := range p.Stages {
		if sum > 0 {
			all[i] = 100 * p.Stages[i].Sum / sum
		}
		if without > 0 && mail.Stage(i) != mail.StageLane {
			attempt[i] = 100 * p.Stages[i].Sum / without
		}
	}
	return all, attempt
}
