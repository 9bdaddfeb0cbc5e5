package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sluice"
	"sluice/api"
	"sluice/mail"
)

// snapshotSending adds how mail on its way out stands.
func (e *core) snapshotSending(ctx context.Context, s *api.Stats) {
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
	s.MarketingStopped = e.sending.router.ClassStopped(mail.ClassMarketing)
	s.MailStops = len(e.sending.router.Stopped())
	s.Mail, s.Lost = e.sending.stats.Routes(now), e.sending.stats.Lost()
	waiting, err := e.sending.sender.Waiting(ctx)
	s.Later, s.Waiting = orUnknown(waiting.Later, err), make(map[string]api.Waiting)
	for p := mail.PriorityHigh; p <= mail.PriorityLow; p++ {
		w := api.Waiting{Sends: orUnknown(waiting.Sends[p], err)}
		if oldest, ok := waiting.Oldest[p]; ok {
			w.OldestSeconds = max(0, now.Sub(oldest).Seconds())
		}
		s.Waiting[p.String()] = w
	}
}

// snapshotLedger adds what the ledger says.
func (e *core) snapshotLedger(s *api.Stats) {
	ctx, cancel := context.WithTimeout(context.Background(), LookTimeout)
	defer cancel()
	s.InDoubt, s.LostDoubts, s.InDoubtSchedules = -1, -1, -1
	if totals, err := e.store.SendTotals(ctx); err == nil {
		s.Sends = totals
		s.InDoubt = orUnknown(e.store.OpenDoubts(ctx))
		s.InDoubtSchedules = orUnknown(e.store.CountSchedules(ctx, mail.ScheduleInDoubt))
	}
	if e.sending != nil { // its own time: what else is slow to count does not hide it
		s.LostDoubts = orUnknown(e.sending.lost.count(e.store, e.clock))
	}
}

const (
	// lostEvery is how old the number of lost sends may be, and lostShare how many
	// times as long as counting them took it rests: they may be very many.
	lostEvery = 5 * time.Second
	lostShare = 20
)

// lostSends counts the sends in doubt that no lane had, of all processes, up to
// mail.MaxLostCount. The database has them, so they are known after a restart, and
// until somebody has decided about them.
type lostSends struct {
	mu   sync.Mutex
	next time.Time
	n    int64
	err  error
}

// count asks at most every lostEvery, for all who want to know. While they cannot be
// counted it returns why, and the last number.
func (l *lostSends) count(store mail.SendStore, clock sluice.Clock) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	began := clock.Now()
	if began.Before(l.next) && l.next.Sub(began) <= lostShare*LookTimeout+lostEvery {
		return l.n, l.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), LookTimeout)
	defer cancel()
	n, err := store.LostSends(ctx)
	if l.err = err; err == nil {
		l.n = n
	}
	now := clock.Now()
	l.next = now.Add(max(lostEvery, lostShare*now.Sub(began)))
	return l.n, l.err
}

// warnings says how many they are, and if they cannot be counted, why.
func (l *lostSends) warnings(store mail.SendStore, clock sluice.Clock) (all []string) {
	n, err := l.count(store, clock)
	if err != nil {
		all = append(all, fmt.Sprintf("how many sends are lost could not be counted: %v", err))
	}
	if n > 0 {
		more := ""
		if n >= mail.MaxLostCount {
			more = " or more"
		}
		all = append(all, fmt.Sprintf("%d%s sends were to leave and were in no lane; they are in doubt, and nobody has decided about them: sluice doubt list", n, more))
	}
	return all
}

// waitsFor returns why the routes do not work that would take a mail, one line
// each, as far as this process has tried them. route is the one that it asks for, or empty.
func (e *core) waitsFor(to string, class mail.Class, route string) (all []string) {
	for _, down := range e.sending.router.Why(to, class, route) {
		all = append(all, down.String())
	}
	return all
}
