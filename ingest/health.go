package ingest

import (
	"cmp"
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

	// stuckWithin is it for single partitions: a session ends with the first of them
	// that fails, so each of several fails in some sessions only.
	stuckWithin = 5 * time.Minute

	// maxToldStuck is how many of them are named.
	maxToldStuck = 4
)

var _ flow.Health = (*Stats)(nil)

// Fine implements flow.Health. It is also called when a unit was applied.
func (s *Stats) Fine(follower string) { s.setFailure(follower, func(f *Failure) { *f = Failure{} }) }

// Lasts implements flow.Health. A failure of since the session began is its own.
func (s *Stats) Lasts(follower string, began time.Time) {
	s.setFailure(follower, func(f *Failure) {
		if f.Last.Before(began) {
			*f = Failure{}
		}
	})
}

// Forget removes a follower that has got another name, or ended.
func (s *Stats) Forget(follower string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failures, follower)
}

// Failed implements flow.Health. A failure with one partition stays until that
// partition gets on: that others do says nothing about it.
func (s *Stats) Failed(follower string, err error, at time.Time) {
	s.setFailure(follower, func(f *Failure) { f.again(err, at) })
	if stuck, ok := errors.AsType[*flow.PartitionError](err); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stuck == nil {
			s.stuck = make(map[LagKey]Failure)
		}
		place := LagKey{follower, stuck.Partition}
		f := s.stuck[place]
		f.again(err, at)
		s.stuck[place] = f
	}
}

func (f *Failure) again(err error, at time.Time) {
	if f.Times == 0 {
		f.Since = at
	}
	f.Times, f.Err, f.Last = f.Times+1, err, at
}

// holds forgets what was wrong with partitions that this process does not hold any
// more.
func (s *Stats) holds(follower string, held map[int]*flow.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.stuck, func(place LagKey, _ Failure) bool { return place.Follower == follower && held[place.Partition] == nil })
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

// setStanding notes the partitions of a writer that stand still at a gap, and no others.
func (s *Stats) setStanding(writer string, standing map[int]error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.standing == nil {
		s.standing = make(map[string]map[int]error)
	}
	s.standing[writer] = standing
}

func (f *Failure) text() error {
	return fmt.Errorf("%w (%d times in a row, since %s)", f.Err, f.Times, f.Since.UTC().Format(time.RFC3339))
}

func compareLagKeys(a, b LagKey) int {
	return cmp.Or(cmp.Compare(a.Follower, b.Follower), cmp.Compare(a.Partition, b.Partition))
}

// Followers returns, for each follower of this process, nil or why it makes no
// progress. An error means that it has failed several times in a row until just
// now, or has stopped at a gap in at least one of its partitions. A gap is
// reported at once. A single partition that has failed several times in a row
// without progress counts, whatever the others do.
func (s *Stats) Followers(now time.Time) map[string]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]error, len(s.failures))
	for name, f := range s.failures {
		all[name] = nil
		gap := errors.Is(f.Err, sluice.ErrGap)
		if (f.Times >= failingTimes || gap) && now.Sub(f.Last) <= failingWithin {
			all[name] = f.text()
		}
	}
	told := make(map[string]int)
	for _, place := range slices.SortedFunc(maps.Keys(s.stuck), compareLagKeys) {
		f := s.stuck[place]
		if f.Times < failingTimes || now.Sub(f.Last) > stuckWithin || told[place.Follower] >= maxToldStuck {
			continue
		}
		if told[place.Follower]++; told[place.Follower] == 1 {
			all[place.Follower] = nil // it is one of these
		}
		all[place.Follower] = errors.Join(all[place.Follower], fmt.Errorf("partition %d stands still: %w", place.Partition, f.text()))
	}
	for writer, standing := range s.standing {
		for _, p := range slices.Sorted(maps.Keys(standing)) {
			all[writer] = errors.Join(all[writer], fmt.Errorf("partition %d stands still: %w", p, standing[p]))
		}
	}
	return all
}
