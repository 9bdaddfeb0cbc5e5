package route

import (
	"context"
	"fmt"
	"time"

	"sluice/flow"
)

// Redis knows how many mails a warm-up route has sent today; it may be emptied,
// or restored. So each ask for tokens names the least known count: the route's
// attempts of today in the ledger, and what this process was given. Redis takes
// the greater number. A Redis that knows nothing of the day gives no tokens
// until a process has read the ledger since.
//
// The ledger lags by what is not stored yet. So it is read a moment after there
// was a reason to, and now and then without one. The answers of a restored
// Redis do not show that it was restored.

const (
	// lookEvery is how often the ledger is looked into while tokens are asked for.
	lookEvery = 10 * time.Second

	// settleFor is how long is waited before, for what was sent a moment ago.
	settleFor = time.Second

	// lookFor bounds a look without a reason.
	lookFor = 100 * time.Millisecond
)

// dayUse is what this process knows of a bucket's use of one day.
type dayUse struct {
	day    int64     // since 1970, UTC
	used   int64     // tokens that it was given, without those that went back
	stored int64     // attempts that the ledger has
	looked time.Time // when it was asked; zero: not yet today
	again  time.Time // when it is to be asked for a reason; zero: there is none
	tried  time.Time // when it last did not answer
}

// doubt notes that Redis may know less than it did: nothing is asked for before
// the ledger has been looked into.
func (b *bucket) doubt(now time.Time) {
	if b.of.DayLimits != "" {
		b.today.again = now.Add(settleFor)
		b.next = b.today.again
	}
}

// granted notes what Redis has given, for its day.
func (u *dayUse) granted(g *flow.PaceGrant, back int) {
	if u.day != g.Day {
		*u = dayUse{day: g.Day}
		back = 0
	}
	u.used += int64(g.Tokens - back)
}

// due returns how long the ledger may take to be looked into; 0: that is not to
// be done now. What must be known has more time than what is to be sure: other
// routes wait for it.
func (u *dayUse) due(now time.Time) time.Duration {
	must := u.looked.IsZero() || !u.again.IsZero()
	switch {
	case !u.tried.IsZero() && now.Sub(u.tried) < settleFor, now.Before(u.again):
		return 0
	case must:
		return callFor
	case now.Sub(u.looked) >= lookEvery && now.Sub(u.tried) >= lookEvery:
		return lookFor
	}
	return 0
}

// look completes what is asked for buckets of a route with what is known of their
// day. The error says why the ledger could not be looked into: then Redis decides
// by what it knows.
func (r *Router) look(ctx context.Context, of *route, buckets []*bucket, asks []flow.PaceAsk) error {
	for i, b := range buckets {
		if b.of.DayLimits == "" {
			continue
		}
		now := r.clock.Now()
		r.mu.Lock()
		if b.today.day == 0 { // later it is Redis that says which day it is
			b.today.day = now.UTC().Unix() / secondsPerDay
		}
		day := b.today.day
		within := b.today.due(now)
		r.mu.Unlock()
		stored, err := int64(0), error(nil)
		if within > 0 && r.days != nil {
			stored, err = r.storedOf(ctx, within, of.name, day)
		}
		r.mu.Lock()
		u := &b.today
		switch {
		case err != nil:
			u.tried = now
		case within > 0:
			u.stored, u.looked, u.again, u.tried = max(u.stored, stored), now, time.Time{}, time.Time{}
		}
		used := u.used - int64(asks[i].Back) // else what goes back would count as used
		asks[i].Used, asks[i].UsedDay, asks[i].Looked = max(u.stored, used), day, within > 0 && err == nil
		r.mu.Unlock()
		if err != nil {
			return fmt.Errorf("look how many mails route %s has sent today: %w", of.name, err)
		}
	}
	return nil
}

func (r *Router) storedOf(ctx context.Context, within time.Duration, name string, day int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return r.days.RouteDay(ctx, name, day)
}

const secondsPerDay = 86_400
