package suppress

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/mail"
)

// away is a store whose database is reached or not, as a test wants it.
type away struct {
	mail.SuppressionStore
	err atomic.Pointer[error] // nil: it is reached
}

func (a *away) failure() error {
	if err := a.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (a *away) LastSuppression(context.Context) (int64, error)   { return 0, a.failure() }
func (a *away) CountSuppressions(context.Context) (int64, error) { return 0, a.failure() }

func (a *away) HeldSuppressions(context.Context, mail.SuppressionKey, int, func(*mail.Suppression)) (int, error) {
	return 0, a.failure()
}

// A list grows old while its database is away, or its process is stopped, and is
// recent again after the next look.
func TestAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		database := &away{}
		f, _ := follow(t, database)
		f.Oldest = Ages{Marketing: 5 * time.Second, Transactional: 60 * time.Second}
		is := func(what string, marketing, transactional bool) {
			t.Helper()
			if f.Fresh(mail.ClassMarketing) != marketing || f.Fresh(mail.ClassTransactional) != transactional || (f.Stale() == nil) != (marketing && transactional) {
				t.Errorf("%s: marketing %v, transactional %v, %v", what, f.Fresh(mail.ClassMarketing), f.Fresh(mail.ClassTransactional), f.Stale())
			}
		}
		is("just loaded", true, true)
		<-time.After(5*time.Second + 1)
		is("nobody has looked for 5 s", false, true)
		if err := f.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		is("somebody has looked", true, true)

		ctx, stop := context.WithCancel(t.Context())
		go f.Run(ctx, ctx)
		<-time.After(time.Minute)
		is("it is followed", true, true)
		gone := errors.New("no route to host")
		database.err.Store(&gone)
		<-time.After(6 * time.Second)
		is("the database is away for 6 s", false, true)
		if err := f.Stale(); !strings.Contains(err.Error(), "marketing mail waits until the database answers: no route to host") {
			t.Error(err)
		}
		<-time.After(time.Minute)
		is("the database is away for more than a minute", false, false)
		database.err.Store(nil)
		<-time.After(time.Second)
		is("the database is back", true, true)
		stop()
		synctest.Wait()
	})
}

// What counts of two clocks is the longer time: the monotonic one stands while the
// machine sleeps, the other may be set back.
func TestAgeOfASleepingMachine(t *testing.T) {
	now := time.Now()
	if got := age(now, now.Add(time.Second)); got != time.Second {
		t.Errorf("age is %v, want 1s", got)
	}
	woken := now.Add(time.Hour).Round(0) // only the clock that can be set has moved
	if got := age(now, woken); got != time.Hour {
		t.Errorf("age after an hour of sleep is %v", got)
	}
}
