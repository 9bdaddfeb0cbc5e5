package main

import (
	"context"

	"sluice"
	"sluice/api"
)

// snapshotSending adds how mail on its way out stands.
func (e *engine) snapshotSending(ctx context.Context, s *api.Stats) {
	s.Process = e.leases.ID()
	s.Bounds = make(map[string]float64)
	for _, u := range e.boundsUsed(ctx) {
		s.Bounds[u.Setting] = u.Share
	}
	if e.sending.sender == nil {
		return
	}
	now := e.clock.Now()
	s.Routes = e.sending.router.Routes()
	_, s.MarketingStopped = e.sending.router.Stopped()[sluice.ClassMarketing.String()]
	s.Mail, s.Lost = e.sending.stats.Routes(now), e.sending.stats.Lost()
	waiting, err := e.sending.sender.Waiting(ctx)
	s.Later, s.Waiting = orUnknown(waiting.Later, err), make(map[string]api.Waiting)
	for p := sluice.PriorityHigh; p <= sluice.PriorityLow; p++ {
		w := api.Waiting{Sends: orUnknown(waiting.Sends[p], err)}
		if oldest, ok := waiting.Oldest[p]; ok {
			w.OldestSeconds = max(0, now.Sub(oldest).Seconds())
		}
		s.Waiting[p.String()] = w
	}
}

// snapshotLedger adds what the ledger says.
func (e *engine) snapshotLedger(s *api.Stats) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	s.InDoubt = -1
	if totals, err := e.store.SendTotals(ctx); err == nil {
		s.Sends = totals
		s.InDoubt = orUnknown(e.store.OpenDoubts(ctx))
	}
}

// WaitsFor returns why the routes do not work that would take a mail, one line
// each, as far as this process has tried them.
func (p *Program) WaitsFor(to string, class sluice.Class) (all []string) {
	p.mu.Lock()
	e := p.engine
	p.mu.Unlock()
	if e == nil || e.sending.router == nil {
		return nil
	}
	for _, down := range e.sending.router.Why(to, class) {
		all = append(all, down.String())
	}
	return all
}
