// Package retention makes room in the database: it makes the days of events that
// come, and removes what is past its retention.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/mail"
	"sluice/ops/erasure"
	"sluice/store"
	"sluice/user/users"
)

// Role is the role of making room: it makes partitions for the days to
// come, and removes rows that are too old and deleted users. It has one place.
const Role = "keep"

// When the keeper works.
const (
	lookEvery = time.Hour
	lookAgain = 5 * time.Minute // after something failed
	daysAhead = 7

	// orphanAge is how long a message takes at most from its body to its log.
	orphanAge = time.Hour
)

// lateMillis is how late an event may come and still lose its address in time: files of
// opens and clicks wait while Redis is away.
const lateMillis = 3 * dayMillis

// auditDays is how long the audit log is kept.
const auditDays = 365

const (
	dayMillis = int64(24 * time.Hour / time.Millisecond)

	// stepMillis is how long a range of events is that one statement goes through.
	stepMillis = int64(time.Hour / time.Millisecond)
)

// Keeper makes the days of the events table that come, and takes away what is
// past its retention.
//
// The idea. A day of events goes as a whole, as a partition, when it is past
// the longest retention of all kinds. The rest is deleted in pieces of some
// thousand rows. The rest is kinds that are kept shorter, events that have no
// day of their own, series, dead letters and all other tables. In a database without partitions
// it is everything. A piece is a transaction of the store's writer, between two
// of the store follower's.
//
// The invariants. It may run twice at once, and be stopped anywhere: every step
// can be repeated. It keeps places only in memory: where it stopped looking
// through events of a kind that is kept shorter or loses addresses, and when it last
// looked through tables as a whole. To find that again means to
// read past all the others. So a new holder of the lease looks through all of
// them once. Events past the retention of every kind are looked for every time:
// there are none, or few that came late.
//
// One clock alone decides nothing, because a deletion cannot be undone. The
// time is the earlier of this machine's and the main Redis's. So a machine that
// comes up years ahead empties no table, and makes no days for those years.
type Keeper struct {
	Store     store.RetentionStore
	Leases    *flow.Leases
	Clock     sluice.Clock
	Log       *slog.Logger
	Retention ingest.Retention

	// AddressDays is for how many days opens and clicks keep addresses and user
	// agents; 0: for ever.
	AddressDays int

	// OtherClock returns the main Redis's time, in milliseconds since 1970.
	OtherClock func(ctx context.Context) (millis int64, err error)

	// ForgetImport makes the logs forget an import whose file came in pieces.
	ForgetImport func(ctx context.Context, id string) error

	// Erasure takes deleted users out of everything that is kept.
	Erasure *erasure.Eraser

	clean  map[sluice.EventKind]int64 // before this, none of the kind is left
	forgot int64                      // before this, no addresses are left
	daily  map[string]int64           // when a table was last looked through as a whole
}

// Run works while this process has the lease, until fetch ends. Mail to erased users is
// stopped beside the passes, one of which may read all events.
func (k *Keeper) Run(fetch, _ context.Context) {
	var stopping sync.WaitGroup
	stopping.Go(func() { k.stopMail(fetch) })
	defer stopping.Wait()
	for fetch.Err() == nil {
		held, _ := k.Leases.Held(Role)
		if len(held) == 0 {
			k.clean, k.forgot, k.daily = nil, 0, nil
			k.Erasure.Forget()
			k.Leases.WaitForChange(fetch, Role, held)
			continue
		}
		pause := lookEvery
		if err := k.Pass(fetch); err != nil && fetch.Err() == nil {
			pause = lookAgain
			k.Log.Warn("days of events not made, or old rows not removed; it is tried again", "in", pause, "error", err)
		}
		resting, stop := context.WithTimeout(fetch, pause)
		k.Leases.WaitForChange(resting, Role, held)
		stop()
	}
}

