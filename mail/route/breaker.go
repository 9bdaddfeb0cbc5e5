package route

import (
	"time"

	"sluice/mail"
)

// Bounds of a breaker.
const (
	openAfter  = 5 // failures in a row
	openFirst  = 5 * time.Second
	openLatest = 5 * time.Minute
)

// breaker keeps mail from a route (or of a direct one, from a domain) that does
// not work. It pauses; it drops nothing.
//
// The idea. A connection works or fails, so connections are counted, not the
// mails on them. One call of a transport's Deliver counts once, whether it ends
// in order, dies with its window of mails, or cannot connect (see ending).
// openAfter failures in a row open the breaker, and any that is none begins the
// row anew. So a relay that cuts one connection in thirty stays in use. One
// that is down is left after five attempts to reach it, of which all workers
// make some at once.
//
// Open, it lets nothing through for a time. Then it is half open: one probe may
// go, and another after the same time if the first has no result, or at once if
// the first was not attempted. A success closes the breaker, and a failure opens
// it for twice as long. What was under way when it opened and fails later changes
// nothing.
//
// Dropped. Counting mails: one connection that died with its window opened it.
// A count that failures raise and successes lower. Where a third of the
// connections dies it opens twice as often (once in 171 of them, not in 363).
// Where all die, it opens no sooner.
//
// A rate over a window of time. It needs a least number of attempts to mean
// anything. So a route with a mail a minute would open by one failure or never.
// A busy one would open only when its window has filled with failures.
type breaker struct {
	row    int           // failures in a row, while it is closed
	length time.Duration // 0: closed
	until  time.Time     // when it is half open, and of a probe, when the next may go
	probed bool          // since then
	probe  uint64        // the mail of the last one, by its hash
	opened int64         // how often
}

// wait returns how long nothing may go; 0: something may.
func (b *breaker) wait(now time.Time) time.Duration {
	if b.length == 0 || !now.Before(b.until) {
		return 0
	}
	return b.until.Sub(now)
}

// take notes that a mail goes.
func (b *breaker) take(s *mail.Send, now time.Time) {
	if b.length > 0 {
		b.probed, b.probe, b.until = true, hash(s), now.Add(b.length)
	}
}

// giveBack notes that a mail was not attempted: if it was the probe, there is none, and another
// may go at once. That is no loop without an end: each mail frees one at most, and leaves its lane
// or waits, as it does when the breaker is closed.
func (b *breaker) giveBack(s *mail.Send, now time.Time) {
	if b.length > 0 && b.probed && b.probe == hash(s) {
		b.probed, b.probe, b.until = false, 0, now
	}
}

// count counts a connection. after is how long the other side asks for; 0: it
// does not.
func (b *breaker) count(ok bool, after time.Duration, now time.Time) {
	switch {
	case ok:
		if b.length == 0 || b.probed {
			*b = breaker{opened: b.opened}
		}
		return
	case b.length == 0:
		if b.row++; b.row < openAfter {
			return
		}
		b.length = openFirst
	case b.probed:
		b.length = min(2*b.length, openLatest)
	default:
		return
	}
	b.opened++
	b.probed, b.until = false, now.Add(max(b.length, after))
}

// ending is how a connection has ended for what went along one line.
type ending struct {
	lost     bool          // it died, or could not be had
	refused  bool          // something was refused for our sake
	answered bool          // something was answered otherwise: taken, or refused for its own
	reached  bool          // something was held back when the connection stood, or its sender alone was refused: nobody knows what it is good for
	fewer    bool          // the other side wants fewer, which is for the pace to heed
	after    time.Duration // what it asks for
}

// add adds the result of one of its mails. spared: it says nothing of the route (senders).
func (e *ending) add(r *mail.Result, spared bool) {
	ours := r.Blame == mail.BlameRoute && !spared
	switch {
	case wantsFewer(r):
		e.fewer = true
	case spared, r.Held != nil && r.Connected:
		e.reached = true
	case r.Kind == mail.ResultUntried || r.Kind == mail.ResultInDoubt:
		e.lost = e.lost || ours
	case ours:
		e.refused = true
	default:
		e.answered = true
	}
	if ours {
		e.after = max(e.after, r.RetryAfter)
	}
}

// tell has a breaker count it. A server that wants fewer connections and then
// hangs up (421) has not failed. A relay may say what others said to it, and
// refuse some mails because of us and take others. Then the connection has not
// failed either.
func (e *ending) tell(b *breaker, now time.Time) {
	switch {
	case e.fewer && (e.lost || !e.answered):
	case e.lost || e.refused && !e.answered:
		b.count(false, e.after, now)
	case e.answered:
		b.count(true, 0, now)
	case e.reached && b.probed: // a relay slow to greet would else stay paused: its probe was too late
		b.until = now // the next one goes at once, by that connection if it was too late
	}
}

// What a breaker may be.
const (
	BreakerClosed   = "closed"
	BreakerOpen     = "open"
	BreakerHalfOpen = "half-open"
)

// state is what metrics show.
func (b *breaker) state(now time.Time) string {
	switch {
	case b.length == 0:
		return BreakerClosed
	case b.wait(now) > 0 && !b.probed:
		return BreakerOpen
	}
	return BreakerHalfOpen
}
