package api

import (
	"sync"

	"sluice"
)

// seats are places that one request may have for hours, as a stream has. A key or account
// has half of them at most: with all of them it would shut the others out.
type seats struct {
	most int

	mu    sync.Mutex
	taken int
	by    map[string]int // how many, by the id of a key or account; only those that have some
}

func newSeats(most int) *seats { return &seats{most: most, by: make(map[string]int)} }

// take takes a seat for a caller if there is one. what is done on those that are taken is
// told if there is none; done gives it back, once.
func (s *seats) take(who, what string) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taken == s.most:
		return nil, refusal(sluice.CodeUnavailable, "%d %s, and no more are at a time; ask again", s.most, what)
	case s.by[who] == s.most/2:
		return nil, refusal(sluice.CodeUnavailable, "%d %s of this key or account, and it has no more at a time; ask again", s.most/2, what)
	}
	s.taken++
	s.by[who]++
	return func() { s.leave(who) }, nil
}

func (s *seats) leave(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.by[who]--; s.by[who] == 0 {
		delete(s.by, who)
	}
}
