package run

import (
	"context"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/journey/step"
	"sluice/store"
)

const (
	// handKept is how long mail stays in hand after the store has passed it: a database
	// that goes back by less has it no more.
	handKept = time.Minute

	// handAtMost bounds the mails of a partition that stay so: some 60 bytes each.
	handAtMost = 100_000
)

// capping counts what mail the people of a partition get.
//
// The idea. What somebody got is counted in the ledger, by one statement for a group of
// people, and only where a mail is to be made that a cap counts. The ledger is behind:
// what this partition has made and the store has not passed is in hand here, with its
// position in the log. The statement says up to where the store had come at the moment
// of the count. So each mail is counted once: by the ledger up to there, in hand behind.
//
// The invariants. A person's mails of journeys are made here alone, one decision after
// the other. A successor knows nothing of what is in hand: it makes no mail before the
// store has passed the end that the log had when it took over. Behind that nobody else
// has appended any: the commits of its predecessor are refused.
//
// What was dropped. Counters in Redis: they are lost with it, and where Redis goes back
// they forget mail that has left. Reservations in SQL: a write for each mail.
type capping struct {
	caps  []journey.Cap
	end   sluice.Position // of the log when the partition was taken over
	ready bool            // the store has passed it, or nothing asks

	asks bool // some message is capped: what is made is kept in hand

	passed sluice.Position  // by the store, as far as is known
	hand   map[int64][]made // by person, oldest first
	order  []handed         // all of them, oldest first
}

// handed is a mail in hand, in the order in which it goes.
type handed struct {
	number int64
	at     sluice.Position
	millis int64
}

// made is a mail that was made here.
type made struct {
	at     sluice.Position // of its entry in the log
	millis int64
	caps   uint64 // a bit for each cap that counts it
}

// tally is what the ledger has of one person, as of a moment.
type tally struct {
	counts  []int // by cap
	applied sluice.Position
}

// openCaps begins to count, if any message may be left out.
func (p *part) openCaps(ctx context.Context, caps []journey.Cap) (err error) {
	p.capping = capping{caps: caps, hand: make(map[int64][]made)}
	for _, in := range p.journeys {
		for _, v := range in.versions {
			for _, m := range v.mails {
				p.capping.asks = p.capping.asks || m.Asks != 0
			}
		}
	}
	if p.capping.ready = !p.capping.asks; p.capping.asks {
		p.capping.end, err = p.log.Last(ctx)
	}
	return err
}

// capsReady reports whether mail can be counted by now.
func (p *part) capsReady(ctx context.Context) (bool, error) {
	x := &p.capping
	if x.ready {
		return true, nil
	}
	_, applied, err := p.store.MailCounts(ctx, p.storedBy, p.log.Partition(), nil, nil)
	x.passed, x.ready = applied, err == nil && !applied.Before(x.end)
	return x.ready, err
}

// counted are the questions to the ledger, as of a moment.
func (x *capping) counted(now time.Time) []store.MailCounted {
	all := make([]store.MailCounted, len(x.caps))
	for i := range x.caps {
		all[i] = store.MailCounted{SinceMillis: now.Add(-x.caps[i].Window).UnixMilli(), Tag: x.caps[i].Tag, Class: x.caps[i].Class}
	}
	return all
}

// askLedger counts what those people got for whom a mail is to be made that is capped.
// Where facts are told, the others of the page are counted with them.
func (c *change) askLedger(ctx context.Context, v *version, people []step.Person) error {
	var some []step.Person
	chosen := make(map[int64]bool)
	choose := func(p *step.Person) {
		if _, known := c.tallies[p.ID.Number]; !known && !chosen[p.ID.Number] {
			chosen[p.ID.Number] = true
			some = append(some, *p)
		}
	}
	for _, did := range c.out.Mails {
		if m := v.mails[did.Step]; m != nil && m.Asks != 0 {
			choose(&people[did.Person])
		}
	}
	if len(some) == 0 {
		return nil
	}
	if c.page != nil {
		for i := range c.page.people {
			choose(&c.page.people[i])
		}
	}
	for len(some) > 0 {
		n := min(len(some), store.MaxMailPeople)
		if err := c.askSome(ctx, some[:n]); err != nil {
			return err
		}
		some = some[n:]
	}
	return nil
}

