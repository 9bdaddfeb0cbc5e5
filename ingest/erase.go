package ingest

import (
	"context"
	"time"

	"sluice"
)

// When users are erased a second time: what was in the logs when they were
// erased has been stored by then.
const (
	eraseAgain = 24 * time.Hour

	// eraseOverlap is how long the transaction may take that writes a name.
	eraseOverlap = 5 * time.Minute
)

// erase erases users from events and dead letters: a name at once, that is in
// the first pass after it was written, and once more a day later, when it is done
// with. A pass looks through all of them for up to sluice.MaxErasures names.
//
// What has been passed once is kept in memory only, as a moment: a new holder of
// the lease passes all names again.
func (k *Keeper) erase(ctx context.Context, now time.Time) error {
	dayAgo := now.Add(-eraseAgain).UnixMilli()
	if err := k.erasePasses(ctx, 0, dayAgo, true); err != nil {
		return err
	}
	if err := k.erasePasses(ctx, max(k.erasedTo, dayAgo), now.UnixMilli(), false); err != nil {
		return err
	}
	k.erasedTo = now.Add(-eraseOverlap).UnixMilli()
	return nil
}

// erasePasses erases the names that were written in a range of time.
func (k *Keeper) erasePasses(ctx context.Context, from, to int64, done bool) error {
	after := ""
	for {
		names, err := k.Store.Erasures(ctx, after, from, to, sluice.MaxErasures)
		if err != nil || len(names) == 0 {
			return err
		}
		if err := k.erasePass(ctx, names); err != nil {
			return err
		}
		if err := k.eraseDead(ctx, names); err != nil {
			return err
		}
		if done {
			if err := k.Store.Erased(ctx, names, to); err != nil {
				return err
			}
		}
		after = names[len(names)-1].Name
	}
}

// erasePass looks through all events, day by day: so no statement runs for long.
func (k *Keeper) erasePass(ctx context.Context, names []sluice.Erasure) error {
	erased := 0
	defer func() {
		if erased > 0 {
			k.Log.Info("users who were deleted were erased from events", "names", len(names), "rows", erased)
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
