package flow

import (
	"context"
	"fmt"
	"testing"

	"sluice/test/servers"
)

const (
	looksRoles  = 4 // of each a look waits up to lookTimeout: more than a turn has
	looksPlaces = 12
)

// keepAll starts a lease keeper with several roles; the function crashes it.
func keepAll(t *testing.T, r *Redis, n *numbers) (l *Leases, crash func()) {
	t.Helper()
	l = NewLeases(r, n, quiet())
	for i := range looksRoles {
		l.AddPartitions(fmt.Sprint("role", i), r, Partitions(looksPlaces))
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-done })
	return l, func() {
		l.mu.Lock()
		l.roles = nil // nothing is given back
		l.mu.Unlock()
		stop()
		<-done
	}
}

// each role of a process holds so many.
func holdsOfEach(l *Leases, n int) bool {
	s := l.Status()
	for i := range looksRoles {
		if s.Held[fmt.Sprint("role", i)] != n {
			return false
		}
	}
	return true
}

// placesOn are the partitions whose keys a master of a cluster has.
func placesOn(t *testing.T, c *servers.RedisCluster, master *servers.Redis) (all []int) {
	t.Helper()
	for _, p := range Partitions(looksPlaces) {
		slot, err := c.SlotOf(p.logKey())
		if err != nil {
			t.Fatal(err)
		}
		if c.MasterOf(slot) == master {
			all = append(all, p.Number)
		}
	}
	return all
}

// TestALookAsksForAllAtOnce: a server that is far away is asked as often for many lists as
// for one, and every list is known in time.
func TestALookAsksForAllAtOnce(t *testing.T) {
	t.Parallel()
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	r, way := dialBy(t, server.Network(), server.Addr())
	lists := make([]*List, looksPlaces)
	for i := range lists {
		if lists[i], err = NewList(r, fmt.Sprint("list", i), Left); err != nil {
			t.Fatal(err)
		}
		lists[i].BelongTo("1", false)
	}
	l := NewLeases(r, &numbers{}, quiet())
	l.AddLists("intake", lists)
	before := way.Turns()
	state, err := l.look(t.Context(), l.roles)
	if err != nil {
		t.Fatal(err)
	}
	if turns := way.Turns() - before; turns > 4 { // an answer may come in pieces
		t.Errorf("%d lists took %d round trips", looksPlaces, turns)
	}
	for i, s := range state[l.roles[0]] {
		if s == nil {
			t.Errorf("list %d is not known", i)
		}
	}
}

// TestAShardThatHangsBlindsNoLook: of a cluster one master answers nothing. The leases on
// the others are shared and taken over, of all roles, and those on that master stay as they
// are.
func TestAShardThatHangsBlindsNoLook(t *testing.T) {
	t.Parallel()
	c, err := servers.StartRedisCluster(t.Context(), servers.ClusterOptions{Dir: t.TempDir(), Masters: 3, Apart: membersKey()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	dialOne := func() *Redis {
		r, err := Dial(t.Context(), c.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r
	}
	n := &numbers{}
	a, crash := keepAll(t, dialOne(), n)
	eventually(t, "one process holds all", func() bool { return holdsOfEach(a, looksPlaces) })

	hangs := c.Nodes[1]
	away := placesOn(t, c, hangs)
	if len(away) == 0 || len(away) > looksPlaces/2 {
		t.Fatalf("partitions %v of %d are on the master that is to hang: this test shows nothing", away, looksPlaces)
	}
	b, _ := keepAll(t, dialOne(), n)
	eventually(t, "two share", func() bool { return holdsOfEach(a, looksPlaces/2) && holdsOfEach(b, looksPlaces/2) })
	if err := hangs.Pause(); err != nil {
		t.Fatal(err)
	}
	before := b.Status().Changes // on a busy machine b may have taken a for dead for a moment
	awayOfA := make(map[string]int)
	for i := range looksRoles {
		role := fmt.Sprint("role", i)
		held, _ := a.Held(role)
		for _, p := range away {
			if held[p] != nil {
				awayOfA[role]++
			}
		}
	}
	crash()
	eventually(t, "what can be taken over is", func() bool {
		s := b.Status()
		for i := range looksRoles {
			role := fmt.Sprint("role", i)
			if s.Held[role] != looksPlaces-awayOfA[role] {
				return false
			}
		}
		return true
	})
	for role, changes := range b.Status().Changes {
		if changes.Lost != before[role].Lost || changes.Returned != before[role].Returned {
			t.Errorf("%s: %+v after %+v, want none lost or returned: what is not known stays as it is", role, changes, before[role])
		}
	}
	if err := hangs.Continue(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is taken over", func() bool { return holdsOfEach(b, looksPlaces) })
}
