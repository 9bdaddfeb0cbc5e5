package run

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice"
)

// slowStore does not say what is published until the caller gives up.
type slowStore struct {
	Store
	began chan context.Context
}

func (s slowStore) Published(ctx context.Context) (int64, error) {
	s.began <- ctx
	<-ctx.Done()
	return 0, ctx.Err()
}

// A slow database keeps one caller, until a deadline. Others learn that it is slow: they do
// not wait behind that one, nor behind the next if it has failed. Then they are told again.
func TestAGateIsNotKeptByASlowDatabase(t *testing.T) {
	sluice.WriteNewForms()
	b := newBed(t, 1)
	b.publish(leaving)
	b.enterAll(1)
	b.passes(b.open())
	sends, g := b.sends(), b.gate()
	g.Store = slowStore{b.store, make(chan context.Context)}
	slow := g.Store.(slowStore).began
	begin := func() (context.Context, context.CancelFunc, chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := g.MayLeave(ctx, 0, sends)
			ended <- err
		}()
		return <-slow, cancel, ended
	}
	asked, cancel, ended := begin()
	if until, ok := asked.Deadline(); !ok || time.Until(until) > gateWithin {
		t.Errorf("the database has until %s, %t", until, ok)
	}
	if _, err := g.MayLeave(t.Context(), 0, sends); !errors.Is(err, errGateSlow) {
		t.Errorf("another caller: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the one who asked: %v", err)
	}

	_, cancel, ended = begin()
	g.mu.Lock()
	g.look.began = g.look.began.Add(time.Hour) // it is long until gateWait is over
	g.mu.Unlock()
	if _, err := g.MayLeave(t.Context(), 0, sends); !errors.Is(err, errGateSlow) {
		t.Errorf("after a failure: %v", err)
	}
	g.mu.Lock()
	g.failed = false
	g.mu.Unlock()
	left, stop := context.WithCancel(t.Context())
	stop()
	if _, err := g.MayLeave(left, 0, sends); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who left: %v", err)
	}
	cancel()
	<-ended

	g.Store = b.store
	if answers, err := g.MayLeave(t.Context(), 0, sends); err != nil || answers[0].AgainMillis != 0 {
		t.Errorf("with the database back: %+v, %v", answers, err)
	}
}
