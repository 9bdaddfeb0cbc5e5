package route

import "fmt"

// Snapshot is how a route stands.
type Snapshot struct {
	Name      string
	Breaker   string  // closed, open, half-open; of a direct route those of its domains count in Paused
	Opened    int64   // how often breakers of it have opened
	Stopped   bool    // by an operator
	Paused    int     // domains of it that nothing goes to now
	Taken     int64   // mails that were let through
	Throttled int64   // answers that wanted fewer
	Share     float64 // of its pace, as the other side has let it be; 1 without a pace
	Why       Down    // it does not work; empty while it does
	Failing   int     // domains of a direct route to which it does not work; Why is of one of them
	LeftToday int     // of its warm-up, -1: there is none, or it is not known yet

	longest string // the domain that Why is of
}

// Routes returns how routes stand, in the order of the settings, the mailboxes
// last.
func (r *Router) Routes() []Snapshot {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Snapshot, 0, len(r.routes)+1)
	for _, x := range append(append([]*route{}, r.routes...), r.sink) {
		s := Snapshot{Name: x.name, Why: x.why, Stopped: x.stopped, Breaker: x.breaker.state(now), Opened: x.breaker.opened, Taken: x.taken, Throttled: x.throttled, Share: 1, LeftToday: -1}
		if x.bucket != nil {
			s.Share, s.LeftToday = x.bucket.share, x.bucket.left
		}
		all = append(all, s)
	}
	for _, d := range r.domains {
		for i, l := range d.lines {
			if l == nil {
				continue
			}
			all[i].Opened += l.breaker.opened
			if l.wait(now) > 0 {
				all[i].Paused++
			}
			if l.why.Cause != "" {
				all[i].addDirect(d.name, l.why)
			}
		}
	}
	for i := range all {
		if s := &all[i]; s.Failing > 0 {
			s.Why.Text = fmt.Sprintf("%s: %s", s.longest, s.Why.Text)
			if s.Failing > 1 {
				s.Why.Text += fmt.Sprintf("; domains that it does not reach: %d", s.Failing)
			}
		}
	}
	return all
}
