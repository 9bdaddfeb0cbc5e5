package spool

import (
	"errors"
	"time"

	"sluice/mail"
)

// tempo is how many mails a worker of a transport takes at once: as many as the
// other side answers in a moment.
//
// The idea. A window saves round trips. A relay that needs a second for each
// mail saves nothing by a window of 16. Urgent mail then waits until a worker
// has ended its own window. So the time between the first reply of a window and
// its last is measured. A window takes no more mails than are answered within
// windowTime after the first reply. If half the time of the first reply is
// more, that counts instead. A relay that is far away answers late, but then
// all at once, and keeps its large windows.
//
// It begins with few and doubles with each full window that was quick; what is slow
// takes effect at once, by half at most for each window. A window of one says nothing about the
// time between replies, so every eighth takes two (probeEvery).
//
// All workers of a transport share it; it is guarded by Sender.mu.
type tempo struct {
	limit int // mails
	most  int // the transport's window
	ones  int // windows of one since the last of more
}

// windowTime is what the replies of a window behind the first may take. A variable
// for tests alone.
var windowTime = 500 * time.Millisecond

const (
	tempoStart = 2
	probeEvery = 8
)

func newTempo(most int) tempo { return tempo{limit: min(tempoStart, most), most: most} }

// window is how many mails the next window has, at most.
func (t *tempo) window() int {
	if t.limit > 1 || t.most == 1 {
		return t.limit
	}
	if t.ones++; t.ones >= probeEvery {
		t.ones = 0
		return 2
	}
	return 1
}

// learn notes how a window went: how many mails it had, when the first of them was
// answered, and the last, since its beginning.
func (t *tempo) learn(mails int, first, last time.Duration) {
	if mails == 1 {
		return
	}
	fit := t.most
	if each := (last - first) / time.Duration(mails-1); each > 0 {
		fit = 1 + int(max(windowTime, first/2)/each)
	}
	switch {
	case fit < t.limit:
		t.limit = max(fit, t.limit/2, 1)
	case mails >= t.limit:
		t.limit = min(fit, 2*t.limit, t.most)
	}
}

// cut notes that of a window only so many mails were begun, as the others would have been
// too late.
func (t *tempo) cut(begun int) {
	if begun > 0 { // else it was the connection that took long, of which there is one now
		t.limit = min(t.limit, begun)
	}
}

// lap takes the times of a window's replies.
type lap struct {
	began, first, last time.Time
	broken             bool // not all were answered, so the times say nothing
	held               bool // the sender held mails back (begin.go), so the times say nothing
	late               int  // of them, those that would have been begun too late
}

// note notes a result. Those of a window come one after the other.
func (l *lap) note(r *mail.Result, now time.Time) {
	if r.Held != nil {
		l.held = true
		if errors.Is(r.Held, errLate) {
			l.late++
		}
		return
	}
	if l.first.IsZero() {
		l.first = now
	}
	l.last = now
	l.broken = l.broken || r.Kind == mail.ResultUntried || r.Kind == mail.ResultInDoubt || r.Closed
}

// learn has a crew heed how a window went.
func (s *Sender) learn(c *crew, mails int, l *lap) {
	if l.broken {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case l.late > 0:
		c.tempo.cut(mails - l.late)
		return
	case l.held: // mail that is stopped or suppressed says nothing of the relay
		return
	}
	c.tempo.learn(mails, l.first.Sub(l.began), l.last.Sub(l.began))
}

// alone reports whether a send is attempted in a window of its own: it was in doubt
// once. A connection that dies with a window leaves all of it in doubt, and a second
// time is for good.
func alone(s *mail.Send) bool { return s.Doubted }
