package spool

import (
	"math/rand/v2"
	"time"

	"sluice"
	"sluice/mail"
)

// outcomeOf begins the outcome of a send. One that was in doubt stays so unless
// it is sent: whatever keeps it from going out now, it may have arrived before.
func outcomeOf(s *mail.Send, state mail.SendState, event string, nowMillis int64) *mail.Outcome {
	was := mail.SendWaiting
	if s.Doubted {
		was = mail.SendInDoubt
		if state != mail.SendSent {
			state = mail.SendInDoubt
		}
	}
	return &mail.Outcome{
		Message: s.Message, Number: s.Number, Recipients: s.Recipients,
		Was: was, State: state, Event: event, TimeMillis: nowMillis, Attempts: s.Attempts,
		To: s.To, User: s.User, App: s.App, Tags: s.Tags, Metadata: s.Metadata, HasBody: s.Content == "",
	}
}

// rowOutcome begins the outcome of a send of which only its row is known.
func rowOutcome(r *mail.SendRow, recipients int, was, state mail.SendState, nowMillis int64) *mail.Outcome {
	return &mail.Outcome{
		Message: r.Message, Number: r.Number, Recipients: recipients, Was: was, State: state, TimeMillis: nowMillis, Attempts: r.Attempts,
		To: r.To, User: r.User, App: r.App, Tags: r.Tags, Metadata: r.Metadata,
		HasBody: true, // or not: counting down one that is not there changes nothing
	}
}

// suppressedOutcome is that of a send to a suppressed recipient.
func suppressedOutcome(s *mail.Send, reason string, nowMillis int64) *mail.Outcome {
	o := outcomeOf(s, mail.SendSuppressed, sluice.EventRejected, nowMillis)
	o.Reason = reason
	return o
}

// The reasons of what never was an attempt.
const (
	reasonExpired   = "timed_out"
	reasonRendering = "rendering"
	reasonNoBody    = "no_body"
	reasonPurged    = "purged"
	reasonErased    = "erased"
)

// retryAfter is how long a deferred send waits, by the attempts made.
var retryAfter = [...]time.Duration{
	1 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, 1 * time.Hour, 2 * time.Hour,
}

const (
	// retryLongest is how long it waits once these are used up.
	retryLongest = 4 * time.Hour

	// throttledAfter is how long one waits that was fine, but came too early.
	throttledAfter = 20 * time.Second
)

// backoff returns how long a send waits after its attempt number n, from 1. It
// varies by a quarter, so that sends deferred together are not retried
// together.
func backoff(n int, r *mail.Result) time.Duration {
	wait := retryLongest
	if n >= 1 && n <= len(retryAfter) {
		wait = retryAfter[n-1]
	}
	if r.Throttled {
		wait = min(wait, throttledAfter)
	}
	wait = max(wait, r.RetryAfter)
	return wait*3/4 + rand.N(wait/2)
}

// verdict is what follows of a result: the outcome, and the send for its next
// attempt, nil if there is none. If the send stays in doubt, kept is the send
// as it would be attempted if an operator decides so.
type verdict struct {
	outcome *mail.Outcome
	again   *mail.Send
	kept    *mail.Send
}

// verdictOfResult turns the result of an attempt by a route into what is recorded.
// Whether another route is asked at once (after 421, or without a connection) was
// decided before it: passOn in turn.go.
func verdictOfResult(s *mail.Send, route string, knows bool, r *mail.Result, doubtAfter time.Duration, nowMillis int64) verdict {
	attempted := *s
	attempted.Attempts++
	s = &attempted
	var v verdict
	switch r.Kind {
	case mail.ResultSent:
		v.outcome = outcomeOf(s, mail.SendSent, sluice.EventSent, nowMillis)
	case mail.ResultInDoubt:
		v = inDoubt(s, route, knows, nowMillis, nowMillis, nowMillis+doubtAfter.Milliseconds())
	case mail.ResultDeferred:
		v = deferred(s, nowMillis, nowMillis+backoff(s.Attempts, r).Milliseconds())
	default:
		v = failed(s, r.Blame, nowMillis)
	}
	v.outcome.Route, v.outcome.Remote, v.outcome.Code = route, r.Remote, r.Code
	v.outcome.Reply = reply(r)
	return v
}

// reply is what is kept of what the other side said.
func reply(r *mail.Result) string {
	text := r.Text
	if r.Enhanced != "" {
		text = r.Enhanced + " " + text
	}
	return text[:min(len(text), mail.MaxReplyBytes)]
}

// repeatWithin is how long attempts in doubt are repeated with a server that knows
// them again: less than the day for which providers commonly do.
const repeatWithin = 20 * time.Hour

