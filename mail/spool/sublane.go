package spool

import (
	"context"
	"time"

	"sluice/flow"
)

// Sublanes are where the sends of a domain are queued separately from the
// others of a lane.
//
// A sender that moves a send to a sublane makes it, and an empty one is
// removed. So their number is bounded by what is in use. Removing one
// (close.lua) and moving a send to one (record.lua) are one step each, in
// Redis: so it is removed empty or not at all. This process keeps its queue as
// long as a send is on its way to it. What arrives while it is being removed is
// read of a new one from its beginning, since the ids of its entries begin
// anew.
//
// Other processes make sublanes too. One that had marked before this session
// began may move a send to a sublane that this process does not know. So once a
// second this process looks which there are.
//
// The order of a domain's sends in a lane holds. As long as some of them may
// wait among the others, more go there, even if the domain could have its own
// sublane by now.

const (
	// maxSublanes bounds the sublanes of a partition. What belongs to further
	// domains waits together in one, otherDomains.
	maxSublanes  = 32
	otherDomains = "*"

	// maxOthers bounds the domains that are remembered of that one. Beyond it, all
	// are held to be in it.
	maxOthers = 1000

	// tendEvery is how often is looked for sublanes that are new, and empty.
	tendEvery = 1 * time.Second
)

// mayHold reports whether something of a domain may be in the sublane for others.
func (q *queue) mayHold(domain string) bool {
	return q.found || len(q.domains) >= maxOthers || q.domains[domain]
}

// sublaneFor is the lane in which a domain's sends wait apart from the others of
// a lane. One is on its way there until it has arrived.
func (p *part) sublaneFor(lane, domain string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, others := flow.Sublane(lane, domain), flow.Sublane(lane, otherDomains)
	if p.queues[name] == nil {
		n := 0
		for _, q := range p.queues {
			if q.sublane() {
				n++
			}
		}
		if o := p.queues[others]; n >= maxSublanes || o != nil && o.mayHold(domain) {
			name = others
		}
	}
	q := p.queues[name]
	if q == nil {
		q = newQueue(name)
		p.queues[name] = q
	}
	if name == others && len(q.domains) < maxOthers {
		if q.domains == nil {
			q.domains = make(map[string]bool)
		}
		q.domains[domain] = true
	}
	q.coming, q.closing = q.coming+1, false
	return name
}

// arrived notes that a send has come to its sublane, or will not.
func (p *part) arrived(lane string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.queues[lane]; q != nil {
		q.coming--
	}
}

// tendSublanes looks once a second for sublanes that are new or empty.
func (p *part) tendSublanes(ctx context.Context) error {
	if time.Since(p.tended) < tendEvery {
		return nil
	}
	p.tended = time.Now()
	if err := p.findSublanes(ctx); err != nil || p.urgent {
		return err
	}
	return p.closeSublanes(ctx)
}

// findSublanes takes up sublanes that others have made since this session began. It
// cannot be told by what is in the lanes: the entry of what was moved may be gone
// before it is read here.
func (p *part) findSublanes(ctx context.Context) error {
	names, err := p.lanes.Sublanes(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		if p.queues[name] == nil {
			p.queues[name] = newQueue(name)
			p.queues[name].found = true
		}
	}
	return nil
}

// closeSublanes removes sublanes that are empty.
func (p *part) closeSublanes(ctx context.Context) error {
	names := p.closing()
	if len(names) == 0 {
		return nil
	}
	closed, err := p.lanes.CloseSublanes(ctx, p.lease, names)
	if err != nil {
		return err // the partition is read anew
	}
	p.haveClosed(names, closed)
	return nil
}

// closing notes which sublanes are being removed: those that seem to be empty.
func (p *part) closing() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, q := range p.queues {
		if q.sublane() && len(q.items) == 0 && q.coming == 0 {
			q.closing = true
			names = append(names, name)
		}
	}
	return names
}

// haveClosed notes which of them are removed.
func (p *part) haveClosed(names []string, closed []bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, name := range names {
		q := p.queues[name]
		switch {
		case !closed[i]:
			q.closing = false
		case q.closing:
			delete(p.queues, name)
		default:
			p.queues[name] = newQueue(name)
			p.queues[name].coming, p.queues[name].domains = q.coming, q.domains
		}
	}
}
