package run

import (
	"context"
	"errors"
	"math"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/step"
	"sluice/mail"
)

const (
	// pendingMails is how many mails of a partition may be pending, in a lane or in the
	// log before it, when journeys make more; in its sublanes more may (journey.Crowded).
	pendingMails = journey.CrowdedLaneMails

	// unstoredMails is how many mails that the store has not stored yet a partition's
	// journeys may have in its log when they make more.
	unstoredMails = 2048

	// storedLook is how often is looked up to where the store has the log, while so
	// many wait for it.
	storedLook = 100 * time.Millisecond

	// crowdRest is how long people rest who are due and wait for room.
	crowdRest = 100 * time.Millisecond

	// mailsAtOnce is how many mails people who are due make by one commit, at most a
	// group of people more. One block of people is enough.
	mailsAtOnce = flow.BlockRecords

	// shareMails is how many each journey may make all the same while the lane is
	// crowded, sharesMails together, and sharesMails while a tag is. A journey has its share
	// anew once it is not kept back, and there is room in sharesMails anew once no lane of the
	// partition is crowded, or no tag.
	shareMails  = 100
	sharesMails = 2_000

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
// Mail that cannot leave is moved to sublanes, by what keeps it: a domain, a route, a tag
// that is stopped. Other mail of the lane leaves all the same. So what waits there has a
// bound of its own, eight times as high, and a stopped tag keeps only journeys that use it.
// Beyond that bound the lane is crowded by mail of one domain, for all.
//
// One journey's wave would keep a single person of another waiting for as long as the
// lane takes to get shorter by one commit. So each has a share of its own. What all make of
// shares is one count for the lanes of a partition: while one lane is crowded for days, another
// that comes to be so may find it used up.
//
// The store brings mails from the log to their lanes, and a commit of mails is counted here
// until it has. Otherwise a store that is behind a little gets all that the log takes. What
// has left its lane stays in the log until it is stored, so that is bounded as well.
//
// The invariant. What journeys have in a lane, and in the log for it, is at most
// pendingMails, mailsAtOnce, a group of people, and sharesMails. In its sublanes it is as
// much, journey.CrowdedApartMails for those of domains and routes and for each tag, and
// sharesMails for all tags. In the log, sent or not, the store has at most unstoredMails, and
// the same beside it, before it. A session begins with new shares, and knows nothing of mails
// that its predecessor has in the log.
//
// What is not counted: mail of paused journeys, which is in sublanes of its own and was
// counted when it was made. What was dropped: a count of the mails of each journey in
// Redis: each mark and each outcome would change it. To keep people back whose own domain
// takes no mail: they would be due, and read again in each pass; put off, their mail would
// be named late and leave after its latest time.
type crowd struct {
	looked  bool                   // in this pass
	pending map[string]mail.InLane // by lane; with what was made since
	shares  int                    // made of shares since the lanes were not crowded
	tagged  int                    // the same of those whom a tag keeps back, since none did

	queuedBy string           // the follower that brings mails to lanes; empty: none is known
	fresh    map[string]int64 // by lane: made, and not committed
	flying   []flying         // committed, and not in a lane as far as is known; oldest first
	held     bool             // the last pass had somebody wait for room
	moving   *inside          // its people who are due move: their mails are of no share; nil: none do
	granted  int              // that they may still make

	unstored     []flying // committed, and not stored as far as is known; oldest first
	unstoredSum  int64    // mails of these
	storedLooked time.Time
}

// flying are the mails of a commit, by lane.
type flying struct {
	at    sluice.Position // of their entry in the log
	mails map[string]int64
}

// empty says that the log has nothing that is not stored.
func (c *crowd) empty() { c.flying, c.unstored, c.unstoredSum = nil, nil, 0 }

// commit notes that the mails made since the last commit are in the log.
func (c *crowd) commit(at sluice.Position) {
	if len(c.fresh) > 0 && c.queuedBy != "" {
		c.flying = append(c.flying, flying{at, c.fresh})
	}
	if len(c.fresh) > 0 {
		made := flying{at, c.fresh}
		c.unstored = append(c.unstored, made)
		c.unstoredSum += made.sum()
	}
	c.fresh = nil
}

func (f *flying) sum() (n int64) {
	for _, mails := range f.mails {
		n += mails
	}
	return n
}

// store forgets the commits that are stored, if so many are not as far as is known that it
// matters. Else, and more often than storedLook, storedUpTo is not asked: a statement.
func (c *crowd) store(ctx context.Context, storedUpTo func(context.Context) (sluice.Position, error)) error {
	if c.unstoredSum < unstoredMails || time.Since(c.storedLooked) < storedLook {
		return nil
	}
	at, err := storedUpTo(ctx)
	if err != nil {
		return err
	}
	c.storedLooked = time.Now()
	for len(c.unstored) > 0 && !at.Before(c.unstored[0].at) {
		c.unstoredSum -= c.unstored[0].sum()
		c.unstored = c.unstored[1:]
	}
	return nil
}

// land forgets the commits that are in their lanes. The lanes are counted after it: a
// commit that comes to be there meanwhile is counted twice, and not left out.
func (c *crowd) land(ctx context.Context, log *flow.Log) error {
	if len(c.flying) == 0 {
		return nil
	}
	at, err := log.Cursor(ctx, c.queuedBy)
	if err != nil {
		return err
	}
	for len(c.flying) > 0 && (c.flying[0].at.Before(at.Position) || c.flying[0].at == at.Position && at.Items == 0) {
		c.flying = c.flying[1:]
	}
	return nil
}

// lookForRoom reads how much waits, once a pass.
func (p *part) lookForRoom(ctx context.Context) error {
	if p.crowd.looked {
		return nil
	}
	if p.storedBy == "" {
		p.crowd.unstored, p.crowd.unstoredSum = nil, 0
	}
	return errors.Join(p.crowd.store(ctx, p.storedUpTo), p.crowd.look(ctx, p.log))
}

// look reads how much waits in the lanes.
func (c *crowd) look(ctx context.Context, log *flow.Log) error {
	if err := c.land(ctx, log); err != nil {
		return err
	}
	waiting, err := log.Lanes().Waiting(ctx)
	if err != nil {
		return err
	}
	c.looked, c.pending = true, mail.InLanes(waiting)
	for _, f := range c.flying {
		for lane, n := range f.mails {
			c.comes(lane, n)
		}
	}
	crowded, tags := c.unstoredSum >= unstoredMails, false
	for _, in := range c.pending {
		crowded = crowded || journey.Crowded(in, "")
		for tag := range in.Tags {
			tags = tags || journey.Crowded(mail.InLane{Tags: in.Tags}, tag)
		}
	}
	if !crowded {
		c.shares = 0
	}
	if !tags {
		c.tagged = 0
	}
	return nil
}

// comes counts mails that come to a lane.
func (c *crowd) comes(lane string, n int64) {
	in := c.pending[lane]
	in.Own += n
	c.pending[lane] = in
}

// keeps returns the count of the shares of which a journey may make mails now; nil: it is
// not kept back. A tag that is stopped for days takes nothing from those who wait for a lane.
func (c *crowd) keeps(in *inside) (shares *int) {
	for lane, tags := range in.lanes {
		switch p := c.pending[lane]; {
		case journey.Crowded(mail.InLane{Tags: p.Tags}, tags):
			return &c.tagged
		case c.unstoredSum >= unstoredMails || journey.Crowded(p, ""):
			shares = &c.shares
		}
	}
	return shares
}

// allows returns how many mails a journey may make now.
func (c *crowd) allows(in *inside) int {
	if shares := c.keeps(in); shares != nil {
		return max(min(in.share, sharesMails-*shares), 0)
	}
	in.share = shareMails
	return unbounded
}

// grant begins a move of people who are due, of a journey whose lanes are not crowded: they
// may make mailsAtOnce. nil ends it.
func (c *crowd) grant(in *inside) { c.moving, c.granted = in, mailsAtOnce }

// spent reports whether such a move has made what it may.
func (c *crowd) spent() bool { return c.moving != nil && c.granted <= 0 }

// made notes a mail of a journey.
func (c *crowd) made(in *inside, lane string) {
	if c.fresh == nil {
		c.fresh = make(map[string]int64, 1)
	}
	c.fresh[lane]++
	c.comes(lane, 1)
	if c.moving == in {
		c.granted--
	} else if shares := c.keeps(in); shares != nil {
		in.share--
		*shares++
	}
}

// walkOf is how a change moves people of a version by facts and entries. It is up to a message
// step while the journey may make no mail. If the change has as much as it may, or the store is
// behind, it is up to an update as well.
func (c *change) walkOf(in *inside, v *version) *step.Journey {
	if c.heavy() || c.part.behind {
		return v.held
	}
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
