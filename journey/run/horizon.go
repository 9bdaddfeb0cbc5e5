package run

import (
	"slices"
	"time"

	"sluice"
	"sluice/flow"
)

const (
	// endsAtMost is how many ends of the log a partition notes at once, a second apart.
	endsAtMost = 64

	// lookRest is how long a partition rests at least before it looks again whether the
	// store has passed an end, and lookRestOf which part of the time waited so far. So a
	// short wait is met soon, and a long one costs little.
	lookRest   = 25 * time.Millisecond
	lookRestOf = 4

	// standsAfter is after what time without progress a store stands.
	standsAfter = 2 * time.Second
)

// horizon is the second up to which a partition knows what was accepted.
//
// The idea. What was accepted before somebody is due counts: who has bought gets no mail.
// But facts and profiles come by the store, which is behind the log: by some 10 ms, by
// seconds while another process takes it over, by minutes under too much load. So when
// somebody becomes due, the end of the log is noted. When the store has passed it, and the
// facts up to there were told, the horizon is the second of that end. People, and runs,
// who are due by the horizon move.
//
// The invariants. A pass reads the end of the log anyway, and none that is noted is beyond
// it: where Redis has gone back, nobody waits for what is gone. A clock that is set back
// takes the horizon with it. Each partition has its own, and its goroutine goes on with
// facts meanwhile: no other partition waits. It belongs to a session, so a successor, which
// knows nothing, moves nobody before the store has passed an end that it has seen itself.
//
// People may be due for long and wait for something else: a rate, or room in a lane. They
// move by what is known up to the horizon, as all do. Where that does not move, though,
// nobody's turn comes (stands).
//
// The price. Nothing while nobody is due, and nothing while all of the log is stored, or
// told (lookForFacts). Else a statement for each look. What the partition has itself put
// into the log is not waited for (ownEntries).
//
// There is no bound: people are as late as the store is. Who moves without it gets
// the mail that was to be prevented, and the longer the store stands, the more of them.
//
// What was dropped. To compare the second with the position that the store has come to,
// which is a time of Redis: one that has gone back gives out ids that are ahead of its
// clock. To wait for those only in whose journeys facts may matter: rules, and consent,
// look at profiles, which come by the same store.
type horizon struct {
	second uint32
	since  time.Time // when it came to that
	ends   []logEnd  // beyond it, oldest first
}

// logEnd is the end that the log had in a second.
type logEnd struct {
	second uint32
	end    sluice.Position
	noted  time.Time
}

// look takes note of the end of the log, as it is now. wanted: somebody is due by now.
func (h *horizon) look(now time.Time, end sluice.Position, wanted bool) {
	second := uint32(now.Unix())
	h.second = min(h.second, second)
	for i := range h.ends {
		if end.Before(h.ends[i].end) {
			h.ends[i].end = end
		}
	}
	last := len(h.ends) - 1
	switch {
	case !wanted || h.second == second || last >= 0 && h.ends[last].second >= second:
	case len(h.ends) < endsAtMost:
		h.ends = append(h.ends, logEnd{second, end, time.Now()})
	default:
		h.ends[last].second, h.ends[last].end = second, end
	}
}

// tell moves the horizon: the store had come to a position, and then facts were told up to
// another one; all there were, if drained.
func (h *horizon) tell(now time.Time, stored, told sluice.Position, drained bool) {
	passed := 0
	for passed < len(h.ends) && (drained && !stored.Before(h.ends[passed].end) || h.ends[passed].end.Before(told)) {
		passed++
	}
	if passed > 0 {
		h.second, h.since = h.ends[passed-1].second, now
		h.ends = slices.Delete(h.ends, 0, passed)
	}
}

// at is the moment of the horizon.
func (h *horizon) at() time.Time { return time.Unix(int64(h.second), 0) }

// waits reports whether somebody waits for it.
func (h *horizon) waits() bool { return len(h.ends) > 0 }

// stands reports whether it is waited for, and has not moved for a while.
func (h *horizon) stands(now time.Time) bool { return h.waits() && now.Sub(h.since) >= standsAfter }

// rest is when to look again.
func (h *horizon) rest() time.Duration {
	if !h.waits() {
		return pollEvery
	}
	return min(max(time.Since(h.ends[0].noted)/lookRestOf, lookRest), pollEvery)
}

// ownEntries are those at the end of the log that commits of the session have made, and of
// which nothing comes that journeys are told: counts, mails, contexts. The store takes its
// time with counts, and is slow with the mails of a wave.
type ownEntries struct {
	after, last sluice.Position
}

// add takes note of a commit. tells: facts may come of it.
func (o *ownEntries) add(c *flow.Commit, tells bool) {
	if tells || c.Appended.IsZero() {
		return
	}
	if c.Before != o.last || o.last.IsZero() {
		o.after = c.Before
	}
	o.last = c.Appended
}

// without is the end of the log before them.
func (o *ownEntries) without(end sluice.Position) sluice.Position {
	if end == o.last {
		return o.after
	}
	return end
}
