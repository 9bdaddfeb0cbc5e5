package run

import (
	"context"
	"math"
	"strings"

	"sluice/flow"
	"sluice/journey/step"
	"sluice/mail"
)

const (
	// pendingMails is how many mails of a partition may be pending in a lane before
	// journeys make more.
	pendingMails = 2_000

	// shareMails is how many each journey may make all the same while the lane is
	// crowded, pendingMails together. It has them anew once the lane is not.
	shareMails = 100

	// unbounded is what a journey may make whose lanes are not crowded.
	unbounded = math.MaxInt
)

// crowd is how much mail waits in the lanes of a partition.
//
// The idea. A wave reaches a message step faster than mail leaves. People wait there as
// records, which they have anyway, and not as mails in Redis: a send that waits for room
// costs no byte. So a journey makes no more mails while a lane of its mails is crowded:
// its due people stay due, and those who come by facts go up to the message step and
// stay there, due at once. Each time the lane has room, all journeys move people in
// turn.
//
// One journey's wave would keep a single person of another waiting for as long as the
// lane takes to get shorter by one commit. So each has a share of its own, small enough
// that all shares together are as much again as the lane.
//
// The invariant. What journeys have in a lane is at most pendingMails, the people of one
// commit, and pendingMails of shares. A session begins with new shares.
//
// What is not counted: mail of paused journeys, which is in sublanes of its own and was
// counted when it was made. What was dropped: a count of the mails of each journey in
// Redis: each mark and each outcome would change it.
type crowd struct {
	looked  bool             // in this pass
	pending map[string]int64 // by lane, sublanes with it; with what was made since
	shares  int              // made of shares since the lanes were not crowded
}

// look reads how much waits, once a pass.
func (c *crowd) look(ctx context.Context, log *flow.Log) error {
	if c.looked {
		return nil
	}
	waiting, err := log.Lanes().Waiting(ctx)
	if err != nil {
		return err
	}
	c.looked, c.pending = true, make(map[string]int64, len(waiting))
	crowded := false
	for lane, n := range waiting {
		main, sub, _ := strings.Cut(lane, "@")
		if !strings.HasPrefix(sub, mail.PausedLane) {
			c.pending[main] += n
			crowded = crowded || c.pending[main] >= pendingMails
		}
	}
	if !crowded {
		c.shares = 0
	}
	return nil
}

// allows returns how many mails a journey may make now.
func (c *crowd) allows(in *inside) int {
	for lane := range in.lanes {
		if c.pending[lane] >= pendingMails {
			return max(min(in.share, pendingMails-c.shares), 0)
		}
	}
	in.share = shareMails
	return unbounded
}

// made notes a mail of a journey.
func (c *crowd) made(in *inside, lane string) {
	if c.pending[lane]++; c.allows(in) < unbounded {
		in.share--
		c.shares++
	}
}

// walkOf is how a change moves people of a version by facts and entries: up to a message
// step while the journey may make no mail.
func (c *change) walkOf(in *inside, v *version) *step.Journey {
	if !in.paused && !in.stopped && c.part.crowd.allows(in) == 0 {
		return v.holds
	}
	return c.dueWalkOf(in, v)
}

// dueWalkOf is how it moves people who are due: up to a message step where the journey
// has a rate, unless these are people whom this rate has waiting. Who goes on into another
// journey by that waits for the rate of the other.
func (c *change) dueWalkOf(in *inside, v *version) *step.Journey {
	if in.perMinute > 0 && c.paced != in {
		return v.holds
	}
	return v.walk
}
