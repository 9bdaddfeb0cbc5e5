package spool

import (
	"testing"
	"time"

	"sluice/flow"
	"sluice/mail"
)

// stoppedTags is routes that take all but what has a tag.
type stoppedTags struct{ Routes }

func (stoppedTags) Takes(_ mail.Transport, s *mail.Send, _ []mail.Transport, _ time.Time) Take {
	if s.Tags != "" {
		return Take{Wait: time.Second, Lane: "tag:" + s.Tags, Stopped: true}
	}
	return Take{OK: true}
}

// What is stopped says nothing of other mail that goes the same way: that is asked about
// too. What is stopped goes round by its own name.
func TestStoppedMailAmongOthers(t *testing.T) {
	now := time.Now()
	s := &Sender{Routes: stoppedTags{}}
	q := newQueue(flow.Sublane("normal-marketing", otherDomains))
	for range laneSends {
		q.push([]*item{{send: mail.Send{To: "ann@example.com", Tags: "spring"}, ready: now.Add(-time.Second)}})
	}
	var sc scan
	if at, take := s.scan(&sc, q, nil, false, now); take.OK {
		t.Errorf("%d of those that are stopped may go", at)
	}
	p, w := &part{}, &window{}
	if p.goRound(q, &sc, w, now); len(w.aside) != laneSends/2 || w.aside[0].with != "tag:spring" {
		t.Errorf("%d go round", len(w.aside))
	}
	q.push([]*item{{send: mail.Send{To: "bob@example.com"}}})
	if at, take := s.scan(&scan{}, q, nil, false, now.Add(scanAgain)); !take.OK || at != laneSends/2 {
		t.Errorf("%d: %+v, want what is behind those that are stopped", at, take)
	}
}

// TestRoundsRestAsLongAsTheyTake: what goes round among others that take
// nothing rests in proportion to the time of a round. So few sends go round
// within a second, and many keep no worker busy. After each round in which
// nothing went it rests longer, up to a second where few go round. So these do
// not go round either while a domain is dead for days. The domain's mail leaves
// within about a second when it takes mail again.
func TestRoundsRestAsLongAsTheyTake(t *testing.T) {
	now := time.Now()
	for took, rests := range map[time.Duration][]time.Duration{
		0:                      {300 * time.Millisecond, 600 * time.Millisecond, time.Second, time.Second},
		50 * time.Millisecond:  {300 * time.Millisecond, 600 * time.Millisecond, time.Second, time.Second},
		200 * time.Millisecond: {800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond, 3200 * time.Millisecond},
		time.Second:            {4 * time.Second, 5 * time.Second, 5 * time.Second},
		time.Minute:            {5 * time.Second, 5 * time.Second},
	} {
		q := newQueue(flow.Sublane("normal-marketing", otherDomains))
		for range laneSends { // all have gone round since it began
			q.items = append(q.items, &item{ready: now})
		}
		p, w := &part{}, &window{}
		p.waiting.Store(laneSends)
		at := now
		for n, want := range rests {
			q.round, q.items[0].ready = at.Add(-took), at
			if p.goRound(q, &scan{queue: q, at: laneSends}, w, at) || len(w.aside) > 0 {
				t.Errorf("after %d rounds of %v: one begins at once", n+1, took)
			}
			if got := q.roundAgain.Sub(at); got != want {
				t.Errorf("round %d of %v is followed by %v of rest, want %v", n+1, took, got, want)
			}
			at = q.roundAgain
		}
	}
}
