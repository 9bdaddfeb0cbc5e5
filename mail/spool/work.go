package spool

import (
	"context"
	"strings"
	"time"

	"sluice/flow"
	"sluice/mail"
)

// crew is the workers of a transport.
//
// A worker that has no window waits to be woken. Mail that comes wakes one
// worker of each transport, and one of those for urgent mail. A worker that has taken something and meets a
// mail that another transport will take wakes one worker of each other
// transport. Only what has been taken can have brought that mail to the head of
// its lane, so the wakes come to rest. A transport whose workers are all at
// work, in a relay that hangs perhaps, cannot ask for its mail. Routes is told
// so, and has the workers of other transports move that mail aside. So no head
// of a lane waits for a window of another transport.
type crew struct {
	transport mail.Transport
	all       wake // for all, and for those who take high priority only
	urgent    wake

	// Guarded by Sender.mu: how many workers of all priorities there are, and how
	// many of them are at work.
	workers, working int
	tempo            tempo
}

func newCrew(t mail.Transport) *crew {
	c := &crew{transport: t, all: newWake(), urgent: newWake(), tempo: newTempo(t.Window())}
	for n := range max(1, t.Workers()) {
		if !urgentWorker(n) {
			c.workers++
		}
	}
	return c
}

// urgentOf: of so many workers of a transport one takes high priority only.
const urgentOf = 8

// urgentWorker reports whether a worker takes high priority only, by its number.
func urgentWorker(n int) bool { return n%urgentOf == urgentOf-1 }

// wake wakes one worker that waits for it, or the next that is about to. A worker
// that was woken and leaves something signals again: if all woke for each mail, ten
// workers would look through all queues for it.
type wake chan struct{}

func newWake() wake { return make(wake, 1) }

func (w wake) signal() {
	select {
	case w <- struct{}{}:
	default: // it is signalled already
	}
}

// wake tells workers that there is something to take.
func (s *Sender) wake(urgent bool) {
	for _, c := range s.crews {
		c.wake(urgent)
	}
}

func (c *crew) wake(urgent bool) {
	c.all.signal()
	if urgent {
		c.urgent.signal()
	}
}

// atWork notes that a worker of all priorities has begun, or has ended. It
// tells the routes when that worker was the last free one, or is the first.
func (s *Sender) atWork(c *crew, begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begins {
		if c.working++; c.working == c.workers {
			s.Routes.Busy(c.transport, true, s.Clock.Now())
		}
		return
	}
	if c.working--; c.working == c.workers-1 {
		s.Routes.Busy(c.transport, false, s.Clock.Now())
	}
}

// work is one worker of a transport.
func (s *Sender) work(fetch, work context.Context, c *crew, urgent bool) {
	news := c.all
	if urgent {
		news = c.urgent
	}
	for fetch.Err() == nil {
		w := s.window(c, urgent)
		some := len(w.items)+len(w.aside) > 0
		if some && (w.more || w.wait > 0) {
			news.signal() // this one will be busy: another worker shall look, or wait
		}
		for _, other := range s.crews {
			if w.left && other != c { // the mail at the head of a lane is theirs
				other.wake(true)
			}
		}
		if some {
			s.turnTo(work, c, &w, urgent)
			continue
		}
		var timer <-chan time.Time
		if w.wait > 0 {
			timer = time.After(w.wait)
		}
		select {
		case <-news:
		case <-timer:
		case <-fetch.Done():
		}
	}
}

// turnTo moves aside and attempts what a worker has been given.
func (s *Sender) turnTo(ctx context.Context, c *crew, w *window, urgent bool) {
	if !urgent {
		s.atWork(c, true)
		defer s.atWork(c, false)
	}
	if len(w.aside) > 0 {
		s.moveAside(ctx, c.transport, w.aside)
	}
	if len(w.items) > 0 {
		s.attempt(ctx, c, w.items)
	}
}

// window is what a worker gets.
type window struct {
	room  int     // how many it may have to attempt
	items []*item // to attempt
	aside []apart // to move to sublanes
	more  bool    // it is full: others may be left
	left  bool    // something was taken, and behind it is what other transports take

	// After wait, those that may not go now are to be asked about again; 0: there
	// are none.
	wait time.Duration
}

// full reports whether a window has as much as it may have.
func (w *window) full() bool { return len(w.items) >= w.room || len(w.aside) >= asideSends }

// apart is a send that is to wait in a sublane.
type apart struct {
	item *item
	with string // the sublane's name within its lane: a domain, routes
}

// asideSends bounds how many a worker moves aside before it attempts what it
// has.
const asideSends = 256

