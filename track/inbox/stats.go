package inbox

import (
	"maps"
	"sync"
)

// What became of mails, beside the names of events.
const (
	resultIgnored  = "ignored"  // it names nothing of ours, or somebody who was erased, or is beyond a bound
	resultRepeated = "repeated" // it is in the ledger already
)

// Stats counts. Its methods may be called by several goroutines at once.
type Stats struct {
	mu      sync.Mutex
	results map[string]int64 // bounded: names of events and the results above
}

func (s *Stats) count(result string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.results == nil {
		s.results = make(map[string]int64)
	}
	s.results[result]++
}

// Results returns how many mails came to what: an event's name, ignored, repeated.
func (s *Stats) Results() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.results)
}
