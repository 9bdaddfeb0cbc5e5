package ingest_test

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/flow"
	"sluice/ingest"
	"sluice/test/servers"
	"sluice/user"
	"sluice/user/profile"
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

// hanging starts a cluster, and returns a server of it that a test can stop, with the
// partitions that are there: some, and at least two are on others, as is what members share.
func (b *bed) hanging() (c *servers.RedisCluster, hangs *servers.Redis, there []int) {
	b.Helper()
	c, err := servers.StartRedisCluster(b.Context(), servers.ClusterOptions{Dir: b.TempDir(), Masters: 3, Apart: "{members}"})
	b.must(err)
	b.Cleanup(func() { _ = c.Close() })
	alone, err := flow.Dial(b.Context(), b.server().URL()) // the same keys, on one server
	b.must(err)
	b.Cleanup(alone.Close)
	on := make(map[*servers.Redis][]int) // partitions
	for p, partition := range flow.Partitions(testPartitions) {
		_, err = flow.NewLog(alone, partition).Append(b.Context(), "test", "", "1", named("x"), false)
		b.must(err)
		slot, err := c.SlotOf(b.logKey(p))
		b.must(err)
		on[c.MasterOf(slot)] = append(on[c.MasterOf(slot)], p)
	}
	hangs = slices.MaxFunc(c.Nodes[1:3], func(a, b *servers.Redis) int { return cmp.Compare(len(on[a]), len(on[b])) })
	if n := len(on[hangs]); n == 0 || n > testPartitions-2 {
		b.Fatalf("%d of %d partitions are on the server that is to hang: this test shows nothing", n, testPartitions)
	}
	return c, hangs, on[hangs]
}

// A session that begins while a server of a cluster answers nothing does not wait for what
// it asks there: it says so, and stores the partitions on the others.
func TestASessionBeginsBesideAServerThatHangs(t *testing.T) {
	b := newBed(t, "sqlite")
	c, hangs, there := b.hanging()
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
		if !slices.Contains(there, p) {
			e.write(p, "two", named("2"))
			others++
		}
	}
	b.awaitSum("events", testPartitions+others)
	b.must(hangs.Continue())
	for _, p := range there {
		e.write(p, "two", named("2"))
	}
	b.awaitSum("events", 2*testPartitions)
	b.eventually("the store is well", func() bool { return e.failing("store") == "" })
	e.stop()
	b.checkCounts("events", 2*testPartitions, 0)
}

// What was written for a key is waited for in the partition of the key and in that of its
// user. Another one, on a server that answers nothing, and what is on its way there, keep
// nobody waiting.
func TestAppliedBesideAServerThatHangs(t *testing.T) {
	b := newBed(t, "sqlite")
	c, hangs, there := b.hanging()
	p := startPeopleWith(b, setup{redis: c.URL()})
	var well []int
	for i := range testPartitions {
		if !slices.Contains(there, i) {
			well = append(well, i)
		}
	}
	in := func(partition int, key func(i int) user.Key) user.Key { // the first that is taken in there
		for i := 0; ; i++ {
			if k := key(i); k.Partition(testPartitions) == partition {
				return k
			}
		}
	}
	// Both are known by aliases of another partition.
	ann, bob := in(well[0], external), in(there[0], external)
	annAlias := in(well[1], func(i int) user.Key { return user.AliasKey("ann", strconv.Itoa(i)) })
	bobAlias := in(well[1], func(i int) user.Key { return user.AliasKey("bob", strconv.Itoa(i)) })
	for k, alias := range map[user.Key]user.Key{ann: annAlias, bob: bobAlias} {
		p.send(attributes(k, `{"n":0}`), user.Update{Op: user.OpAlias, Key: k, Body: alias.Name})
		p.awaitUser("the user has the alias", alias, func(*profile.Profile) bool { return true })
	}
	b.must(hangs.Pause())
	p.send(attributes(bobAlias, `{"n":{"inc":1}}`))
	b.eventually("it is on its way to the server that hangs", func() bool { return b.count("forwards") == 1 })
	p.send(attributes(annAlias, `{"n":{"inc":1}}`))
	applied := &ingest.Applied{Store: p.e.store, Users: p.e.store.(user.Store), Logs: p.e.logs}
	ctx, cancel := context.WithTimeout(b.Context(), settleWithin)
	defer cancel()
	b.must(applied.Await(ctx, []user.Key{annAlias}))
	if got := p.who(ann).Custom.Get("n"); got != "1" {
		t.Errorf("it is applied, they say: %s", got)
	}
	if got := b.count("forwards"); got != 1 {
		t.Errorf("%d forwards wait: this test shows nothing", got)
	}
	b.must(hangs.Continue())
	p.awaitUser("what waited arrives", bob, func(u *profile.Profile) bool { return u.Custom.Get("n") == "1" })
	p.e.stop()
}
