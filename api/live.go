package api

import (
	"encoding/json"
	"net/http"
	"time"

	"sluice/lib/key"
)

const livePath = overviewPath + "/stream"

// Bounds of streams of the overview.
const (
	maxLives  = 64 // of a process, half of them of one account; a browser has one, however many tabs it has
	liveEvery = time.Second
)

// live is GET /v1/overview/stream: the overview as Server-Sent Events, once a second, or
// when a look ends that takes longer. All streams share a look (lastOverview). Whether the
// caller still may is asked as often, of a memory that is 4 seconds old at most.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	done, err := s.openLive(w, r)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	defer done()
	ctx, cancel, write := s.serverSent(w, r)
	defer cancel()
	if write([]byte("retry: 1000\n\n")) != nil || r.Method == http.MethodHead {
		return
	}
	every := time.NewTicker(liveEvery)
	defer every.Stop()
	for {
		text, err := json.Marshal(s.lastOverview())
		if err != nil {
			s.log.Error("write the overview", "id", idOf(w), "error", err)
			return
		}
		if write(append(append([]byte("data: "), text...), "\n\n"...)) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if _, err := s.allowed(w, r, key.StatusRead); err != nil {
			return
		}
	}
}

// openLive lets a request through the gate. done ends what it counts for.
func (s *Server) openLive(w http.ResponseWriter, r *http.Request) (done func(), err error) {
	who, err := s.admitted(w, r, key.StatusRead)
	if err != nil {
		return nil, err
	}
	s.rates.spend(who, 1)
	if _, err := readQuery(r, nil); err != nil {
		return nil, err
	}
	if done, err = s.lives.take(who.ID, "streams of the overview are open"); err != nil {
		w.Header().Set("Retry-After", "5")
	}
	return done, err
}
