package ingest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice"
	"sluice/flow"
)

// Failure is how often a follower's sessions have failed in a row.
type Failure struct {
	Times       int
	Err         error // the last
	Since, Last time.Time
}

// When a follower counts as failing: one failure, or two, is what a restart of
// Redis or of the database looks like.
const (
	failingTimes  = 3
	failingWithin = 20 * time.Second // several times the longest pause between two sessions
)

var _ flow.Health = (*Stats)(nil)

// Fine implements flow.Health. It is also called when a unit was applied.
func (s *Stats) Fine(follower string) { s.setFailure(follower, func(f *Failure) { *f = Failure{} }) }

// Failed implements flow.Health.
func (s *Stats) Failed(follower string, err error, at time.Time) {
	s.setFailure(follower, func(f *Failure) {
		if f.Times == 0 {
			f.Since = at
		}
		f.Times, f.Err, f.Last = f.Times+1, err, at
	})
}

func (s *Stats) setFailure(follower string, change func(*Failure)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures == nil {
		s.failures = make(map[string]Failure)
	}
	f := s.failures[follower]
	change(&f)
	s.failures[follower] = f
}

// setStanding notes the partitions that stand still at a gap, and no others.
func (s *Stats) setStanding(standing map[int]error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standing = standing
}

// Followers returns, for each follower of this process, nil or why it does not
// get on: it has failed several times in a row until just now, or (at once)
// stands still at a gap, wholly or in some of its partitions.
func (s *Stats) Followers(now time.Time) map[string]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]error, len(s.failures))
	for name, f := range s.failures {
		all[name] = nil
		gap := errors.Is(f.Err, sluice.ErrGap)
		if (f.Times >= failingTimes || gap) && now.Sub(f.Last) <= failingWithin {
			all[name] = fmt.Errorf("%w (%d times in a row, since %s)", f.Err, f.Times, f.Since.UTC().Format(time.RFC3339))
		}
	}
	for _, p := range slices.Sorted(maps.Keys(s.standing)) {
		all[StoreRole] = errors.Join(all[StoreRole], fmt.Errorf("partition %d stands still: %w", p, s.standing[p]))
	}
	return all
}
