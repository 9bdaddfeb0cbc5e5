package flow

import (
	"context"
	"testing"
	"time"
)

// joinLists runs a process that drains lists; one that is nil is not open.
func joinLists(t *testing.T, home *Redis, n *numbers, lists ...*List) (l *Leases, leave func()) {
	t.Helper()
	l = NewLeases(home, n, quiet())
	l.AddLists("intake", lists)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	left := false
	leave = func() {
		if !left {
			left = true
			stop()
			<-done
		}
	}
	t.Cleanup(leave)
	return l, leave
}

func namedList(t *testing.T, r *Redis, name string) *List {
	t.Helper()
	l, err := NewList(r, name, Left)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func drains(l *Leases) int { return l.Status().Held["intake"] }

// TestAListThatOpensLater: a process takes it when it opens, and lets go of nothing else.
func TestAListThatOpensLater(t *testing.T) {
	r := dial(t)
	l := NewLeases(r, &numbers{}, quiet())
	l.Timeout, l.members.timeout = 10*time.Minute, 10*time.Minute // its last beat counts, however slow the machine
	l.AddLists("intake", []*List{namedList(t, r, "a"), nil, namedList(t, r, "c")})
	step := func(want int, turn func(context.Context) error) {
		t.Helper()
		eventually(t, "the turn is done", func() bool { return turn(t.Context()) == nil }) // a look may be too slow
		if held := drains(l); held != want {
			t.Errorf("it holds %d lists, want %d", held, want)
		}
	}
	step(0, l.showLife)
	step(2, l.tendAll)
	l.AddList("intake", 1, namedList(t, r, "b"))
	step(2, l.tendAll) // nobody knows yet that it shares all three
	step(2, l.showLife)
	step(3, l.tendAll)
	if changes := l.Status().Changes["intake"]; changes.Returned != 0 || changes.Taken != 3 {
		t.Errorf("its leases have changed: %+v", changes)
	}
}

// TestListsAreSharedByWhoReachesThem: of two processes one has no way to the server of a list.
// The other one drains that list, whichever was first. They share when both can.
func TestListsAreSharedByWhoReachesThem(t *testing.T) {
	r := dial(t)
	n := &numbers{}
	lists := func() (a, b, c *List) { return namedList(t, r, "a"), namedList(t, r, "b"), namedList(t, r, "c") }
	a, b, _ := lists()
	without, leave := joinLists(t, r, n, a, b, nil)
	eventually(t, "it holds what it reaches", func() bool { return drains(without) == 2 })
	a, b, c := lists()
	all, _ := joinLists(t, r, n, a, b, c)
	eventually(t, "the other one holds the rest", func() bool { return drains(all) == 1 })
	leave()
	eventually(t, "the other one holds all", func() bool { return drains(all) == 3 })

	a, _, c = lists()
	without, _ = joinLists(t, r, n, a, nil, c)
	eventually(t, "each knows the other", func() bool { return without.Status().Live == 2 && all.Status().Live == 2 })
	for range 3 { // and nothing is given to the one that could not take all of it
		tend(t, all)
		tend(t, without)
	}
	if held := drains(all); held != 3 {
		t.Errorf("it holds %d lists beside a process that does not reach one", held)
	}
	without.AddList("intake", 1, namedList(t, r, "b"))
	eventually(t, "they share", func() bool { return drains(all) > 0 && drains(without) > 0 && drains(all)+drains(without) == 3 })
}
