package route

import (
	"context"
	"fmt"

	"sluice/mail"
)

// stops is what an operator has stopped, as a Router asks for it at each mail.
type stops struct {
	names      map[string]string // all, with their notes
	all        bool
	classes    [3]bool
	priorities [4]bool
	tags       []mail.Selector
	messages   map[string]bool
	byMessage  []mail.Selector   // those of a class alone
	halted     [3]uint64         // routes that take no mail of a class, a bit each
	paused     map[string]string // journeys, with the sublanes of their mail
}

// newStops reads what is stopped. A name that this program does not know is of a
// newer one, which heeds it.
func newStops(names map[string]string, routes []*route, sink *route) *stops {
	s := &stops{names: names, messages: make(map[string]bool)}
	stopped := make(map[string]bool)
	for name := range names {
		sel, ok := mail.ParseSelector(name)
		if !ok {
			continue
		}
		switch sel.By {
		case mail.SelectAll:
			s.all = true
		case mail.SelectClass:
			c, _ := mail.ParseClass(sel.Value)
			s.classes[c] = true
		case mail.SelectPriority:
			p, _ := mail.ParsePriority(sel.Value)
			s.priorities[p] = true
		case mail.SelectTag:
			s.tags = append(s.tags, sel)
		case mail.SelectMessage:
			if sel.Class != 0 {
				s.byMessage = append(s.byMessage, sel)
			} else {
				s.messages[sel.Value] = true
			}
		case mail.SelectRoute:
			if sel.Class == 0 {
				stopped[sel.Value] = true
			}
			s.halt(sel, routes)
		}
	}
	for _, x := range routes {
		x.stopped = stopped[x.name]
	}
	sink.stopped = stopped[sink.name]
	return s
}

// halt notes that a route takes no mail of one class. The sink is no such route.
func (s *stops) halt(sel mail.Selector, routes []*route) {
	for _, x := range routes {
		if sel.Class != 0 && x.name == sel.Value {
			s.halted[sel.Class] |= 1 << x.place
		}
	}
}

// haltedFor returns the routes that take no mail of a class, a bit each.
func (s *stops) haltedFor(c mail.Class) uint64 { return s.halted[min(int(c), len(s.halted)-1)] }

// lane reports whether the whole lane that a mail is in is stopped.
func (s *stops) lane(m *mail.Send) bool {
	return s.all || int(m.Class) < len(s.classes) && s.classes[m.Class] || int(m.Priority) < len(s.priorities) && s.priorities[m.Priority]
}

// apart returns the sublane in which a mail waits that is stopped, and others of
// its lane are not; empty: it is not stopped.
func (s *stops) apart(m *mail.Send) string {
	for _, tag := range s.tags {
		if (tag.Class == 0 || tag.Class == m.Class) && mail.HasTag(m.Tags, tag.Value) {
			return tag.Name()
		}
	}
	for _, of := range s.byMessage {
		if of.Class == m.Class && of.Value == m.Message {
			return of.Name()
		}
	}
	if m.Journey != "" && s.paused[m.Journey] != "" {
		return s.paused[m.Journey]
	}
	if len(s.messages) > 0 && s.messages[m.Message] {
		return mail.Selector{By: mail.SelectMessage, Value: m.Message}.Name()
	}
	return ""
}

// Look reads what is stopped, once; Run calls it again and again.
func (r *Router) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	r.mu.Lock()
	before := r.stops
	r.mu.Unlock()
	names, err := r.readStops(ctx, before)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.stops = newStops(names, r.routes, r.sink)
	if before != nil {
		r.stops.paused = before.paused
	}
	r.mu.Unlock()
	return r.lookAtJourneys(ctx)
}

// lookAtJourneys reads which journeys are paused. Their mail waits in sublanes, so that
// it keeps no other waiting; Sender asks about each mail anyway before it leaves.
func (r *Router) lookAtJourneys(ctx context.Context) error {
	if r.paused == nil {
		return nil
	}
	journeys, err := r.paused(ctx)
	if err != nil {
		return fmt.Errorf("look which journeys are paused: %w", err)
	}
	paused := make(map[string]string, len(journeys))
	for _, id := range journeys {
		paused[id] = mail.PausedLane + id
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stops.paused = paused
	return nil
}

// ClassStopped reports whether all mail of a class is stopped: by its name, with all
// mail, or with all priorities.
func (r *Router) ClassStopped(c mail.Class) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stops
	return s != nil && (s.all || s.classes[c] || s.priorities[mail.PriorityHigh] && s.priorities[mail.PriorityNormal] && s.priorities[mail.PriorityLow])
}

// Holds reports whether a mail that is on its way by a transport is stopped by now, or the
// transport is: by what Takes would not give it. It takes no longer than that.
func (r *Router) Holds(t mail.Transport, s *mail.Send) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.byTransport(t)
	if x == nil || r.mode == Off || r.stops == nil || x.stopped || r.stops.lane(s) || r.stops.apart(s) != "" {
		return true
	}
	return x != r.sink && r.stops.haltedFor(s.Class)&(1<<x.place) != 0
}

// Stopped returns what is stopped, by the names of selectors, with what was said
// of it.
func (r *Router) Stopped() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stops == nil {
		return nil
	}
	return r.stops.names
}
