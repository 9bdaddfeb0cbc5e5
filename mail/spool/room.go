package spool

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sluice"
	"sluice/mail"
)

const (
	// roomEvery is how old the sums of pending mail may be before they are read
	// again. roomShare is the rest after a read, as a multiple of the time that
	// it took.
	roomEvery = time.Second
	roomShare = 20

	// roomAwaited is how old they may be before everybody waits for the next read.
	roomAwaited = 5 * time.Second

	// roomTold is how often is logged that mail is refused.
	roomTold = time.Minute
)

// Room bounds the pending mail, of all senders and of each key.
//
// The idea. What waits is counted in Redis, in the steps that put it into a
// lane and take it out (flow.Lanes.Owe, record.lua), by key. A process reads
// the sums when mail is handed in, or when the bounds are looked at, and they are a second
// old, or 20 times as old as the last read took. What it has accepted itself since that read began is added. So
// the bound is exact, with two exceptions: mail that other processes accepted
// within that time, and mail still in the logs (backlog_megabytes). While the
// sums cannot be read, the last ones count, and all that this process accepts
// meanwhile. It goes on until its own mail fills what was left.
//
// What cannot be read for long can hardly be written either, being the same
// Redis.
//
// What is counted wrongly does not stay: an account is dropped some days after all
// of its mail has expired (mail.Send.Count).
//
// A tenth of each bound is for transactional mail alone: a request that has
// marketing mail is refused before. What is pending is not counted by class, so
// that tenth is not always free. Transactional mail may fill all of a bound,
// and then both classes are refused.
//
// What was dropped. Sums in the ledger's transactions: each row would need the key
// and its bytes, and what is stored late is counted late. A sum per message id,
// without accounts in the items: an older process would not take out what it sends.
type Room struct {
	All, Key mail.Load // the most that may wait; 0: no bound
	Read     func(context.Context) (map[string]mail.Load, error)
	Clock    sluice.Clock
	Log      *slog.Logger

	reading sync.Mutex // held by the reader

	mu     sync.Mutex
	read   time.Time // when the last read was over; zero: there was none
	rest   time.Duration
	waits  map[string]mail.Load // by key, as it was read
	all    mail.Load
	taken  map[string]mail.Load // by this process since
	before map[string]mail.Load // before the read that is under way
	told   time.Time
}

// Take takes room for mail of a key; empty: it comes without one. marketing: some of
// it is marketing mail. A *mail.WaitingFull says that there is none, a *sluice.Error
// that there is none even if nothing waits. What is not handed in after that goes back
// with GiveBack.
func (r *Room) Take(ctx context.Context, key string, load mail.Load, marketing bool) error {
	if r == nil || r.All == (mail.Load{}) && r.Key == (mail.Load{}) {
		return nil
	}
	r.refresh(ctx, true)
	r.mu.Lock()
	defer r.mu.Unlock()
	all, own := r.all, r.waits[key]
	for _, accepted := range [...]map[string]mail.Load{r.before, r.taken} {
		own.Add(accepted[key])
		for _, l := range accepted {
			all.Add(l)
		}
	}
	mostAll, mostOwn := r.All, r.Key
	if marketing {
		mostAll, mostOwn = mostAll.ForMarketing(), mostOwn.ForMarketing()
	}
	if beyond(mostAll, load) {
		return mail.NeverFits(mostAll, load, false, marketing)
	}
	if key != "" && beyond(mostOwn, load) {
		return mail.NeverFits(mostOwn, load, true, marketing)
	}
	err := tooMuch(mostAll, all, load, false, marketing)
	if err == nil && key != "" {
		err = tooMuch(mostOwn, own, load, true, marketing)
	}
	if err != nil {
		if now := r.Clock.Now(); now.Sub(r.told) > roomTold {
			r.told = now
			r.Log.Warn("mail is refused: as much mail is pending as is allowed", "key", key, "error", err)
		}
		return err
	}
	r.add(key, load)
	return nil
}

