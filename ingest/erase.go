package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice"
)

const (
	// eraseAgain is the age at which a name is finished. An event accepted so
	// long after it belongs to nobody of that name, and applied entries have
	// left the logs.
	eraseAgain = sluice.ErasureMarginMillis*time.Millisecond + eraseSendsOverlap

	// eraseOverlap is how long the transaction may take that writes a name.
	eraseOverlap = 5 * time.Minute

	// eraseSendsEvery is how often new names are looked for, to stop the mail
	// to them. After a pass through all sends comes a rest of so many times its
	// duration.
	eraseSendsEvery = 5 * time.Second
	eraseSendsRest  = 10

	// eraseSendsFor is for how long the mail to a name is looked for again and again
	// while some of it has not ended. After that the passes over the events look.
	eraseSendsFor = 24 * time.Hour

	// eraseSendsOverlap is how long after its name a user's sends are looked
	// for again. Some may have been on their way into the ledger, or be read
	// again from the log, where applied entries stay for a minute.
	eraseSendsOverlap = 90 * time.Second
)

// erase erases users from sends, events, soft bounces and dead letters. A name
// is erased in the first pass after it was written, and once more after
// eraseAgain. Then it is finished and is deleted. A pass looks through all of
// them for up to sluice.MaxErasures names.
//
// A name is in plain text until then, because the database searches all events
// for it. A search by hash would have to compute the hash of each of them. The
// name stays only as long as it is needed: until all entries of the logs are
// stored, however long that takes, and have been searched once more.
//
// What has been passed once is kept in memory only, as a moment: a new holder of
// the lease passes all names again.
func (k *Keeper) erase(ctx context.Context, now time.Time) error {
	last := now.Add(-eraseAgain).UnixMilli()
	if err := k.erasePasses(ctx, max(k.erasedTo, last), now.UnixMilli(), false); err != nil {
		return err
	}
	passed, err := k.eraseLast(ctx, last)
	if passed {
		k.erasedTo = now.Add(-eraseOverlap).UnixMilli()
	}
	return errors.Join(err, k.overwrite(ctx))
}

// eraseLast erases the names that were written before a moment for the last time. As
// long as that has to wait, those are passed that this holder has not passed yet; it
// returns whether all of them have been.
func (k *Keeper) eraseLast(ctx context.Context, before int64) (passed bool, err error) {
	passed = k.erasedTo >= before
	names, err := k.Store.Erasures(ctx, "", 0, before, 1)
	if err != nil || len(names) == 0 {
		return passed || err == nil, err
	}
	if err = k.settle(ctx); err == nil {
		err = k.erasePasses(ctx, 0, before, true)
		return passed || err == nil, err
	}
	err = fmt.Errorf("forget the names of deleted users, which events not stored yet may have: %w", err)
	if !passed {
		more := k.erasePasses(ctx, k.erasedTo, before, false)
		passed, err = more == nil, errors.Join(err, more)
	}
	return passed, err
}

// overwrite has what was erased overwritten in the database's files.
func (k *Keeper) overwrite(ctx context.Context) error {
	if !k.erased {
		return nil
	}
	if err := k.Store.Overwrite(ctx); err != nil {
		return err
	}
	k.erased = false
	return nil
}

// erasePasses erases the names that were written in a range of time.
func (k *Keeper) erasePasses(ctx context.Context, from, to int64, done bool) error {
	return k.eachErasure(ctx, from, to, func(names []sluice.Erasure) error {
		// Events are last: what becomes of a send that is stopped is one.
		open, err := k.eraseSends(ctx, names)
		if err != nil {
			return err
		}
		for _, pass := range []func(context.Context, []sluice.Erasure) error{k.erasePass, k.eraseSoftBounces, k.eraseDead} {
			if err := pass(ctx, names); err != nil {
				return err
			}
		}
		k.erased = true
		if !done || open > 0 {
			return nil
		}
		return k.Store.Erased(ctx, names, to)
	})
}