// stopMail stops the mail to erased users while this process has the lease, until ctx ends.
func (k *Keeper) stopMail(ctx context.Context) {
	for ctx.Err() == nil {
		held, _ := k.Leases.Held(Role)
		if len(held) == 0 {
			k.Erasure.ForgetSends()
			k.Leases.WaitForChange(ctx, Role, held)
			continue
		}
		began := k.Clock.Now()
		if err := k.EraseSends(ctx); err != nil && ctx.Err() == nil {
			k.Log.Warn("mail to deleted users not stopped; it is tried again", "error", err)
		}
		// Passes through all sends without a rest would leave time for nothing
		// else.
		_ = sluice.Pause(ctx, min(lookEvery, max(erasure.SendsEvery, erasure.SendsRest*k.Clock.Now().Sub(began))))
	}
}

// EraseSends stops the mail to users who were deleted since it was called last.
func (k *Keeper) EraseSends(ctx context.Context) error {
	now, err := k.now(ctx)
	if err != nil {
		return err
	}
	return k.Erasure.Sends(ctx, now)
}

// now returns the earlier of the two clocks' times.
func (k *Keeper) now(ctx context.Context) (time.Time, error) {
	other, err := k.OtherClock(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("compare the clock before anything is removed: %w", err)
	}
	now := k.Clock.Now()
	if theirs := time.UnixMilli(other); theirs.Before(now) {
		return theirs, nil
	}
	return now, nil
}

// MakeDays makes the days that come. A start does it before events are stored:
// those that have no day must be moved later.
func (k *Keeper) MakeDays(ctx context.Context) error {
	now, err := k.now(ctx)
	if err != nil {
		return err
	}
	return k.makeDays(ctx, now)
}

func (k *Keeper) makeDays(ctx context.Context, now time.Time) error {
	made, err := k.Store.MakeEventDays(ctx, now.UnixMilli()+daysAhead*dayMillis)
	if made > 0 {
		k.Log.Info("days of events were made", "days", made)
	}
	return err
}

// Pass does all that there is to do now. What fails does not keep the rest from
// being done.
func (k *Keeper) Pass(ctx context.Context) error {
	now, err := k.now(ctx)
	if err != nil {
		return err
	}
	errs := []error{k.makeDays(ctx, now), k.dropDays(ctx, now)}
	for _, kind := range ingest.EventKinds {
		errs = append(errs, k.deleteEvents(ctx, kind, now))
	}
	errs = append(errs, k.forgetAddresses(ctx, now), k.deleteSeries(ctx, false, k.Retention.SeriesHours, now), k.deleteSeries(ctx, true, k.Retention.SeriesDays, now),
		k.deleteReactions(ctx, now), k.deleteDead(ctx, now), k.deleteSoftBounces(ctx, now), k.deleteSends(ctx, now), k.deleteLinks(ctx, now), k.deleteContexts(ctx, now), k.dropImports(ctx, now), k.dropEnded(ctx, now), k.Erasure.Pass(ctx, now), k.dropOrphans(ctx, now))
	return errors.Join(errs...)
}

// dropEnded removes sessions that have ended, and the audit log of long ago.
func (k *Keeper) dropEnded(ctx context.Context, now time.Time) error {
	return k.Store.DropEnded(ctx, now.UnixMilli(), sluice.NewUUID(now.AddDate(0, 0, -auditDays)))
}

// importDays is how long an import by HTTP is kept after its last change: until then it
// goes on, and is undone.
const importDays = 90

// importsAtOnce bounds how many ids of imports are read at once.
const importsAtOnce = 100

// dropImports removes imports of long ago. The logs forget one before its row goes: nothing
// else names it.
func (k *Keeper) dropImports(ctx context.Context, now time.Time) error {
	return k.whileMore("imports", func() (dropped int, more bool, err error) {
		old, err := k.Store.OldImports(ctx, now.AddDate(0, 0, -importDays).UnixMilli(), importsAtOnce)
		for _, id := range old {
			if err == nil {
				err = k.ForgetImport(ctx, id)
			}
			if err == nil {
				err = k.Store.DropImport(ctx, id)
			}
			if err != nil {
				return dropped, false, err
			}
			dropped++
		}
		return dropped, len(old) == importsAtOnce, err
	})
}

