package suppress

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice"
	"sluice/mail"
)

// Bounds of following.
const (
	// lookEvery is how often the number of the last change is read. What is
	// committed is in force after that and the time of a look or two.
	lookEvery = 500 * time.Millisecond

	// lookTimeout bounds one look.
	lookTimeout = 10 * time.Second

	// loadRows and changeRows are read at once.
	loadRows   = 50_000
	changeRows = 5_000

	// sayEvery is how often a long load says where it is.
	sayEvery = 5 * time.Second
)

// Follower keeps a List as the database has it. It reads all suppressions once.
// From then on it reads the number of the last change twice a second, which is
// one row by its key. Where that has risen it reads what has changed. Nobody
// has to tell it, so it matters to nobody whether Redis answers. While the
// database does not, the list stays as it is: nothing is changed then, since
// changes are transactions. But another process may reach the database and take
// an unsubscribe. So the list has an age, and senders take no mail with a list
// that is too old (age.go).
type Follower struct {
	*List
	Store mail.SuppressionStore
	Clock sluice.Clock
	Log   *slog.Logger

	// Oldest bounds the age of a list that mail is checked against.
	Oldest Ages

	mu     sync.Mutex
	at     int64     // all changes up to it are in the list
	looked time.Time // when the last successful look began, by the machine's own clock (age.go)
	failed error
	stale  [2]bool // what the log was told, by class: owned by the goroutine that follows
}

// Check is List.Check, with the word of the reason.
func (f *Follower) Check(address string, class mail.Class, app string) (reason string, suppressed bool) {
	v, suppressed := f.List.Check(address, class, app)
	if !suppressed {
		return "", false
	}
	return v.Reason.String(), true
}

// Status is how far a follower is.
type Status struct {
	Number int64         // of the last change that is in force here
	Age    time.Duration // how long ago it was last known that there is no other
	Err    error         // why it is not known now
}

// Status returns how far it is.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Status{f.at, age(f.looked, time.Now()), f.failed}
}

// Load reads all suppressions. Nothing may be sent before it has returned.
func (f *Follower) Load(ctx context.Context) error {
	began, looked := f.Clock.Now(), time.Now()
	// First the number, then the rows: what changes meanwhile is read again.
	last, err := f.Store.LastSuppression(ctx)
	if err != nil {
		return fmt.Errorf("load suppressions: %w", err)
	}
	all, err := f.Store.CountSuppressions(ctx)
	if err != nil {
		return fmt.Errorf("load suppressions: %w", err)
	}
	fresh := newSets(f.Clock)
	if all > loadRows {
		fresh.addresses.Reserve(int(all)) // tables that grow end up larger
	}
	var after mail.SuppressionKey
	said, rows, now := began, int64(0), began.UnixMilli()
	for {
		n, err := f.Store.HeldSuppressions(ctx, after, loadRows, func(s *mail.Suppression) {
			fresh.change(s, now)
			after = s.Key()
		})
		if err != nil {
			return fmt.Errorf("load suppressions, after %d of %d: %w", rows, all, err)
		}
		if rows += int64(n); n < loadRows {
			break
		}
		if t := f.Clock.Now(); t.Sub(said) >= sayEvery {
			said = t
			f.Log.Info("suppressions are read", "rows", rows, "of about", all)
		}
	}
	f.List.sets.Store(fresh)
	if rows > 0 {
		f.Log.Info("suppressions are in memory", "rows", rows, "seconds", f.Clock.Now().Sub(began).Seconds())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.looked, f.failed = last, looked, nil
	return nil
}

// Run follows until a context ends.
func (f *Follower) Run(fetch, work context.Context) {
	for {
		select {
		case <-fetch.Done():
			return
		case <-work.Done():
			return
		case <-time.After(sluice.Rest(time.Now(), lookEvery)):
		}
		if err := f.Look(fetch); err != nil && fetch.Err() == nil {
			f.fail(err)
		}
		f.tellAge()
	}
}

// fail notes an error, and logs the first of a row of them.
func (f *Follower) fail(err error) {
	f.mu.Lock()
	first := f.failed == nil
	f.failed = err
	f.mu.Unlock()
	if first {
		f.Log.Warn("changes of suppressions cannot be read; the known ones stay in force, and the read is retried", "error", err)
	}
}

// Look brings in what has changed.
func (f *Follower) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	began, looked := f.Clock.Now(), time.Now()
	at := f.Status().Number // nobody else changes it
	last, err := f.Store.LastSuppression(ctx)
	if err != nil {
		return err
	}
	if last < at { // the database has gone back in time
		f.Log.Warn("the database has fewer changes of suppressions than were read from it: all are read again", "last", last, "read", at)
		return f.Load(context.WithoutCancel(ctx))
	}
	sets, now := f.List.sets.Load(), began.UnixMilli()
	for at < last {
		n := 0
		err := f.Store.SuppressionChanges(ctx, at, changeRows, func(s *mail.Suppression) {
			sets.change(s, now)
			at = max(at, s.Number)
			n++
		})
		if err != nil {
			return err
		}
		if n < changeRows {
			at = max(at, last) // numbers that changed nothing belong to no row
		}
		f.reached(at, time.Time{})
	}
	f.reached(at, looked)
	return nil
}

// reached notes how far it is, and since when nothing is wrong.
func (f *Follower) reached(at int64, looked time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = at
	if !looked.IsZero() {
		f.looked, f.failed = looked, nil
	}
}