// eachErasure calls f with the names that were written in a range of time, in
// pieces.
func (k *Keeper) eachErasure(ctx context.Context, from, to int64, f func(names []sluice.Erasure) error) error {
	for after := ""; ; {
		names, err := k.Store.Erasures(ctx, after, from, to, sluice.MaxErasures)
		if err != nil || len(names) == 0 {
			return err
		}
		if err := f(names); err != nil {
			return err
		}
		after = names[len(names)-1].Name
	}
}

// EraseSends stops the mail to users named since it was called last, and erases
// them from the ledger.
func (k *Keeper) EraseSends(ctx context.Context) error {
	now, err := k.now(ctx)
	if err != nil {
		return err
	}
	from, open := max(k.sendsTo, now.Add(-eraseSendsFor).UnixMilli()), 0
	err = k.eachErasure(ctx, from, now.UnixMilli(), func(names []sluice.Erasure) error {
		n, err := k.eraseSends(ctx, names)
		open += n
		return err
	})
	if err == nil && open == 0 { // else all of these names are looked for again
		k.sendsTo = now.Add(-eraseSendsOverlap).UnixMilli()
	}
	return err
}

// eraseSends looks through the ledger. A send that is pending or in doubt is
// stopped. A later pass erases its row when it has ended. A row that nobody can
// find again would let its mail go. If the mail is on the wire, its text would
// stay in Redis for as long as it is in doubt. eraseSends returns how many
// sends have not ended.
func (k *Keeper) eraseSends(ctx context.Context, names []sluice.Erasure) (open int, err error) {
	erased, stopped := 0, 0
	defer func() {
		if erased > 0 {
			k.Log.Info("deleted users were erased from sends", "names", len(names), "sends", erased, "stopped", stopped)
		}
	}()
	for after := ""; ; {
		sends, next, err := k.Store.SendsOf(ctx, names, after)
		if err != nil {
			return open, err
		}
		var going, ended []sluice.SendRow
		for _, s := range sends {
			if !s.Ended() && k.Cancel != nil {
				going = append(going, s)
			} else {
				ended = append(ended, s)
			}
		}
		if len(going) > 0 {
			if err := k.Cancel(ctx, going); err != nil {
				return open, err
			}
			open, stopped = open+len(going), stopped+len(going)
		}
		if len(ended) > 0 && k.TakeOut != nil { // before its row is erased, or nobody would find it again
			if err := k.TakeOut(ctx, ended); err != nil {
				return open, err
			}
		}
		if err := k.Store.EraseSends(ctx, ended); err != nil {
			return open, err
		}
		if erased += len(ended); next == "" {
			return open, nil
		}
		after = next
	}
}

// eraseSoftBounces deletes on which days addresses did not take mail. What
// suppresses them stays: it keeps mail from people, and is theirs.
func (k *Keeper) eraseSoftBounces(ctx context.Context, names []sluice.Erasure) error {
	erased, err := k.Store.EraseSoftBounces(ctx, names)
	if erased > 0 {
		k.Log.Info("deleted users were erased from soft bounces", "names", len(names), "rows", erased)
	}
	return err
}

// erasePass looks through all events, day by day: so no statement runs for long.
func (k *Keeper) erasePass(ctx context.Context, names []sluice.Erasure) error {
	erased := 0
	defer func() {
		if erased > 0 {
			k.Log.Info("deleted users were erased from events", "names", len(names), "rows", erased)
		}
	}()
	for from := int64(0); ; {
		next, ok, err := k.Store.NextEvent(ctx, from)
		if err != nil || !ok {
			return err
		}
		from = next + dayMillis
		for at := (sluice.EventKey{Millis: next}); at.Millis < from; {
			var n int
			if n, at, err = k.Store.EraseEvents(ctx, names, at, from); err != nil {
				return err
			}
			erased += n
		}
	}
}