func (k *Keeper) dropDays(ctx context.Context, now time.Time) error {
	before, ok := k.Retention.Longest(now)
	if !ok {
		return nil
	}
	dropped, err := k.Store.DropEventDays(ctx, before)
	if len(dropped) > 0 {
		k.Log.Info("days of events are past their retention and were dropped", "partitions", dropped)
	}
	return err
}

// deleteEvents deletes the old events of a kind, hour by hour. So an hour without
// any is one short look, and no statement runs for long.
func (k *Keeper) deleteEvents(ctx context.Context, kind sluice.EventKind, now time.Time) error {
	before, ok := ingest.Cutoff(k.Retention.Events[kind], now)
	if !ok {
		return nil
	}
	longest, _ := k.Retention.Longest(now)
	err := k.deleteBetween(ctx, kind, 0, longest)
	if err == nil {
		err = k.deleteBetween(ctx, kind, max(longest, k.clean[kind]), before)
	}
	if err != nil {
		return err
	}
	if k.clean == nil {
		k.clean = make(map[sluice.EventKind]int64)
	}
	k.clean[kind] = before
	return nil
}

func (k *Keeper) deleteBetween(ctx context.Context, kind sluice.EventKind, from, to int64) error {
	deleted := 0
	defer func() { k.tell(deleted, kind.String()+" events") }()
	return k.eachPiece(ctx, from, to, func(from, to int64) (int64, error) {
		n, reached, err := k.Store.DeleteEvents(ctx, kind, from, to)
		deleted += n
		return reached, err
	})
}

// forgetAddresses takes addresses and user agents out of old opens and clicks. Events
// that come more than lateMillis late are seen when the lease has another holder next.
func (k *Keeper) forgetAddresses(ctx context.Context, now time.Time) error {
	before, ok := ingest.Cutoff(k.AddressDays, now)
	if !ok {
		return nil
	}
	changed := 0
	defer func() {
		if changed > 0 {
			k.Log.Info("opens and clicks were left without addresses and user agents: they are past track.keep_addresses_days", "events", changed)
		}
	}()
	err := k.eachPiece(ctx, max(0, k.forgot-lateMillis), before, func(from, to int64) (int64, error) {
		n, reached, err := k.Store.ForgetAddresses(ctx, from, to)
		changed += n
		return reached, err
	})
	if err == nil {
		k.forgot = before
	}
	return err
}