// GiveBack gives back room that was taken.
func (r *Room) GiveBack(key string, load mail.Load) {
	if r == nil || r.All == (mail.Load{}) && r.Key == (mail.Load{}) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(key, mail.Load{Sends: -load.Sends, Bytes: -load.Bytes})
}

func (r *Room) add(key string, load mail.Load) {
	if r.taken == nil {
		r.taken = make(map[string]mail.Load)
	}
	l := r.taken[key]
	l.Add(load)
	r.taken[key] = l
}

// beyond reports whether a load is more than a bound.
func beyond(most, load mail.Load) bool {
	return most.Sends > 0 && load.Sends > most.Sends || most.Bytes > 0 && load.Bytes > most.Bytes
}

// tooMuch returns why a load is too much, nil: it is not.
func tooMuch(most, have, load mail.Load, key, marketing bool) error {
	have.Add(load)
	if beyond(most, have) {
		have.Less(load)
		return &mail.WaitingFull{Key: key, Marketing: marketing, Have: have, Most: most, Adds: load}
	}
	return nil
}

// Used is how much of a bound is taken.
type Used struct {
	Setting string  // that has the bound
	Key     string  // of the bound of a key: the one with the most; empty: there is none
	Share   float64 // 0 to 1, and beyond
}

// Used returns how much of each bound is taken. It waits for Redis, but for nobody
// else who does.
func (r *Room) Used(ctx context.Context) []Used {
	if r == nil || r.All == (mail.Load{}) && r.Key == (mail.Load{}) {
		return nil
	}
	r.refresh(ctx, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	used := []Used{
		{Setting: "waiting.mails", Share: shareOf(r.all.Sends, r.All.Sends)}, {Setting: "waiting.megabytes", Share: shareOf(r.all.Bytes, r.All.Bytes)},
		{Setting: "waiting.key_mails"}, {Setting: "waiting.key_megabytes"},
	}
	for key, l := range r.waits {
		if key == "" {
			continue
		}
		for i, share := range [...]float64{shareOf(l.Sends, r.Key.Sends), shareOf(l.Bytes, r.Key.Bytes)} {
			if u := &used[2+i]; share > u.Share {
				u.Key, u.Share = key, share
			}
		}
	}
	return used
}

// shareOf is how much of a bound something is; 0: there is no bound.
func shareOf(n, most int64) float64 {
	if most == 0 {
		return 0
	}
	return float64(n) / float64(most)
}

// refresh reads the sums if they are old. One reads; the others go on with what is
// known, unless that is very old and they may wait.
func (r *Room) refresh(ctx context.Context, wait bool) {
	r.mu.Lock()
	seen, age, first := r.read, r.Clock.Now().Sub(r.read), r.read.IsZero()
	due, awaited := first || age > max(roomEvery, r.rest), first || age > max(roomAwaited, r.rest)
	r.mu.Unlock()
	switch {
	case !due:
		return
	case awaited && wait:
		r.reading.Lock()
	case !r.reading.TryLock():
		return
	}
	defer r.reading.Unlock()
	r.mu.Lock()
	if r.read != seen { // another caller has read meanwhile, or failed to
		r.mu.Unlock()
		return
	}
	r.before, r.taken = r.taken, nil
	r.mu.Unlock()
	began := r.Clock.Now()
	waits, err := r.Read(ctx)
	now := r.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read, r.rest = now, roomShare*now.Sub(began)
	if err != nil {
		for key, l := range r.before {
			r.add(key, l)
		}
		r.before = nil
		if ctx.Err() == nil {
			r.Log.Warn("pending mail could not be counted; the last count and what is accepted meanwhile hold", "error", err)
		}
		return
	}
	r.before, r.waits, r.all = nil, waits, mail.Load{}
	for _, l := range waits {
		r.all.Add(l)
	}
}
