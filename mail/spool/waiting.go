package spool

import (
	"context"
	"strings"
	"time"

	"sluice/flow"
	"sluice/mail"
)

// Waiting is what is pending in the lanes of the partitions that a process sends.
type Waiting struct {
	Sends  map[mail.Priority]int64     // those under way among them
	Later  int64                       // for a time
	Oldest map[mail.Priority]time.Time // since when the oldest waits that nobody has taken
}

// priorityOf is the priority of a lane or a sublane.
func priorityOf(lane string) mail.Priority {
	main, _, _ := strings.Cut(lane, "@")
	for p := mail.PriorityHigh; p <= mail.PriorityLow; p++ {
		if main == flow.LaneName(p, mail.ClassTransactional) || main == flow.LaneName(p, mail.ClassMarketing) {
			return p
		}
	}
	return 0
}

// Waiting returns what is pending. The oldest are known in memory: the head of each lane
// always is. An error leaves the numbers open.
func (s *Sender) Waiting(ctx context.Context) (Waiting, error) {
	w := Waiting{Sends: make(map[mail.Priority]int64), Oldest: make(map[mail.Priority]time.Time)}
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
