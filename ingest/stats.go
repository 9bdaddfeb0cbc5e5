package ingest

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
)

// Bounds of what is counted by name: beyond it, names are counted together.
const maxCountedNames = 200

// Stats counts what this process has done since it started. All methods may
// be called from several goroutines at once; the zero Stats is ready.
type Stats struct {
	Accepted   atomic.Int64 // items routed to the logs, rows taken for tables
	Stored     atomic.Int64 // rows committed
	Duplicates atomic.Int64 // items left out because their id was there
	Dead       atomic.Int64 // dead letters committed
	Commits    atomic.Int64 // transactions
	Conflicts  atomic.Int64 // transactions refused by a cursor
	Refused    atomic.Int64 // transactions repeated row by row

	mu       sync.Mutex
	names    map[string]int64
	commits  Histogram
	lags     map[LagKey]Lag
	failures map[string]Failure
	standing map[int]error
}

// LagKey names a follower's place.
type LagKey struct {
	Follower  string
	Partition int
}

// Lag is where a follower's place was after its last commit, and how far behind.
type Lag struct {
	Position sluice.Position
	Seconds  float64

	// Of a list only. While elements of it are held, it is behind by the time
	// since Since: the last commit; after a quiet time, when the first element
	// was read; before both, when this process began to follow.
	Since time.Time

	reading bool            // something was read that is not committed
	taken   sluice.Position // up to where it was read
}

// Histogram counts durations by upper bound.
type Histogram struct {
	Count   uint64
	Sum     float64 // seconds
	Buckets map[float64]uint64
}

// commitBounds are the upper bounds, in seconds, of the commit histogram.
var commitBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}

func (s *Stats) countNames(names map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = make(map[string]int64)
	}
	for name, n := range names {
		if _, ok := s.names[name]; !ok && len(s.names) >= maxCountedNames {
			name = "(others)"
		}
		if _, ok := s.names[name]; !ok {
			name = strings.Clone(name) // it may share the memory of a batch
		}
		s.names[name] += n
	}
}

func (s *Stats) observeCommit(took time.Duration) {
	s.Commits.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.commits.Buckets == nil {
		s.commits.Buckets = make(map[float64]uint64)
	}
	s.commits.Count++
	s.commits.Sum += took.Seconds()
	for _, bound := range commitBounds {
		if took.Seconds() <= bound {
			s.commits.Buckets[bound]++
		}
	}
}

func (s *Stats) setLag(follower string, partition int, position sluice.Position, behind time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lags == nil {
		s.lags = make(map[LagKey]Lag)
	}
	s.lags[LagKey{follower, partition}] = Lag{Position: position, Seconds: max(0, behind.Seconds())}
}

// beginList notes that a list is followed from now on.
func (s *Stats) beginList(follower string, now time.Time) {
	s.changeLag(follower, func(l *Lag) { *l = Lag{Since: now} })
}

// taking notes that a list's follower reads; taken, up to where.
func (s *Stats) taking(follower string, now time.Time) {
	s.changeLag(follower, func(l *Lag) {
		if !l.reading {
			l.reading, l.Since = true, now
		}
	})
}

func (s *Stats) taken(follower string, to sluice.Position) {
	s.changeLag(follower, func(l *Lag) { l.taken = to })
}

// setListLag notes a commit of a list's follower: up to where, and when its
// first element was read.
func (s *Stats) setListLag(follower string, to sluice.Position, taken, now time.Time) {
	s.changeLag(follower, func(l *Lag) {
		l.Position, l.Seconds, l.Since = to, max(0, now.Sub(taken).Seconds()), now
		l.reading = to.Before(l.taken)
	})
}

func (s *Stats) changeLag(follower string, change func(*Lag)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lags == nil {
		s.lags = make(map[LagKey]Lag)
	}
	key := LagKey{Follower: follower}
	lag := s.lags[key]
	change(&lag)
	s.lags[key] = lag
}

// Names returns how many events were stored by name.
func (s *Stats) Names() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.names)
}

// CommitSeconds returns how long transactions took.
func (s *Stats) CommitSeconds() Histogram {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.commits
	h.Buckets = maps.Clone(h.Buckets)
	for _, bound := range commitBounds {
		if h.Buckets == nil {
			h.Buckets = make(map[float64]uint64)
		}
		h.Buckets[bound] += 0
	}
	return h
}

// Lags returns how far each place was behind at its last commit.
func (s *Stats) Lags() map[LagKey]Lag {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.lags)
}
