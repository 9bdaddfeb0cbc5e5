package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/user/users"
)

// KeepRole is the role of making room: it makes partitions for the days to
// come, and removes rows that are too old and deleted users. It has one place.
const KeepRole = "keep"

// When the keeper works.
const (
	keepEvery     = time.Hour
	keepAgain     = 5 * time.Minute // after something failed
	keepDaysAhead = 7

	// orphanAge is how long a message takes at most from its body to its log.
	orphanAge = time.Hour

	// settledWithin is how long the keeper waits for what is in the logs.
	settledWithin = time.Minute
)

const dayMillis = int64(24 * time.Hour / time.Millisecond)

// Retention says for how many days what is kept; 0: for ever.
type Retention struct {
	Events      map[sluice.EventKind]int // of all four kinds
	SeriesHours int
	SeriesDays  int
	DeadLetters int
	Sends       int
}

// eventKinds are the kinds of events.
var eventKinds = []sluice.EventKind{sluice.KindMail, sluice.KindCustom, sluice.KindPurchase, sluice.KindSystem}

// cutoff returns the moment before which rows kept for so many days are
// deleted, or false if they are kept for ever. It is a midnight, UTC, so that
// days go as a whole. A row kept for 30 days is there for at least 30 days and
// at most 31.
func cutoff(days int, now time.Time) (millis int64, ok bool) {
	if days <= 0 {
		return 0, false
	}
	ms := now.UnixMilli() - int64(days)*dayMillis
	return ms - ms%dayMillis, true
}

// CheckKept refuses an event that would be deleted again at once.
func (r Retention) CheckKept(e *sluice.Event, now time.Time) error {
	before, ok := cutoff(r.Events[e.Kind], now)
	if !ok || e.TimeMillis >= before {
		return nil
	}
	return fmt.Errorf("time %s is past the retention of %s events, %d days: it would be deleted at once (setting retention.events.%s)",
		time.UnixMilli(e.TimeMillis).UTC().Format(time.RFC3339), e.Kind, r.Events[e.Kind], e.Kind)
}

// longest returns before which moment no event is kept, whatever its kind.
func (r Retention) longest(now time.Time) (millis int64, ok bool) {
	days := 0
	for _, kind := range eventKinds {
		if r.Events[kind] <= 0 {
			return 0, false
		}
		days = max(days, r.Events[kind])
	}
	return cutoff(days, now)
}

// Keeper makes the days of the events table that come, and takes away what is
// past its retention.
//
// The idea. A day of events goes as a whole, as a partition, when it is past
// the longest retention of all kinds. The rest is deleted in pieces of some
// thousand rows. The rest is kinds that are kept shorter, events that have no
// day of their own, series and dead letters. In a database without partitions
// it is everything. A piece is a transaction of the store's writer, between two
// of the store follower's.
//
// The invariants. It may run twice at once, and be stopped anywhere: every step
// can be repeated. It keeps a place only in memory: where it stopped looking
// through events of a kind that is kept shorter. To find that again means to
// read past all the others. So a new holder of the lease looks through all of
// them once. Events past the retention of every kind are looked for every time:
// there are none, or few that came late.
//
// One clock alone decides nothing, because a deletion cannot be undone. The
// time is the earlier of this machine's and the main Redis's. So a machine that
// comes up years ahead empties no table, and makes no days for those years.
type Keeper struct {
	Store     sluice.KeepStore
	Leases    *flow.Leases
	Clock     sluice.Clock
	Log       *slog.Logger
	Retention Retention

	// OtherClock returns the main Redis's time, in milliseconds since 1970.
	OtherClock func(ctx context.Context) (millis int64, err error)

	// Cancel stops pending sends of erased users. nil: they stay.
	Cancel func(ctx context.Context, sends []sluice.SendRow) error

	// TakeOut takes cancelled sends of erased users out of the sends that wait
	// for a time. nil: they stay there until then.
	TakeOut func(ctx context.Context, sends []sluice.SendRow) error

	// Settled waits until all that the logs have by now is in the database.
	// nil: bodies stay, and names of deleted users go after eraseAgain.
	Settled func(ctx context.Context) error

	clean    map[sluice.EventKind]int64 // before this, none of the kind is left
	erasedTo int64                      // names written before it have been passed once, by this holder
	sendsTo  int64                      // the same of sends
	erased   bool                       // and the database has not overwritten it yet
}

// Run works while this process has the lease, until fetch ends.
func (k *Keeper) Run(fetch, _ context.Context) {
	for fetch.Err() == nil {
		held, changed := k.Leases.Held(KeepRole)
		if len(held) == 0 {
			k.clean, k.erasedTo, k.sendsTo = nil, 0, 0
			select {
			case <-changed:
			case <-fetch.Done():
			}
			continue
		}
		pause := keepEvery
		if err := k.Pass(fetch); err != nil && fetch.Err() == nil {
			pause = keepAgain
			k.Log.Warn("days of events not made, or old rows not removed; it is tried again", "in", pause, "error", err)
		}
		k.between(fetch, pause)
	}
}

