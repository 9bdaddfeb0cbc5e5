package route

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
	LeftToday int     // of its warm-up, -1: there is none, or it is not known yet
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
		}
	}
	return all
}

// Mode returns what is sent at all.
func (r *Router) Mode() Mode { return r.mode }
