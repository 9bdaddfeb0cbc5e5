package ingest_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"sluice/flow"
	"sluice/test/servers"
)

// A partition of a cluster whose slot is half-way, for as long as it likes, keeps no
// other waiting: neither those that are stored with it, nor what is forwarded. When the
// slot has moved it goes on.
func TestABrokenPartitionKeepsNoOtherWaiting(t *testing.T) {
	b := newBed(t, "sqlite")
	c, err := servers.StartRedisCluster(t.Context(), servers.ClusterOptions{Dir: t.TempDir(), Masters: 3})
	b.must(err)
	t.Cleanup(func() { _ = c.Close() })
	s := setup{redis: c.URL()}
	e := start(b, s)
	for p := range testPartitions {
		e.write(p, "one", named("1"))
	}
	b.awaitSum("events", testPartitions)
	e.stop()

	alone, err := flow.Dial(b.Context(), b.server().URL()) // the same keys, on one server
	b.must(err)
	t.Cleanup(alone.Close)
	_, err = flow.NewLog(alone, flow.Partitions(testPartitions)[0]).Append(b.Context(), "test", "", "1", named("x"), false)
	b.must(err)
	slot, err := c.SlotOf(b.logKey(0))
	b.must(err)
	from := c.MasterOf(slot)
	to := c.Nodes[slices.IndexFunc(c.Nodes[:3], func(n *servers.Redis) bool { return n != from })]
	b.must(c.BeginMove(slot, from, to, b.logKey(0))) // and not what says how far its sources are: it cannot be written

	const ahead = 600                                         // more than are forwarded at once
	for id, to := range append(make([]int, ahead), 2, 0, 3) { // what partition 1 has for others
		b.forwarded(id+1, to)
	}
	e = start(b, s)
	for p := 1; p < testPartitions; p++ {
		e.write(p, "two", named("2"))
	}
	b.awaitSum("events", testPartitions+(testPartitions-1)+2)
	b.eventually("it is seen which one is left out", func() bool {
		seen := e.failing("store")
		return strings.Contains(seen, "partition 0 stands still: ") && strings.Count(seen, "stands still") == 1
	})

	b.must(c.EndMove(slot, from, to))
	e.write(0, "two", named("2"))
	b.awaitSum("events", 2*testPartitions+ahead+3)
	b.eventually("the store is well", func() bool { return e.failing("store") == "" })
	e.stop()
	b.checkCounts("events", 2*testPartitions+ahead+3, 0)
	if left := b.count("forwards"); left != 0 {
		t.Errorf("%d forwards are left", left)
	}
}

// A session that begins while a server of a cluster answers nothing does not wait for what
// it asks there: it says so, and stores the partitions on the others.
func TestASessionBeginsBesideAServerThatHangs(t *testing.T) {
	b := newBed(t, "sqlite")
	c, err := servers.StartRedisCluster(t.Context(), servers.ClusterOptions{Dir: t.TempDir(), Masters: 3, Apart: "{members}"})
	b.must(err)
	t.Cleanup(func() { _ = c.Close() })
	alone, err := flow.Dial(b.Context(), b.server().URL()) // the same keys, on one server
	b.must(err)
	t.Cleanup(alone.Close)
	on := make(map[*servers.Redis][]int) // partitions
	for p, partition := range flow.Partitions(testPartitions) {
		_, err = flow.NewLog(alone, partition).Append(b.Context(), "test", "", "1", named("x"), false)
		b.must(err)
		slot, err := c.SlotOf(b.logKey(p))
		b.must(err)
		on[c.MasterOf(slot)] = append(on[c.MasterOf(slot)], p)
	}
	hangs := slices.MaxFunc(c.Nodes[1:3], func(a, b *servers.Redis) int { return cmp.Compare(len(on[a]), len(on[b])) })
	if n := len(on[hangs]); n == 0 || n == testPartitions {
		t.Fatalf("%d of %d partitions are on the server that is to hang: this test shows nothing", n, testPartitions)
	}
	e := start(b, setup{redis: c.URL()})
	for p := range testPartitions {
		e.write(p, "one", named("1"))
	}
	b.awaitSum("events", testPartitions)
	b.must(hangs.Pause())
	b.eventually("a session has begun without it", func() bool { // as silent, or as one whose calls fail
		return strings.Contains(e.failing("store"), "stands still: ")
	})
	others := 0
	for p := range testPartitions {
		if !slices.Contains(on[hangs], p) {
			e.write(p, "two", named("2"))
			others++
		}
	}
	b.awaitSum("events", testPartitions+others)
	b.must(hangs.Continue())
	for _, p := range on[hangs] {
		e.write(p, "two", named("2"))
	}
	b.awaitSum("events", 2*testPartitions)
	b.eventually("the store is well", func() bool { return e.failing("store") == "" })
	e.stop()
	b.checkCounts("events", 2*testPartitions, 0)
}