// between waits for the next pass. Meanwhile mail to erased users is stopped:
// that does not wait for an hour.
func (k *Keeper) between(ctx context.Context, pause time.Duration) {
	end := k.Clock.Now().Add(pause)
	for ctx.Err() == nil && k.Clock.Now().Before(end) {
		began := k.Clock.Now()
		if err := k.EraseSends(ctx); err != nil && ctx.Err() == nil {
			k.Log.Warn("mail to deleted users not stopped; it is tried again", "error", err)
		}
		// Passes through all sends without a rest would leave time for nothing
		// else.
		timer := time.NewTimer(min(pause, max(eraseSendsEvery, eraseSendsRest*k.Clock.Now().Sub(began))))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if held, _ := k.Leases.Held(KeepRole); len(held) == 0 {
			return
		}
	}
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
	made, err := k.Store.MakeEventDays(ctx, now.UnixMilli()+keepDaysAhead*dayMillis)
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
	for _, kind := range eventKinds {
		errs = append(errs, k.deleteEvents(ctx, kind, now))
	}
	errs = append(errs, k.deleteSeries(ctx, false, k.Retention.SeriesHours, now), k.deleteSeries(ctx, true, k.Retention.SeriesDays, now),
		k.deleteDead(ctx, now), k.deleteSoftBounces(ctx, now), k.deleteSends(ctx, now), k.erase(ctx, now), k.dropOrphans(ctx, now))
	return errors.Join(errs...)
}

func (k *Keeper) dropDays(ctx context.Context, now time.Time) error {
	before, ok := k.Retention.longest(now)
	if !ok {
		return nil
	}
	dropped, err := k.Store.DropEventDays(ctx, before)
	if len(dropped) > 0 {
		k.Log.Info("days of events are past their retention and were dropped", "partitions", dropped)
	}
	return err
}

// deleteEvents deletes the old events of a kind, day by day. So a day without
// any is one short look, and no statement runs for long.
func (k *Keeper) deleteEvents(ctx context.Context, kind sluice.EventKind, now time.Time) error {
	before, ok := cutoff(k.Retention.Events[kind], now)
	if !ok {
		return nil
	}
	longest, _ := k.Retention.longest(now)
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
	for from < to {
		next, ok, err := k.Store.NextEvent(ctx, from)
		if err != nil || !ok || next >= to {
			return err
		}
		for from = min(to, next+dayMillis); next < from; {
			var n int
			if n, next, err = k.Store.DeleteEvents(ctx, kind, next, from); err != nil {
				return err
			}
			deleted += n
		}
	}
	return nil
}

func (k *Keeper) deleteSeries(ctx context.Context, days bool, keep int, now time.Time) error {
	before, ok := cutoff(keep, now)
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

func (k *Keeper) deleteDead(ctx context.Context, now time.Time) error {
	before, ok := cutoff(k.Retention.DeadLetters, now)
	if !ok {
		return nil
	}
	deleted := 0
	defer func() { k.tell(deleted, "dead letters") }()
	for {
		n, more, err := k.Store.DeleteDeadLetters(ctx, before)
		deleted += n
		if err != nil || !more {
			return err
		}
	}
}

// deleteSoftBounces deletes those that count no more.
func (k *Keeper) deleteSoftBounces(ctx context.Context, now time.Time) error {
	before, _ := cutoff(sluice.SoftBounceWindowDays, now)
	deleted := 0
	defer func() { k.tell(deleted, "soft bounces") }()
	for after := ""; ; {
		n, next, err := k.Store.DeleteSoftBounces(ctx, after, before)
		deleted += n
		if err != nil || next == "" {
			return err
		}
		after = next
	}
}

func (k *Keeper) deleteSends(ctx context.Context, now time.Time) error {
	before, ok := cutoff(k.Retention.Sends, now)
	if !ok {
		return nil
	}
	deleted := 0
	defer func() { k.tell(deleted, "sends") }()
	for after := ""; ; {
		n, next, err := k.Store.DeleteSends(ctx, after, before)
		deleted += n
		if err != nil || next == "" {
			return err
		}
		after = next
	}
}

// dropOrphans removes bodies of messages that were never accepted. A body is in
// the database before its sends are, and they wait in a log first: if the store
// is behind, nobody can tell.
func (k *Keeper) dropOrphans(ctx context.Context, now time.Time) error {
	if k.Settled == nil {
		return nil
	}
	if err := k.settle(ctx); err != nil {
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

// settle waits a while until all that the logs have by now is in the database.
func (k *Keeper) settle(ctx context.Context) error {
	if k.Settled == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, settledWithin)
	defer stop()
	return k.Settled(ctx)
}

func (k *Keeper) tell(deleted int, what string) {
	if deleted > 0 {
		k.Log.Info("rows are past their retention and were deleted", "what", what, "rows", deleted)
	}
}