// window takes a window of sends for a transport: by priority, and of partitions
// in turn.
func (s *Sender) window(c *crew, urgent bool) (w window) {
	now := s.Clock.Now()
	priorities := []mail.Priority{mail.PriorityHigh, mail.PriorityNormal, mail.PriorityLow}
	if urgent {
		priorities = priorities[:1]
	}
	s.mu.Lock()
	s.turn++
	parts, turn := s.parts, s.turn
	w.room = c.tempo.window()
	s.mu.Unlock()
	for _, priority := range priorities {
		for i := range parts {
			p := parts[(turn+i)%len(parts)]
			if p.over.Load() || p.waiting.Load() == 0 {
				continue
			}
			if p.give(priority, c.transport, &w, now); w.full() {
				w.more = true
				return w
			}
		}
	}
	return w
}

// give gives a window sends of one priority, of both classes in turn. Of a class, sends
// of sublanes go first, as they have waited longest.
func (p *part) give(priority mail.Priority, t mail.Transport, w *window, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var stopped map[*queue]bool // whose head may not go
	var others scan
	wake, before := false, len(w.items)+len(w.aside)
	for !w.full() {
		q := p.next(priority, stopped)
		if q == nil {
			break
		}
		at, take := 0, Take{Wait: staleAgain}
		switch fresh := p.s.fresh(q); {
		case fresh && q.others:
			at, take = p.s.scan(&others, q, t, len(w.items) > 0, now)
		case alone(&q.items[0].send) && len(w.items) > 0:
			at = -1
		case fresh:
			take = p.s.ask(t, q.items[0], now)
		}
		if at < 0 {
			w.room = len(w.items) // what is next is for a window of its own
			break
		}
		if !take.OK && take.Wait > 0 && (w.wait == 0 || take.Wait < w.wait) {
			w.wait = take.Wait
		}
		if !take.OK && (take.Lane == "" || q.sublane()) {
			if stopped == nil {
				stopped = make(map[*queue]bool)
			}
			stopped[q] = true
			wake = p.goRound(q, &others, w, now) || wake
			continue
		}
		p.waiting.Add(-1)
		it, short := q.pop(at)
		p.gave[priority] = q.main
		wake = wake || short
		if take.OK {
			it.spend(mail.StageLane, now)
			it.taken(t)
			w.items = append(w.items, it)
			if alone(&it.send) {
				w.room = 1
			}
			continue
		}
		w.aside = append(w.aside, apart{it, take.Lane})
	}
	w.left = w.left || len(stopped) > 0 && len(w.items)+len(w.aside) > before
	if wake {
		p.room.signal()
	}
}

// staleAgain is after what time a worker looks again at a lane whose class the list
// of the suppressed is too old for.
const staleAgain = 500 * time.Millisecond

// fresh reports whether the list of the suppressed is recent enough for a lane. If
// not, its sends wait there, unmarked.
func (s *Sender) fresh(q *queue) bool {
	if strings.HasSuffix(q.main, flow.MarketingLane) {
		return s.Suppress.Fresh(mail.ClassMarketing)
	}
	return s.Suppress.Fresh(mail.ClassTransactional)
}

// ask asks whether a send may go by a transport. One that cannot be read needs
// none: it would wait for ever for a route to nobody, and all of its lane with it.
func (s *Sender) ask(t mail.Transport, it *item, now time.Time) Take {
	if it.broken != nil {
		return Take{OK: true}
	}
	return s.Routes.Takes(t, &it.send, it.passedBy(now), now)
}

// moveAside moves sends to sublanes, where they keep nobody else waiting. Out of a
// sublane a send is only attempted, but for the one for others (others.go), and for
// what movesOn says.
func (s *Sender) moveAside(ctx context.Context, t mail.Transport, aside []apart) {
	items, with := make([]*item, len(aside)), make(map[*item]string, len(aside))
	for i, a := range aside {
		items[i], with[a.item] = a.item, a.with
	}
	for _, m := range s.markAll(ctx, t.Name(), items) {
		f, over := s.notAttempted(m)
		if !over {
			f.aside = m.item.part.sublaneFor(mainLane(m.item.place.Batch.Lane), with[m.item])
		}
		s.hand(ctx, f)
	}
}

// notAttempted is what is recorded of a marked send that is not to be attempted now,
// and reports whether it is over: it was cancelled.
func (s *Sender) notAttempted(m marked) (f finished, over bool) {
	f = finished{item: m.item}
	switch m.letter {
	case flow.Ended: // the log has its outcome
		return f, true
	case flow.Cancelled:
		f.verdict.outcome = outcomeOf(&m.item.send, mail.SendCancelled, "", s.Clock.Now().UnixMilli())
		return f, true
	}
	return f, false
}
