package account

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/test/clocktest"
)

// looked is a store that answers looks at sessions and accounts, and counts them.
type looked struct {
	store.AccountStore
	real     string // the hash of the one session
	asked    atomic.Int64
	blocked  chan struct{} // nil, or what looks at others wait for
	entered  chan struct{} // gets a value for each that waits
	accounts atomic.Int64
	counts   atomic.Int64
	counting atomic.Int64
	most     atomic.Int64 // looks at the number of accounts at once
}

func (s *looked) Session(_ context.Context, hash string) (store.Session, error) {
	if hash == s.real {
		s.asked.Add(1)
		return store.Session{Hash: hash, Account: store.Account{ID: "a", Role: "viewer"}, EndMillis: 1 << 60}, nil
	}
	if s.blocked != nil {
		s.entered <- struct{}{}
		<-s.blocked
	}
	return store.Session{}, sluice.Refuse(sluice.CodeNotFound, "there is no such session")
}

func (s *looked) CountAccounts(context.Context) (int64, error) {
	s.counts.Add(1)
	if n := s.counting.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	runtime.Gosched()
	s.counting.Add(-1)
	return s.accounts.Load(), nil
}

// Made-up cookies neither drive out sessions that are used, nor take their places at the
// database.
func TestMadeUpSessionsKeepNobodyOut(t *testing.T) {
	text, hash := newSecret()
	db := &looked{real: hash}
	clock := clocktest.At(time.Unix(1_700_000_000, 0))
	s := New(db, clock)
	see := func() {
		t.Helper()
		if _, _, err := s.Session(t.Context(), text); err != nil {
			t.Error(err)
		}
	}
	see()
	for i := range maxKnown + maxUnknown {
		if _, _, err := s.Session(t.Context(), fmt.Sprintf("%0*d", secretChars, i)); code(err) != sluice.CodeUnauthorized {
			t.Fatal(err)
		}
	}
	see()
	if n := db.asked.Load(); n != 1 {
		t.Errorf("the session was looked at %d times, want 1: others drove it out", n)
	}
	if len(s.known) != 1 || len(s.unknown) > maxUnknown {
		t.Errorf("%d sessions are known, and %d not", len(s.known), len(s.unknown))
	}

	db.blocked, db.entered = make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for i := range parallelLooks {
		wg.Go(func() { _, _, _ = s.Session(t.Context(), fmt.Sprintf("y%0*d", secretChars-1, i)) })
		<-db.entered
	}
	clock.Move(believeFor)
	see()
	s.forget()
	see()
	close(db.blocked)
	wg.Wait()
	if n := db.asked.Load(); n != 3 {
		t.Errorf("the session was looked at %d times, want 3", n)
	}
}

// That there is an account is looked for by one at a time, and remembered for good.
func TestAnyIsRemembered(t *testing.T) {
	db := &looked{}
	s := New(db, clocktest.At(time.Unix(1_700_000_000, 0)))
	all := func(want bool) {
		t.Helper()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if there, err := s.Any(t.Context()); err != nil || there != want {
					t.Errorf("there is an account: %t %v, want %t", there, err, want)
				}
			})
		}
		wg.Wait()
	}
	all(false)
	if n := db.most.Load(); n != 1 {
		t.Errorf("%d looks at once, want 1", n)
	}
	db.accounts.Store(1)
	all(true)
	before := db.counts.Load()
	all(true)
	if n := db.counts.Load() - before; n != 0 {
		t.Errorf("%d looks after an account was seen, want none", n)
	}
}
