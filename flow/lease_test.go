package flow

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/test/servers"
)

// join starts a lease keeper over 16 partitions; the function crashes it.
func join(t *testing.T, r *Redis, n *numbers) (l *Leases, leave, crash func()) {
	t.Helper()
	l = NewLeases(r, n, quiet())
	l.AddPartitions("store", r, Partitions(16))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	dead := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx)
	}()
	leave = func() { stop(); <-done }
	crash = func() {
		select {
		case <-dead:
		default:
			close(dead)
		}
		l.mu.Lock()
		l.roles = nil // nothing is given back
		l.mu.Unlock()
		leave()
	}
	t.Cleanup(leave)
	return l, leave, crash
}

// tend has a process look after its leases. On a busy machine a look may be too slow.
func tend(t *testing.T, l *Leases) {
	t.Helper()
	eventually(t, "it looks after its leases", func() bool { return l.tendAll(t.Context()) == nil })
}

func heldBy(l *Leases) int { return l.Status().Held["store"] }

func TestLeasesAreSharedFairlyAndTakenOver(t *testing.T) {
	r := dial(t)
	n := &numbers{}
	a, _, crashA := join(t, r, n)
	eventually(t, "one process holds all", func() bool { return heldBy(a) == 16 })
	b, leaveB, _ := join(t, r, n)
	eventually(t, "two share", func() bool { return heldBy(a) == 8 && heldBy(b) == 8 })
	c, _, _ := join(t, r, n)
	eventually(t, "three share", func() bool {
		return heldBy(a) <= 6 && heldBy(b) <= 6 && heldBy(c) <= 6 && heldBy(a)+heldBy(b)+heldBy(c) == 16
	})
	leaveB()
	eventually(t, "what one gave back is taken", func() bool { return heldBy(a) == 8 && heldBy(c) == 8 })
	crashA()
	eventually(t, "the last holds all", func() bool { return heldBy(c) == 16 })
}

// TestLeasesAreTakenWithTheFirstBeat: a process that starts does not wait for a
// second beat.
func TestLeasesAreTakenWithTheFirstBeat(t *testing.T) {
	for tries := 1; !takenByTheFirstTurn(t); tries++ {
		if tries == 5 {
			t.Fatal("the first turns of five processes have failed")
		}
	}
	if got := spansOf([]int{9, 3, 4, 0, 5, 7, 8}); got != "0 3-5 7-9" {
		t.Errorf("spans: %s", got)
	}
}

// takenByTheFirstTurn starts a process that has one turn alone. It reports false if that
// failed, as on a busy machine.
func takenByTheFirstTurn(t *testing.T) bool {
	t.Helper()
	r := dial(t)
	var told strings.Builder // read when Run has ended
	l := NewLeases(r, &numbers{}, slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelDebug})))
	l.AddPartitions("store", r, Partitions(16))
	l.AddPartitions("send", r, Partitions(1))
	l.Beat, l.Timeout = 24*time.Hour, time.Minute // there is no second one
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(stop)
	var err error
	eventually(t, "all are held", func() bool {
		s := l.Status()
		err = s.Err
		return err != nil || s.Held["store"] == 16 && s.Held["send"] == 1
	})
	stop()
	<-done
	if err != nil {
		t.Log(err)
		return false
	}
	if got := told.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `msg="leases taken" leases=17 of="store 0-15, send 0" from=""`) {
		t.Errorf("the log is not one line of all leases:\n%s", got)
	}
	return true
}

func TestALostLeaseIsNoticed(t *testing.T) {
	r := dial(t)
	a, _, _ := join(t, r, &numbers{})
	eventually(t, "all are held", func() bool { return heldBy(a) == 16 })
	held, changed := a.Held("store")
	lease := held[3]
	do(t, r, "HSET", lease.key, "owner", "another", "token", "another")
	<-changed
	eventually(t, "the lease is dropped", func() bool {
		held, _ := a.Held("store")
		return held[3] != lease
	})
}

func TestProcessesShareOnlyWhatBothRun(t *testing.T) {
	r := dial(t)
	n := &numbers{}
	a, _, _ := join(t, r, n)
	b := NewLeases(r, n, quiet())
	b.AddPartitions("intake", r, Partitions(4))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	eventually(t, "each holds all of its own role", func() bool { return heldBy(a) == 16 && b.Status().Held["intake"] == 4 })
	eventually(t, "each knows of the other", func() bool { return a.Status().Live == 2 && b.Status().Live == 2 })
	for range 3 { // and they keep it
		tend(t, a)
		tend(t, b)
	}
	if heldBy(a) != 16 || b.Status().Held["intake"] != 4 {
		t.Fatalf("held: store %d of 16, intake %d of 4", heldBy(a), b.Status().Held["intake"])
	}
}

func TestALeaseThatCouldNotBeGivenBackIsFreedLater(t *testing.T) {
	r := dial(t)
	n := &numbers{}
	a, _, _ := join(t, r, n)
	eventually(t, "one process holds all", func() bool { return heldBy(a) == 16 })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	b, _, _ := join(t, r, n)
	if err := a.giveBack(gone, a.roles[0], 3); err == nil {
		t.Fatal("the release was not lost: this test shows nothing")
	}
	eventually(t, "everything is held again", func() bool { return heldBy(a) == 8 && heldBy(b) == 8 })
}

func TestAServerThatIsDownKeepsNobodyFromTheOthers(t *testing.T) {
	r := dial(t)
	down, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	other, err := Dial(t.Context(), down.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	if err := down.Kill(); err != nil {
		t.Fatal(err)
	}
	first, err := NewList(other, "a", Left)
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewList(r, "b", Left)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLeases(r, &numbers{}, quiet())
	l.AddLists("intake", []*List{first, second})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	eventually(t, "the list on the living server is held", func() bool { return l.Status().Held["intake"] == 1 })
}

// Of a server that is away all leases have the same to say: it is said once.
func TestAServerThatIsDownIsNamedOnce(t *testing.T) {
	down, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Dial(t.Context(), down.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	l := NewLeases(r, &numbers{}, quiet())
	for _, role := range []string{"store", "keep"} {
		l.AddPartitions(role, r, Partitions(8))
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	eventually(t, "everything is held", func() bool { s := l.Status(); return s.Held["store"] == 8 && s.Held["keep"] == 8 })
	if err := down.Kill(); err != nil {
		t.Fatal(err)
	}
	// In the turn in which the server goes, one lease may see it going and the
	// next one that it is gone.
	eventually(t, "it is said once that the leases cannot be read", func() bool {
		err := l.Status().Err
		return err != nil && strings.Count(err.Error(), "read a lease") == 1
	})
}

func TestWaitForChangeLooksAtItsOwnRole(t *testing.T) {
	r := dial(t)
	l := NewLeases(r, &numbers{}, quiet())
	l.AddPartitions("store", r, Partitions(2))
	l.AddPartitions("other", r, Partitions(2))
	held, _ := l.Held("store")
	woken := make(chan struct{})
	go func() {
		l.WaitForChange(t.Context(), "store", held)
		close(woken)
	}()
	for range 3 { // changes of another role wake no waiter, and are not the last that is looked at
		l.setHeld(l.roles[1], 0, &Lease{}, new(int64))
		select {
		case <-woken:
			t.Fatal("woken by another role's change")
		case <-time.After(20 * time.Millisecond):
		}
	}
	l.setHeld(l.roles[0], 1, &Lease{}, new(int64))
	<-woken
}
