package flow

import (
	"context"
	"testing"
	"time"
)

// ran runs a lease keeper over 16 partitions that beats and looks when it is told to.
func ran(t *testing.T, r *Redis, beat time.Duration) *Leases {
	t.Helper()
	l := NewLeases(r, &numbers{}, quiet())
	l.AddPartitions("store", r, Partitions(16))
	l.Beat, l.Timeout = beat, 100*time.Hour
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-done })
	return l
}

// wanted is the share of a process at its last look.
func wanted(l *Leases) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.roles[0].want
}

// TestLeasesAreHandedOver: a process that stops keeps its leases until another one looks out
// for them. That one takes what is given back while the first still lives.
func TestLeasesAreHandedOver(t *testing.T) {
	r := dial(t)
	const never = 24 * time.Hour
	a := ran(t, r, never)
	eventually(t, "one process holds all", func() bool { return heldBy(a) == 16 })
	b := ran(t, r, never)
	eventually(t, "the other has looked", func() bool { return wanted(b) == 8 })
	a.mu.Lock()
	a.Beat = 100 * time.Millisecond // of what follows; its turns are not due before
	a.mu.Unlock()

	told := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() { // ends when b has beaten, or with ctx
		defer close(told)
		for !a.allAware() && ctx.Err() == nil {
			a.Announce(ctx)
		}
	}()
	eventually(t, "the beat of the first says that it shares nothing", func() bool {
		beats, err := r.beats(t.Context())
		return err == nil && len(heard(beats[a.ID()], time.Now()).groups) == 0
	})
	if a.allAware() {
		t.Error("all are aware before the other has beaten")
	}
	hurry(b.beatNow)
	eventually(t, "the other is to hold all, by a look of its own", func() bool { return wanted(b) == 16 })
	eventually(t, "the first knows that the other knows", a.allAware)
	<-told
	if heldBy(a) != 16 || heldBy(b) != 0 {
		t.Errorf("before anything is given back: %d and %d held, want 16 and 0", heldBy(a), heldBy(b))
	}
	var state map[*role][]*seen // of a turn that began before the stop
	eventually(t, "it has looked", func() bool {
		found, err := a.look(t.Context(), a.roles)
		state = found
		return err == nil
	})
	if err := a.tend(t.Context(), a.roles[0], state[a.roles[0]]); err != nil || heldBy(a) != 16 {
		t.Errorf("a look in the middle of which the process began to stop leaves it %d leases: %v", heldBy(a), err)
	}
	if err := a.GiveBack("store"); err != nil {
		t.Fatal(err)
	}
	hurry(b.tendNow)
	eventually(t, "the other holds all", func() bool { return heldBy(b) == 16 })
	if s := b.Status(); s.Live != 2 {
		t.Errorf("%d processes live, want 2: the first has work in hand", s.Live)
	}
	if err := a.tendAll(t.Context()); err != nil || heldBy(a) != 0 {
		t.Errorf("the first takes %d leases again: %v", heldBy(a), err)
	}
}

// TestAShareIsGivenBackAlone: one of several followers of a role has ended, the others have
// work in hand.
func TestAShareIsGivenBackAlone(t *testing.T) {
	l := NewLeases(dial(t), &numbers{}, quiet())
	l.AddPartitions("store", l.home, Partitions(16))
	aloneForLong(l)
	if err := l.tendAll(t.Context()); err != nil || heldBy(l) != 16 {
		t.Fatalf("%d are held: %v", heldBy(l), err)
	}
	if err := (Share{Leases: l, Index: 1, Of: 3}).GiveBack("store"); err != nil {
		t.Fatal(err)
	}
	state, err := l.look(t.Context(), l.roles)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range state[l.roles[0]] {
		if free := s == nil || s.owner == ""; free != (i%3 == 1) {
			t.Errorf("place %d is free: %v", i, free)
		}
	}
	if n := heldBy(l); n != 11 {
		t.Errorf("%d are held, want 11", n)
	}
}

// TestLackingProcessLooksOften: for a while, and again when its share grows.
func TestLackingProcessLooksOften(t *testing.T) {
	l := NewLeases(dial(t), &numbers{}, quiet())
	l.AddPartitions("store", l.home, Partitions(16))
	role, now := l.roles[0], time.Now()
	long := -(lackTimeouts + 1) * l.Timeout
	for i, look := range []struct {
		want, mine int
		at         time.Duration
		often      bool
	}{
		{8, 8, 0, false},
		{16, 8, 0, true},
		{16, 8, long, true}, // it has just begun to lack
		{16, 16, 0, false},
		{16, 8, long, false},
		{16, 8, 0, false}, // for too long
		{17, 8, 0, true},
		{17, 17, 0, false},
	} {
		role.lack(look.want, look.mine, now.Add(look.at))
		if often := l.tendPause() < l.Beat; often != look.often {
			t.Errorf("look %d: looks often is %v, want %v", i, often, look.often)
		}
	}
}

// TestLeasesClaimedTogetherAreOneChange: their follower begins one session with all.
func TestLeasesClaimedTogetherAreOneChange(t *testing.T) {
	r := dial(t)
	l := NewLeases(r, &numbers{}, quiet())
	l.AddPartitions("store", r, Partitions(16))
	aloneForLong(l)
	_, changed := l.Held("store")
	if err := l.tendAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-changed
	held, _ := l.Held("store")
	if len(held) != 16 {
		t.Errorf("with the first change %d leases are held, want all: a follower would begin %d sessions", len(held), 1+16-len(held))
	}
	if taken := l.Status().Changes["store"].Taken; taken != 16 {
		t.Errorf("%d are counted as taken, want 16", taken)
	}
}

// TestOwedLeasesAreGivenBack: what could not be given back is given back by each later try,
// though the process holds it no more, and goes on beating.
func TestOwedLeasesAreGivenBack(t *testing.T) {
	for name, again := range map[string]func(l *Leases, ctx context.Context) error{
		"with a beat":           func(l *Leases, ctx context.Context) error { return l.tendAll(ctx) },
		"when it is told again": func(l *Leases, _ context.Context) error { return l.GiveBack("store") },
		"at the end":            func(l *Leases, _ context.Context) error { return l.giveBackAll() },
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLeases(dial(t), &numbers{}, quiet())
			l.AddPartitions("store", l.home, Partitions(16))
			aloneForLong(l)
			if err := l.tendAll(t.Context()); err != nil || heldBy(l) != 16 {
				t.Fatalf("%d are held: %v", heldBy(l), err)
			}
			l.mu.Lock()
			l.stops = true
			l.mu.Unlock()
			away, leave := context.WithCancel(t.Context())
			leave()
			if err := l.giveBackRole(away, l.roles[0], Share{}.has); err == nil || heldBy(l) != 0 {
				t.Fatalf("%d are held while Redis is away, and no error", heldBy(l))
			}
			if err := again(l, t.Context()); err != nil {
				t.Fatal(err)
			}
			state, err := l.look(t.Context(), l.roles)
			for i, s := range state[l.roles[0]] {
				if s == nil || s.owner != "" {
					t.Errorf("place %d stands in the name of %+v, want none: %v", i, s, err)
				}
			}
			if n := len(l.roles[0].owed); n != 0 {
				t.Errorf("%d are owed, want none", n)
			}
		})
	}
}
