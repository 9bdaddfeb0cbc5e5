package sinkbox

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"

	"sluice"
)

const (
	// turnEvery is how often it is looked what has become due, while something is
	// to happen at all.
	turnEvery = 50 * time.Millisecond

	// maxReport is how much is reported at once.
	maxReport = 1000
)

// later is a mail to which something is to happen: the next of steps.
type later struct {
	send, to string
	steps    []step
}

// step is one thing that is to happen. Its word is one of the few that exist.
type step struct {
	event string
	at    time.Time
}

// queue is a heap of mails by what is to happen next.
type queue []*later

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].steps[0].at.Before(q[j].steps[0].at) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*later)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}

// plan plans what is to happen to a mail that was taken.
func (b *Box) plan(send, to, address string, now time.Time) {
	if b.report == nil {
		return
	}
	if len(b.pending) >= b.pendingAtMost {
		b.missed++
		return
	}
	// Each when the address has drawn, but none before what it follows from.
	at := func(event string, from time.Time) step {
		rest := now.Add(b.s.Within).Sub(from)
		return step{event, from.Add(time.Duration(b.draw("when "+event, address) % uint64(rest+1)))}
	}
	l := &later{send: send, to: to}
	if b.does("bounce", address, b.s.Bounce) {
		l.steps = []step{at(sluice.EventBounced, now)}
	} else {
		first := step{sluice.EventDelivered, now.Add(b.s.Within / 100)}
		l.steps = []step{first}
		// The same draw decides both, so a recipient that clicks also opens.
		if b.does("open", address, b.s.Open) {
			opened := at(sluice.EventOpened, first.at)
			l.steps = append(l.steps, opened)
			if b.does("open", address, b.s.Click) {
				l.steps = append(l.steps, at(sluice.EventClicked, opened.at))
			}
		}
		if b.does("complain", address, b.s.Complain) {
			l.steps = append(l.steps, at(sluice.EventComplained, first.at))
		}
		if b.does("unsubscribe", address, b.s.Unsubscribe) {
			l.steps = append(l.steps, at(sluice.EventUnsubscribed, first.at))
		}
		slices.SortStableFunc(l.steps, func(x, y step) int { return cmp.Compare(x.at.UnixNano(), y.at.UnixNano()) })
	}
	heap.Push(&b.pending, l)
	if len(b.pending) == 1 {
		select {
		case b.planned <- struct{}{}:
		default:
		}
	}
}

// Turn reports what has become due, a bounded number at once, and returns whether
// there may be more. Run calls it again and again.
func (b *Box) Turn() (more bool) {
	now := b.clock.Now()
	var due []Happening
	b.mu.Lock()
	for len(b.pending) > 0 && len(due) < maxReport && !now.Before(b.pending[0].steps[0].at) {
		l := b.pending[0]
		h := Happening{Send: l.send, To: l.to, Event: l.steps[0].event, Time: l.steps[0].at}
		if h.Event == sluice.EventBounced {
			h.Code, h.Reason = "5.1.1", "it came back (built-in mailbox)"
		}
		due = append(due, h)
		if l.steps = l.steps[1:]; len(l.steps) == 0 {
			heap.Pop(&b.pending)
		} else {
			heap.Fix(&b.pending, 0)
		}
	}
	b.mu.Unlock()
	if len(due) > 0 {
		b.report(due)
	}
	return len(due) == maxReport
}

// Run reports what happens until ctx ends. What was to happen later is forgotten
// with the process.
func (b *Box) Run(ctx context.Context) {
	tick := time.NewTicker(turnEvery)
	defer tick.Stop()
	for {
		for ctx.Err() == nil && b.Turn() {
		}
		next := tick.C
		if pending, _ := b.Pending(); pending == 0 {
			tick.Stop()
			next = nil
		}
		select {
		case <-next:
		case <-b.planned:
			tick.Reset(turnEvery)
		case <-ctx.Done():
			return
		}
	}
}

// Pending returns to how many mails something is still to happen, and to how many
// nothing more did because there were too many.
func (b *Box) Pending() (pending int, missed int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending), b.missed
}
