package spool

import (
	"context"
	"slices"
	"time"

	"sluice/mail"
)

// A turn of a send is its way round the routes. A route may reject a send
// because it takes nothing now (421, or there is no connection:
// mail.Result.Closed). Then it has not attempted the send, so nothing counts
// against the message and another route is asked at once. Only routes that have
// not rejected it in this turn may take it. When no other route is left that is
// up, it waits as if there had been one route: the last answer decides.
//
// A turn is in memory alone, with the send: a process that reads the lane anew
// begins a new one.

// turnFor is how long a turn goes on after the last of them. Another route that is
// up but has no room would keep the send waiting, and all of its lane behind it.
const turnFor = 1 * time.Second

// A mail that was not attempted maxUntried times in a row makes room for others
// for untriedAfter. Its content may be why a server on the way ends the
// connection.
const (
	maxUntried   = 10
	untriedAfter = 1 * time.Minute
)

// passedBy are those by which it does not go in this turn.
func (it *item) passedBy(now time.Time) []mail.Transport {
	if len(it.passed) > 0 && now.Sub(it.passedSince) >= turnFor {
		it.passed = nil
	}
	return it.passed
}

// taken notes that a transport takes it: in a new turn, if it has turned it away
// before.
func (it *item) taken(t mail.Transport) {
	if slices.Contains(it.passed, t) {
		it.passed = nil
	}
}

// passOn has a send asked of another route, and reports whether there is one.
func (s *Sender) passOn(t mail.Transport, it *item, r *mail.Result, now time.Time) bool {
	if !r.Closed || r.Kind != mail.ResultUntried && r.Kind != mail.ResultDeferred {
		return false
	}
	passed := append(slices.Clip(it.passed), t)
	if it.untried >= maxUntried || !s.Routes.Elsewhere(&it.send, passed, now) {
		return false
	}
	it.passed, it.passedSince = passed, now
	return true
}

// done hands the result of an attempt to the recorder.
func (s *Sender) done(ctx context.Context, t mail.Transport, it *item, r *mail.Result) {
	now := s.Clock.Now()
	s.Routes.Report(t, &it.send, r, now)
	if s.Feedback != nil {
		s.Feedback.Result(&it.send, t.Name(), r)
	}
	it.report(&r.Took, now)
	f := finished{item: it, kind: r.Kind, route: t.Name()}
	switch it.untried++; {
	case s.passOn(t, it, r, now):
		f.waits = true
	case r.Kind != mail.ResultUntried:
		f.verdict = verdictOfResult(&it.send, t.Name(), knows(t), r, s.DoubtAfter, now.UnixMilli())
	case it.untried < maxUntried:
		f.waits = true
	default: // it may be what it says that ends each connection
		f.verdict = deferred(&it.send, now.UnixMilli(), now.Add(untriedAfter).UnixMilli())
		f.verdict.outcome.Route, f.verdict.outcome.Reply = t.Name(), reply(r)
	}
	s.hand(ctx, f)
}

// knows reports whether the other side of a transport knows an attempt again.
func knows(t mail.Transport) bool {
	r, ok := t.(mail.Repeatable)
	return ok && r.Repeatable()
}