// inDoubt is the verdict on a send that may have arrived by a route. Marketing
// mail stays so. Transactional mail is attempted once more, at a time when the
// process that had it can do nothing with it any more.
//
// A route's other side may know an attempt again and take it once
// (mail.Repeatable). Then each class is attempted again until it is known
// what has become of it. Only that route may be used, as any other would take
// the mail a second time. Attempts end when that memory expires. It began with the attempt,
// at sinceMillis: a process that died then may be found days later.
func inDoubt(s *mail.Send, route string, knows bool, sinceMillis, nowMillis, againMillis int64) verdict {
	v := verdict{outcome: outcomeOf(s, mail.SendInDoubt, "", nowMillis)}
	again := *s
	again.Doubted = true
	if knows {
		if again.Route = route; !s.Doubted || s.Route != route { // the first time there
			again.ExpiresMillis = min(s.ExpiresMillis, sinceMillis+repeatWithin.Milliseconds())
		} else {
			againMillis = max(againMillis, nowMillis+backoff(s.Attempts, &mail.Result{}).Milliseconds())
		}
		if againMillis <= again.ExpiresMillis {
			v.wait(&again, againMillis)
			return v
		}
		again.Route, again.ExpiresMillis = s.Route, s.ExpiresMillis
	}
	if s.Class == mail.ClassTransactional && !s.Doubted {
		v.wait(&again, againMillis)
	} else {
		v.keep(s)
	}
	return v
}

// over reports whether it is decided that there is no attempt any more.
func (v *verdict) over() bool { return v.outcome != nil && v.again == nil }

// keep keeps a send that stays in doubt.
func (v *verdict) keep(s *mail.Send) {
	kept := *s
	kept.Doubted = true
	v.kept = &kept
}

// notAttempted is the verdict on a send that was taken for one that may have arrived: it was
// marked, but its process was cut off, and did not attempt it. until is the send that waits for
// a time; nil: it waits for none.
func notAttempted(s, until *mail.Send, nowMillis int64) verdict {
	v := verdict{outcome: outcomeOf(s, mail.SendWaiting, "", nowMillis)}
	v.outcome.Reply = "its process lives, and had not attempted it"
	again := *s
	if until == nil {
		v.wait(&again, nowMillis)
	} else {
		v.wait(&again, until.DueMillis)
	}
	return v
}

// deferred is the verdict on a send that is to be tried again, if there is time for
// that (lastTries).
func deferred(s *mail.Send, nowMillis, againMillis int64) verdict {
	if againMillis > s.ExpiresMillis-lastTryLeft.Milliseconds() {
		againMillis = lastTries(nowMillis, againMillis, s.ExpiresMillis)
	}
	if againMillis == 0 {
		v := failed(s, mail.BlameNobody, nowMillis)
		v.outcome.Reason = reasonExpired
		return v
	}
	v := verdict{outcome: outcomeOf(s, mail.SendWaiting, sluice.EventDeferred, nowMillis)}
	again := *s
	v.wait(&again, againMillis)
	return v
}

// Bounds of tries before the end.
const (
	// lastTryLeft is how much time a send has at least that is tried once more. What
	// waits for a time is rounded up to a second and looked for once a second.
	lastTryLeft = 2 * time.Second

	// lastTryPart is the part of the wait as usual that it has at least.
	lastTryPart = 60
)

// lastTries is when a send is tried again that expires before its time as usual, or just
// behind it; 0: not any more. One refusal must not cost a mail that has time left: a code that is
// good for a minute would be lost by the first 451.
//
// It is tried when half of its time is over, so each try comes soon and has as much time
// behind it. What is left is less than the wait at first, and a sixtieth of it at last.
// Waits are not all alike, so there are seven tries at most before a send expires. Of many
// that expire together none hammers its route.
func lastTries(nowMillis, againMillis, expiresMillis int64) int64 {
	left := expiresMillis - nowMillis
	if left < max(lastTryLeft.Milliseconds(), (againMillis-nowMillis)/lastTryPart) {
		return 0
	}
	return nowMillis + left/2
}

// failed is the verdict on a send that no route takes.
func failed(s *mail.Send, blame mail.Blame, nowMillis int64) verdict {
	event := sluice.EventFailed
	if blame == mail.BlameRecipient {
		event = sluice.EventBounced
	}
	v := verdict{outcome: outcomeOf(s, mail.SendFailed, event, nowMillis)}
	if s.Doubted {
		v.keep(s)
	}
	return v
}

func (v *verdict) wait(again *mail.Send, untilMillis int64) {
	again.DueMillis = untilMillis
	v.again, v.outcome.DueMillis = again, untilMillis
}
