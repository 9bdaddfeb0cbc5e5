// Package erasure takes deleted users out of everything that is kept: sends, events,
// soft bounces, facts for journeys, dead letters, the audit log, and the database's files.
package erasure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
)

const (
	// eraseAgain is the age at which a name is finished. An event accepted so
	// long after it belongs to nobody of that name, and applied entries have
	// left the logs.
	eraseAgain = store.ErasureMarginMillis*time.Millisecond + sendsOverlap

	// eraseOverlap is how long the transaction may take that writes a name.
	eraseOverlap = 5 * time.Minute

	// SendsEvery is how often new names are looked for, to stop the mail
	// to them. After a pass through all sends comes a rest of so many times its
	// duration.
	SendsEvery = 5 * time.Second
	SendsRest  = 10

	// sendsFor is for how long the mail to a name is looked for again and again
	// while some of it has not ended. After that the passes over the events look.
	sendsFor = 24 * time.Hour

	// sendsOverlap is how long after its name a user's sends are looked
	// for again. Some may have been on their way into the ledger, or be read
	// again from the log, where applied entries stay for a minute.
	sendsOverlap = 90 * time.Second

	// settledWithin is how long is waited for what is in the logs.
	settledWithin = time.Minute
)

// stepMillis is how long a range of events is that one statement looks through.
const stepMillis = int64(time.Hour / time.Millisecond)

// Eraser erases users. What it has passed is known to one holder of a lease. One goroutine
// calls Pass and Forget; Sends and ForgetSends are called by one, which may be another: a
// pass takes hours where there are many events.
type Eraser struct {
	Store store.RetentionStore
	Log   *slog.Logger

	// Cancel stops pending sends of erased users. nil: they stay.
	Cancel func(ctx context.Context, sends []mail.SendRow) error

	// TakeOut takes cancelled sends of erased users out of the sends that wait
	// for a time. nil: they stay there until then.
	TakeOut func(ctx context.Context, sends []mail.SendRow) error

	// Settled waits until all that the logs have by now is in the database.
	// nil: names of deleted users go after eraseAgain.
	Settled func(ctx context.Context) error

	erasedTo int64 // names written before it have been passed once, by this holder
	erased   bool  // and the database has not overwritten it yet

	sendsTo int64 // as erasedTo, of Sends
}

// Forget begins anew: another process held the lease meanwhile.
func (x *Eraser) Forget() { x.erasedTo = 0 }

// ForgetSends is Forget for Sends.
func (x *Eraser) ForgetSends() { x.sendsTo = 0 }

// Settle waits a while until all that the logs have by now is in the database.
func (x *Eraser) Settle(ctx context.Context) error {
	if x.Settled == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, settledWithin)
	defer stop()
	return x.Settled(ctx)
}

// Pass erases users from sends, events, soft bounces, facts, dead letters and the audit
// log. A name
// is erased in the first pass after it was written, and once more after
// eraseAgain. Then it is finished and is deleted. A pass looks through all of
// them for up to store.MaxErasures names.
//
// A name is in plain text until then, because the database searches all events
// for it. A search by hash would have to compute the hash of each of them. The
// name stays only as long as it is needed: until all entries of the logs are
// stored, however long that takes, and have been searched once more.
//
// What has been passed once is kept in memory only, as a moment: a new holder of
// the lease passes all names again.
func (x *Eraser) Pass(ctx context.Context, now time.Time) error {
	last := now.Add(-eraseAgain).UnixMilli()
	failed := x.erasePasses(ctx, max(x.erasedTo, last), now.UnixMilli(), false)
	passed, err := x.last(ctx, last)
	if passed && failed == nil {
		x.erasedTo = now.Add(-eraseOverlap).UnixMilli()
	}
	return errors.Join(failed, err, x.overwrite(ctx))
}

// last erases the names that were written before a moment for the last time. As
// long as that has to wait, those are passed that this holder has not passed yet; it
// returns whether all of them have been.
func (x *Eraser) last(ctx context.Context, before int64) (passed bool, err error) {
	passed = x.erasedTo >= before
	names, err := x.Store.Erasures(ctx, "", 0, before, 1)
	if err != nil || len(names) == 0 {
		return passed || err == nil, err
	}
	if err = x.Settle(ctx); err == nil {
		err = x.erasePasses(ctx, 0, before, true)
		return passed || err == nil, err
	}
	err = fmt.Errorf("forget the names of deleted users, which events not stored yet may have: %w", err)
	if !passed {
		more := x.erasePasses(ctx, x.erasedTo, before, false)
		passed, err = more == nil, errors.Join(err, more)
	}
	return passed, err
}

// overwrite has what was erased overwritten in the database's files.
func (x *Eraser) overwrite(ctx context.Context) error {
	if !x.erased {
		return nil
	}
	if err := x.Store.Overwrite(ctx); err != nil {
		return err
	}
	x.erased = false
	return nil
}

// tell logs what was erased, if anything was.
func (x *Eraser) tell(what string, names []store.Erasure, rows int) {
	if rows > 0 {
		x.Log.Info(what, "names", len(names), "rows", rows)
	}
}

// eraseFacts deletes what journeys have not read yet of what some people did.
func (x *Eraser) eraseFacts(ctx context.Context, names []store.Erasure) error {
	erased, err := x.Store.EraseFacts(ctx, names)
	x.tell("facts for journeys of deleted users were deleted", names, erased)
	return err
}

