package spool

import (
	"context"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
)

// Waiting is what is pending in the lanes of the partitions that a process sends.
type Waiting struct {
	Sends  map[sluice.Priority]int64     // those under way among them
	Later  int64                         // for a time
	Oldest map[sluice.Priority]time.Time // since when the oldest waits that nobody has taken
}

// priorityOf is the priority of a lane or a sublane.
func priorityOf(lane string) sluice.Priority {
	main, _, _ := strings.Cut(lane, "@")
	for p := sluice.PriorityHigh; p <= sluice.PriorityLow; p++ {
		if main == flow.LaneName(p, sluice.ClassTransactional) || main == flow.LaneName(p, sluice.ClassMarketing) {
			return p
		}
	}
	return 0
}

// Waiting returns what is pending. The oldest are known in memory: the head of each lane
// always is. An error leaves the numbers open.
func (s *Sender) Waiting(ctx context.Context) (Waiting, error) {
	w := Waiting{Sends: make(map[sluice.Priority]int64), Oldest: make(map[sluice.Priority]time.Time)}
	var lanes []*flow.Lanes
	for _, p := range s.held() {
		lanes = append(lanes, p.lanes)
		p.mu.Lock()
		for name, q := range p.queues {
			if len(q.items) == 0 {
				continue
			}
			priority, ready := priorityOf(name), q.items[0].ready
			if oldest, ok := w.Oldest[priority]; !ok || ready.Before(oldest) {
				w.Oldest[priority] = ready
			}
		}
		p.mu.Unlock()
	}
	counts, err := flow.WaitingIn(ctx, lanes)
	for lane, n := range counts {
		if lane == flow.LaterName {
			w.Later += n
		} else {
			w.Sends[priorityOf(lane)] += n
		}
	}
	return w, err
}
