package run

import (
	"slices"
	"time"

	"sluice"
	"sluice/flow"
)

const (
	// marksAtMost is how many ends of the log a partition notes at once, a second apart.
	marksAtMost = 64

	// markRest is how long a partition rests at least before it looks again whether the
	// store has passed a mark, and markRestOf that it is such a part of the time waited
	// so far. So a short wait is met soon, and a long one costs little.
	markRest   = 25 * time.Millisecond
	markRestOf = 4

	// standsAfter is after what time without progress a store stands.
	standsAfter = 2 * time.Second
)

// horizon is the second up to which a partition knows what was accepted.
//
// The idea. What was accepted before somebody is due counts: who has bought gets no mail.
// But facts and profiles come by the store, which is behind the log: by some 10 ms, by
// seconds while another process takes it over, by minutes under too much load. So when
// somebody becomes due, the end of the log is noted. When the store has passed it, and the
// facts up to there were told, the horizon is the second of this mark. People, and runs,
// who are due by the horizon move.
//
// The invariants. A pass reads the end of the log anyway, and no mark is beyond it: where
// Redis has gone back, nobody waits for what is gone. A clock that is set back takes the
// horizon with it. A mark is of one partition, whose goroutine goes on with facts
// meanwhile: no other partition waits. The horizon is known to a session alone, so a
// successor, which knows nothing, moves nobody before it has passed a mark of its own.
//
// People may be due for long and wait for something else: a rate, or room in a lane. They
// move by what is known up to the horizon, as all do. Where that does not move, though,
// nobody's turn comes (stands).
//
// The price. Nothing while nobody is due, and nothing while all of the log is stored, or
// told (lookForFacts). Else a statement for each look. What the partition has itself put
// into the log is not waited for (ownEntries).
//
// There is no bound: people are as late as the store is. Who is moved without it gets
// the mail that was to be prevented, and the longer the store stands, the more of them.
//
// What was dropped. To compare the second with the position that the store has come to,
// which is a time of Redis: one that has gone back gives out ids that are ahead of its
// clock. To wait for those only in whose journeys facts may matter: rules, and consent,
// look at profiles, which come by the same store.
type horizon struct {
	second uint32
	since  time.Time // when it came to that
	marks  []mark    // beyond it, oldest first
}

// mark is the end that the log had in a second.
type mark struct {
	second uint32
	end    sluice.Position
	noted  time.Time
}

// look takes note of the end of the log, as it is now. wanted: somebody is due by now.
func (h *horizon) look(now time.Time, end sluice.Position, wanted bool) {
	second := uint32(now.Unix())
	h.second = min(h.second, second)
	for i := range h.marks {
		if end.Before(h.marks[i].end) {
			h.marks[i].end = end
		}
	}
	last := len(h.marks) - 1
	switch {
	case !wanted || h.second == second || last >= 0 && h.marks[last].second >= second:
	case len(h.marks) < marksAtMost:
		h.marks = append(h.marks, mark{second, end, time.Now()})
	default:
		h.marks[last].second, h.marks[last].end = second, end
	}
}

// tell moves the horizon: the store had come to a position, and then facts were told up to
// another one; all there were, if drained.
func (h *horizon) tell(now time.Time, stored, told sluice.Position, drained bool) {
	passed := 0
	for passed < len(h.marks) && (drained && !stored.Before(h.marks[passed].end) || h.marks[passed].end.Before(told)) {
		passed++
	}
	if passed > 0 {
		h.second, h.since = h.marks[passed-1].second, now
		h.marks = slices.Delete(h.marks, 0, passed)
	}
}

// at is the moment of the horizon.
func (h *horizon) at() time.Time { return time.Unix(int64(h.second), 0) }

// waits reports whether somebody waits for it.
func (h *horizon) waits() bool { return len(h.marks) > 0 }

// stands reports whether it is waited for, and has not moved for a while.
func (h *horizon) stands(now time.Time) bool { return h.waits() && now.Sub(h.since) >= standsAfter }

// rest is when to look again.
func (h *horizon) rest() time.Duration {
	if !h.waits() {
		return pollEvery
	}
	return min(max(time.Since(h.marks[0].noted)/markRestOf, markRest), pollEvery)
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
