package connlimit

import "sync"

// Shares gives each of many names at most so many bytes of a budget, so that none has all
// of it. It remembers those names alone that have something. Its methods may be called by
// several goroutines at once.
type Shares struct {
	of    *Budget
	bytes int64

	mu    sync.Mutex
	taken map[string]int64 // by name, above 0
}

// Shares returns shares of b, each of so many bytes at most.
func (b *Budget) Shares(bytes int64) *Shares {
	return &Shares{of: b, bytes: bytes, taken: make(map[string]int64)}
}

// Of returns what a name has.
func (s *Shares) Of(name string) *Share { return &Share{s, name} }

// Share is what one name has of a budget.
type Share struct {
	all  *Shares
	name string
}

// Take takes n bytes and reports true, or takes none.
func (s *Share) Take(n int) bool {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	taken := s.all.taken[s.name] + int64(n)
	if taken > s.all.bytes || !s.all.of.Take(n) {
		return false
	}
	s.all.taken[s.name] = taken
	return true
}

// Give gives n bytes back.
func (s *Share) Give(n int) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.all.taken[s.name] -= int64(n); s.all.taken[s.name] <= 0 {
		delete(s.all.taken, s.name)
	}
	s.all.of.Give(n)
}
