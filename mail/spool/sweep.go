package spool

import (
	"context"
	"slices"
	"time"

	"sluice"
)

const (
	// sweepEvery is how often what is in memory is looked through.
	sweepEvery = 1 * time.Second

	// sweepIDs is how many cancelled sends one call asks for.
	sweepIDs = 1000
)

// sweep ends sends in memory that wait for nothing any more: they are
// cancelled, or their time is over. Where mail moves, that is seen when their
// turn comes. In the lane of a route that is stopped, or is down for days, no
// turn comes. So that lane is emptied from its head, as far as memory reaches
// at a time.
func (p *part) sweep(ctx context.Context) error {
	if time.Since(p.swept) < sweepEvery {
		return nil
	}
	s := p.s
	p.swept = time.Now()
	now, apart := s.Clock.Now().UnixMilli(), sluice.ClocksApart(s.Clock)
	expired := func(it *item) bool { return !apart && it.broken == nil && now > it.send.ExpiresMillis }
	var all []*item
	p.mu.Lock()
	for _, q := range p.queues {
		all = append(all, q.items...)
	}
	p.mu.Unlock()
	ends := make(map[*item]bool)
	for chunk := range slices.Chunk(all, sweepIDs) {
		ids := make([]string, len(chunk))
		for i, it := range chunk {
			ids[i] = it.id()
		}
		cancelled, err := p.lanes.Cancelled(ctx, ids)
		if err != nil {
			return err
		}
		for i, it := range chunk {
			if expired(it) || cancelled != nil && cancelled[i] {
				ends[it] = true
			}
		}
	}
	if len(ends) == 0 {
		return nil
	}
	for chunk := range slices.Chunk(p.pull(ends), recordSends) {
		for _, m := range s.markAll(ctx, "", chunk) {
			f, over := s.notAttempted(m)
			switch {
			case over:
			case expired(m.item):
				f.verdict = fault(&m.item.send, reasonExpired, "it was not sent in time", now).verdict
			default:
				f.waits = true
			}
			s.hand(ctx, f)
		}
	}
	return nil
}

// pull takes sends out of the queues, those that nobody has taken meanwhile.
func (p *part) pull(ends map[*item]bool) (pulled []*item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		q.items = slices.DeleteFunc(q.items, func(it *item) bool {
			if !ends[it] {
				return false
			}
			pulled = append(pulled, it)
			q.bytes -= it.bytes()
			return true
		})
	}
	p.waiting.Add(-int64(len(pulled)))
	if len(pulled) > 0 {
		p.s.wake(true) // others have come to the heads of their lanes
	}
	return pulled
}