// askSome is askLedger for MaxMailPeople people at most. Who was merged into one of them
// is counted for that one.
func (c *change) askSome(ctx context.Context, people []step.Person) error {
	p := c.part
	asked := p.capping.counted(p.clock.Now())
	numbers := make([]int64, len(people))
	former := make(map[int][]int64)          // by partition
	whose := make(map[int]map[int64][]int64) // of those: the people they are now
	for i := range people {
		numbers[i] = people[i].ID.Number
		for _, id := range people[i].Former() {
			if whose[id.Partition] == nil {
				whose[id.Partition] = make(map[int64][]int64)
			}
			if whose[id.Partition][id.Number] == nil {
				former[id.Partition] = append(former[id.Partition], id.Number)
			}
			whose[id.Partition][id.Number] = append(whose[id.Partition][id.Number], numbers[i])
		}
	}
	counts, applied, err := p.store.MailCounts(ctx, p.storedBy, p.log.Partition(), numbers, asked)
	if err != nil {
		return err
	}
	p.capping.passed = applied
	for _, n := range numbers {
		all := counts[n]
		if all == nil {
			all = make([]int, len(asked))
		}
		c.tallies[n] = tally{all, applied}
	}
	for part, some := range former {
		for len(some) > 0 {
			n := min(len(some), store.MaxMailPeople)
			counts, _, err := p.store.MailCounts(ctx, p.storedBy, part, some[:n], asked)
			if err != nil {
				return err
			}
			for number, all := range counts {
				for _, now := range whose[part][number] {
					for i := range all {
						c.tallies[now].counts[i] += all[i]
					}
				}
			}
			some = some[n:]
		}
	}
	return nil
}

// got counts the mails that a person got in the window of a cap.
func (c *change) got(number int64, byCap int, now time.Time) int {
	x := &c.part.capping
	t, since := c.tallies[number], now.Add(-x.caps[byCap].Window).UnixMilli()
	n := t.counts[byCap]
	for _, one := range x.hand[number] {
		if one.caps&(1<<byCap) != 0 && t.applied.Before(one.at) && one.millis >= since {
			n++
		}
	}
	for _, one := range c.made[number] {
		if one.caps&(1<<byCap) != 0 {
			n++
		}
	}
	return n
}

// keepMade keeps in hand what a commit has made, and lets go of the oldest.
func (x *capping) keepMade(all map[int64][]made, at sluice.Position, now time.Time) {
	for number, some := range all {
		for _, one := range some {
			one.at = at
			x.hand[number] = append(x.hand[number], one)
			x.order = append(x.order, handed{number, at, one.millis})
		}
	}
	x.letGo(now)
}

// letGo lets go of mail that the store has passed a while ago, and of all that it has
// passed where that is too much.
func (x *capping) letGo(now time.Time) {
	kept := now.Add(-handKept).UnixMilli()
	for len(x.order) > 0 {
		first := x.order[0]
		if x.passed.Before(first.at) || first.millis >= kept && len(x.order) < handAtMost {
			return
		}
		x.order = x.order[1:]
		if x.hand[first.number] = x.hand[first.number][1:]; len(x.hand[first.number]) == 0 {
			delete(x.hand, first.number)
		}
	}
}

// lookPassed learns up to where the store has come, if that lets go of much.
func (p *part) lookPassed(ctx context.Context) error {
	x := &p.capping
	if len(x.order) < handAtMost {
		return nil
	}
	_, applied, err := p.store.MailCounts(ctx, p.storedBy, p.log.Partition(), nil, nil)
	if err == nil {
		x.passed = applied
		x.letGo(p.clock.Now())
	}
	return err
}