// eachPiece calls piece for a range of events, hour by hour, until it has reached its end.
// An hour without any is one short look. A statement that has to find few rows among those
// of a day may say nothing for minutes, and a connection that is silent for long is given up.
func (k *Keeper) eachPiece(ctx context.Context, from, to int64, piece func(from, to int64) (reached int64, err error)) error {
	for from < to {
		next, ok, err := k.Store.NextEvent(ctx, from)
		if err != nil || !ok || next >= to {
			return err
		}
		for from = min(to, next+stepMillis); next < from; {
			if next, err = piece(next, from); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *Keeper) deleteSeries(ctx context.Context, days bool, keep int, now time.Time) error {
	before, ok := ingest.Cutoff(keep, now)
	if !ok {
		return nil
	}
	var staying []string
	if days { // the users active in a month are added up from all days there ever were
		staying = []string{users.MonthIn, users.MonthOut}
	}
	deleted, err := k.Store.DeleteSeries(ctx, days, before, staying...)
	k.tell(deleted, "rows of the series")
	return err
}

// deleteReactions deletes counts of mail, which are by hour as those of the series are.
func (k *Keeper) deleteReactions(ctx context.Context, now time.Time) error {
	before, ok := ingest.Cutoff(k.Retention.SeriesHours, now)
	if !ok {
		return nil
	}
	return k.whileMore("counts of reactions to mail", func() (int, bool, error) { return k.Store.DeleteReactions(ctx, before) })
}

func (k *Keeper) deleteDead(ctx context.Context, now time.Time) error {
	before, ok := ingest.Cutoff(k.Retention.DeadLetters, now)
	if !ok {
		return nil
	}
	return k.whileMore("dead letters", func() (int, bool, error) { return k.Store.DeleteDeadLetters(ctx, before) })
}

// deleteSoftBounces deletes those that count no more.
func (k *Keeper) deleteSoftBounces(ctx context.Context, now time.Time) error {
	before, _ := ingest.Cutoff(mail.SoftBounceWindowDays, now)
	return k.onceADay("soft bounces", now, func(after string) (int, string, error) { return k.Store.DeleteSoftBounces(ctx, after, before) })
}

func (k *Keeper) deleteSends(ctx context.Context, now time.Time) error {
	before, ok := ingest.Cutoff(k.Retention.Sends, now)
	if !ok {
		return nil
	}
	return k.piecewise("sends", func(after string) (int, string, error) { return k.Store.DeleteSends(ctx, after, before) })
}

// linkDays is for how many days after the last mail with a long link its target is kept
// at least: people click in mails that they have kept.
const linkDays = 400

// deleteLinks deletes the targets of long links in mails of long ago.
func (k *Keeper) deleteLinks(ctx context.Context, now time.Time) error {
	if k.Retention.Sends == 0 {
		return nil
	}
	before, _ := ingest.Cutoff(max(linkDays, k.Retention.Sends), now)
	return k.onceADay("targets of links in mails", now, func(after string) (int, string, error) { return k.Store.DeleteLinks(ctx, after, before) })
}

// contextsAge is how long what people entered a journey with stays after they have left:
// a Redis that goes back by less may have them inside again.
const contextsAge = 24 * time.Hour

func (k *Keeper) deleteContexts(ctx context.Context, now time.Time) error {
	return k.whileMore("contexts of people who have left a journey", func() (int, bool, error) { return k.Store.DeleteContexts(ctx, now.Add(-contextsAge).UnixMilli()) })
}

// onceADay is piecewise for a table that has no index by time: a pass reads all of it.
func (k *Keeper) onceADay(what string, now time.Time, piece func(after string) (n int, next string, err error)) error {
	if since := now.UnixMilli() - k.daily[what]; since >= 0 && since < dayMillis {
		return nil
	}
	err := k.piecewise(what, piece)
	if err == nil {
		if k.daily == nil {
			k.daily = make(map[string]int64)
		}
		k.daily[what] = now.UnixMilli()
	}
	return err
}

// piecewise deletes rows, a piece a call, until a call names no next one.
func (k *Keeper) piecewise(what string, piece func(after string) (n int, next string, err error)) error {
	deleted := 0
	defer func() { k.tell(deleted, what) }()
	for after := ""; ; {
		n, next, err := piece(after)
		deleted += n
		if err != nil || next == "" {
			return err
		}
		after = next
	}
}

// whileMore deletes rows, a piece a call, until there are no more.
func (k *Keeper) whileMore(what string, piece func() (n int, more bool, err error)) error {
	return k.piecewise(what, func(string) (n int, next string, err error) {
		n, more, err := piece()
		if more {
			next = "more"
		}
		return n, next, err
	})
}

// dropOrphans removes bodies of messages that were never accepted. A body is in
// the database before its sends are, and they wait in a log first: if the store
// is behind, nobody can tell.
func (k *Keeper) dropOrphans(ctx context.Context, now time.Time) error {
	if k.Erasure.Settled == nil {
		return nil
	}
	if err := k.Erasure.Settle(ctx); err != nil {
		return fmt.Errorf("look for bodies that no send needs: %w", err)
	}
	dropped := 0
	defer func() {
		if dropped > 0 {
			k.Log.Info("bodies of messages that were not accepted were removed", "bodies", dropped)
		}
	}()
	for {
		n, err := k.Store.DropOrphans(ctx, now.Add(-orphanAge).UnixMilli())
		dropped += n
		if err != nil || n == 0 {
			return err
		}
	}
}

func (k *Keeper) tell(deleted int, what string) {
	if deleted > 0 {
		k.Log.Info("rows are past their retention and were deleted", "what", what, "rows", deleted)
	}
}