// eraseAudit takes users out of what accounts changed: who changed what kind of thing,
// when, and how it was answered stays.
func (x *Eraser) eraseAudit(ctx context.Context, names []store.Erasure) error {
	erased := 0
	defer func() { x.tell("deleted users were erased from the audit log", names, erased) }()
	for after := ""; ; {
		n, next, err := x.Store.EraseAudit(ctx, names, after)
		erased += n
		if err != nil || next == "" {
			return err
		}
		after = next
	}
}

// erasePasses erases the names that were written in a range of time. Where mail of some
// could not be stopped, as of a partition that stands still, all else is erased, of all of
// them; the names stay, and the error is returned.
func (x *Eraser) erasePasses(ctx context.Context, from, to int64, done bool) error {
	var failed error
	err := x.eachErasure(ctx, from, to, func(names []store.Erasure) error {
		// Events come after the sends: what becomes of a send that is stopped is one.
		open, err := x.eraseSends(ctx, names)
		if err != nil {
			failed = err
		}
		for _, pass := range []func(context.Context, []store.Erasure) error{x.erasePass, x.eraseSoftBounces, x.eraseFacts, x.eraseDead, x.eraseAudit} {
			if err := pass(ctx, names); err != nil {
				return err
			}
		}
		x.erased = true
		if !done || open > 0 || err != nil {
			return nil
		}
		return x.Store.Erased(ctx, names, to)
	})
	return errors.Join(failed, err)
}

// eachErasure calls f with the names that were written in a range of time, in
// pieces.
func (x *Eraser) eachErasure(ctx context.Context, from, to int64, f func(names []store.Erasure) error) error {
	for after := ""; ; {
		names, err := x.Store.Erasures(ctx, after, from, to, store.MaxErasures)
		if err != nil || len(names) == 0 {
			return err
		}
		if err := f(names); err != nil {
			return err
		}
		after = names[len(names)-1].Name
	}
}

// Sends stops the mail to users named since it was called last, and erases them
// from the ledger.
func (x *Eraser) Sends(ctx context.Context, now time.Time) error {
	from, open := max(x.sendsTo, now.Add(-sendsFor).UnixMilli()), 0
	var failed error
	err := x.eachErasure(ctx, from, now.UnixMilli(), func(names []store.Erasure) error {
		n, err := x.eraseSends(ctx, names)
		if open += n; err != nil {
			failed = err
		}
		return nil
	})
	if err = errors.Join(failed, err); err == nil && open == 0 { // else all of these names are looked for again
		x.sendsTo = now.Add(-sendsOverlap).UnixMilli()
	}
	return err
}

// eraseSends looks through the ledger. A send that is pending or in doubt is
// stopped. A later pass erases its row when it has ended. A row that nobody can
// find again would let its mail go. If the mail is on the wire, its text would
// stay in Redis for as long as it is in doubt. eraseSends returns how many
// sends have not ended. Those of a partition whose mail cannot be stopped stay as they
// are, and it returns the error when it has done all others.
func (x *Eraser) eraseSends(ctx context.Context, names []store.Erasure) (open int, err error) {
	erased, stopped := 0, 0
	defer func() {
		if erased > 0 {
			x.Log.Info("deleted users were erased from sends", "names", len(names), "sends", erased, "stopped", stopped)
		}
	}()
	var failed error
	for after := ""; ; {
		sends, next, err := x.Store.SendsOf(ctx, names, after)
		if err != nil {
			return open, err
		}
		going, ended := make(map[int][]mail.SendRow), make(map[int][]mail.SendRow) // by partition
		for _, s := range sends {
			if !s.Ended() && x.Cancel != nil {
				going[s.Partition] = append(going[s.Partition], s)
			} else {
				ended[s.Partition] = append(ended[s.Partition], s)
			}
		}
		for _, rows := range going {
			open += len(rows)
			if err := x.Cancel(ctx, rows); err != nil {
				failed = err
				continue
			}
			stopped += len(rows)
		}
		for _, rows := range ended {
			n, err := x.eraseEnded(ctx, rows)
			if err != nil {
				failed, open = err, open+len(rows)
			}
			erased += n
		}
		if next == "" || ctx.Err() != nil {
			return open, errors.Join(failed, ctx.Err())
		}
		after = next
	}
}

// eraseEnded erases sends of a partition from the ledger, and returns how many. What
// waits for a time is taken out before, or nobody would find it again.
func (x *Eraser) eraseEnded(ctx context.Context, rows []mail.SendRow) (int, error) {
	if x.TakeOut != nil {
		if err := x.TakeOut(ctx, rows); err != nil {
			return 0, err
		}
	}
	return len(rows), x.Store.EraseSends(ctx, rows)
}

// eraseSoftBounces deletes on which days addresses did not take mail. What
// suppresses them stays: it keeps mail from people, and is theirs.
func (x *Eraser) eraseSoftBounces(ctx context.Context, names []store.Erasure) error {
	erased, err := x.Store.EraseSoftBounces(ctx, names)
	x.tell("deleted users were erased from soft bounces", names, erased)
	return err
}

// erasePass looks through all events, hour by hour: so no statement runs for long.
func (x *Eraser) erasePass(ctx context.Context, names []store.Erasure) error {
	erased := 0
	defer func() { x.tell("deleted users were erased from events", names, erased) }()
	for from := int64(0); ; {
		next, ok, err := x.Store.NextEvent(ctx, from)
		if err != nil || !ok {
			return err
		}
		from = next + stepMillis
		for at := (sluice.EventKey{Millis: next}); at.Millis < from; {
			var n int
			if n, at, err = x.Store.EraseEvents(ctx, names, at, from); err != nil {
				return err
			}
			erased += n
		}
	}
}
