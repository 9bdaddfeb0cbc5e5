package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/mail"
	"sluice/user"
)

// slowStore gives the test each call of which it decides when it is answered, and how.
type slowStore struct {
	Store
	calls chan slowCall
}

type slowCall struct {
	ctx    context.Context
	what   string
	answer chan error
}

func (s slowStore) Published(ctx context.Context) (int64, error) {
	if err := s.wait(ctx, "published"); err != nil {
		return 0, err
	}
	return s.Store.Published(ctx)
}

func (s slowStore) Registered(ctx context.Context) (*journey.Registered, error) {
	if err := s.wait(ctx, "load"); err != nil {
		return nil, err
	}
	return s.Store.Registered(ctx)
}

func (s slowStore) wait(ctx context.Context, what string) error {
	c := slowCall{ctx, what, make(chan error, 1)}
	select {
	case s.calls <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A slow database keeps no caller for longer than gateWait, and none after it has failed:
// their mail waits, the longer the more often it fails. When the database is back, mail
// leaves. A look has a deadline, and a longer one if it is about all journeys.
func TestAGateIsNotKeptByASlowDatabase(t *testing.T) {
	sluice.WriteNewForms()
	b := newBed(t, 1)
	b.publish(leaving)
	b.enterAll(1)
	b.passes(b.open())
	sends := b.sends()
	s := slowStore{b.store, make(chan slowCall)}
	g := b.gateOf(s)
	g.loader.Journeys = s
	again := func() time.Duration {
		t.Helper()
		answers, err := g.MayLeave(t.Context(), 0, sends)
		if err != nil || answers[0].Cancel != "" {
			t.Fatalf("%+v, %v", answers, err)
		}
		if answers[0].AgainMillis == 0 {
			return 0
		}
		return time.UnixMilli(answers[0].AgainMillis).Sub(b.clock.Now())
	}
	// next waits for a call of the gate while mail is asked about.
	next := func(what string, within time.Duration) slowCall {
		t.Helper()
		for {
			again()
			select {
			case c := <-s.calls:
				if until, ok := c.ctx.Deadline(); c.what != what || !ok || time.Until(until) > within || time.Until(until) < within/2 {
					t.Fatalf("%s, until %s, %t; want %s, %s from now", c.what, until, ok, what, within)
				}
				return c
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	first := next("published", publishedWithin)
	if got := again(); got != slowAgain {
		t.Errorf("mail is asked about again after %s, want %s", got, slowAgain)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := g.MayLeave(left, 0, sends); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who left: %v", err)
	}
	first.answer <- errors.New("away")
	next("published", publishedWithin).answer <- nil
	next("load", loadWithin).answer <- errors.New("away")
	next("published", publishedWithin).answer <- nil
	load := next("load", loadWithin)
	if got := again(); got != 2*slowAgain {
		t.Errorf("after two failures mail is asked about again after %s, want %s", got, 2*slowAgain)
	}
	load.answer <- nil
	done := make(chan struct{})
	defer close(done)
	go func() { // ends with the test
		for {
			select {
			case c := <-s.calls:
				c.answer <- nil
			case <-done:
				return
			}
		}
	}()
	for again() != 0 {
		<-time.After(10 * time.Millisecond)
	}
}

// What a slow look has found is old, and nobody who waits for it has mail leave by it.
func TestAGateGivesNoOldAnswer(t *testing.T) {
	b := newBed(t, 1)
	b.publish(leaving)
	s := slowStore{b.store, make(chan slowCall)}
	g := b.gateOf(s)
	g.loader.Journeys = s
	for _, slow := range []bool{true, false} {
		l, looked := &gateLook{done: make(chan struct{})}, make(chan struct{})
		go func() {
			g.lookNow(t.Context(), l)
			close(looked)
		}()
		began := time.Now()
		(<-s.calls).answer <- nil
		if slow {
			load := <-s.calls
			for time.Since(began) <= gateWait {
				<-time.After(10 * time.Millisecond)
			}
			load.answer <- nil
			(<-s.calls).answer <- nil // whether others were published meanwhile
		}
		<-looked
		if got := errors.Is(l.err, errGateSlow); got != slow {
			t.Errorf("slow: %t: the look says %v", slow, l.err)
		}
	}
}

// usersCounted counts the statements about users.
type usersCounted struct {
	Store
	n *int
}

func (s usersCounted) Users(ctx context.Context, q user.Query) (user.Answer, error) {
	*s.n++
	return s.Store.Users(ctx, q)
}

// The zones of a whole window are read together: a database that is far, or slow, is waited
// for once or twice, and not for each mail.
func TestAGateReadsZonesTogether(t *testing.T) {
	const people = 32
	sluice.WriteNewForms()
	b := newBed(t, people)
	b.publish(strings.Replace(leaving, "steps:", "quiet: {from: \"10:00\", to: \"12:00\", zone: user}\nsteps:", 1))
	b.enterAll(people)
	b.passes(b.open())
	b.clock.Move(time.Hour)
	statements := 0
	answers := b.mayLeave(b.gateOf(usersCounted{b.store, &statements}), b.sends())
	if len(answers) != people {
		t.Fatalf("%d answers", len(answers))
	}
	for _, a := range answers {
		if a.Cancel != "" || a.AgainMillis != b.clock.Now().Add(2*time.Hour).UnixMilli() {
			t.Fatalf("%+v, want that it waits for noon", a)
		}
	}
	if statements > b.attempts*people/goneAtOnce {
		t.Errorf("%d statements for %d mails, in %d attempts", statements, people, b.attempts)
	}
}

// slowLedger does not answer about the sends of one user.
type slowLedger struct {
	Store
	of user.ID
}

func (s slowLedger) UserSends(ctx context.Context, of user.ID, before mail.SendKey, limit int) ([]mail.SendRow, error) {
	if of == s.of {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.UserSends(ctx, of, before, limit)
}

// Mail of merged people that cannot be asked about in time keeps no other mail: what was
// asked about leaves, and what has nothing to be asked.
func TestMergedPeopleKeepNoOtherMail(t *testing.T) {
	sluice.WriteNewForms()
	b := newBed(t, 4)
	b.publish(leavingAgain)
	b.happens("1 signup", "3 signup", "4 signup", "1 done", "1 merged 2")
	sends := b.sends()
	g := b.gateOf(slowLedger{b.store, user.ID{Number: 2}})
	answers := b.mayLeave(g, sends, 1)
	if len(answers) != 3 {
		t.Fatalf("%+v", answers)
	}
	for i, s := range sends {
		if waits := answers[i].AgainMillis != 0; waits != (s.Person == 1) || answers[i].Cancel != "" {
			t.Errorf("mail of person %d: %+v", s.Person, answers[i])
		}
	}
}
