package spool

import (
	"testing"
	"time"

	"sluice/flow"
)

// TestRoundsRestAsLongAsTheyTake: what goes round among others that take nothing rests
// in proportion to what a round took, so few sends go round within a second, and many
// keep nobody busy; and longer after each round in which nothing went, so that a few
// whose domain is dead for days do not either.
func TestRoundsRestAsLongAsTheyTake(t *testing.T) {
	now := time.Now()
	for took, want := range map[time.Duration]time.Duration{0: 300 * time.Millisecond, 200 * time.Millisecond: 800 * time.Millisecond, time.Minute: 5 * time.Second} {
		q := newQueue(flow.Sublane("normal-marketing", otherDomains))
		for range laneSends { // all have gone round since it began
			q.items = append(q.items, &item{ready: now})
		}
		q.round = now.Add(-took)
		p, w := &part{waiting: laneSends}, &window{}
		if p.goRound(q, &scan{queue: q, at: laneSends}, w, now) || len(w.aside) > 0 {
			t.Errorf("after %v: a round begins at once", took)
		}
		if got := q.roundAgain.Sub(now); got != want {
			t.Errorf("a round of %v is followed by %v of rest, want %v", took, got, want)
		}
		for at := q.roundAgain; want < roundRest; at = q.roundAgain {
			want = min(2*want, roundRest)
			q.round, q.items[0].ready = at.Add(-took), at
			p.goRound(q, &scan{queue: q, at: laneSends}, w, at)
			if got := q.roundAgain.Sub(at); got != want {
				t.Errorf("one more round of %v is followed by %v of rest, want %v", took, got, want)
			}
		}
	}
}
