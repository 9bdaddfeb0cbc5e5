package flow

import (
	"maps"
	"slices"
	"testing"
	"time"

	"sluice/lib/doctor"
	"sluice/test/servers"
)

// dialCluster starts a cluster of three masters with a replica each.
func dialCluster(t *testing.T) (*servers.RedisCluster, *Redis) {
	t.Helper()
	c, err := servers.StartRedisCluster(t.Context(), servers.ClusterOptions{Dir: t.TempDir(), Masters: 3, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r, err := Dial(t.Context(), c.URL()+"?addr="+c.Nodes[4].Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return c, r
}

// A cluster is examined as a whole, a slot moves while its log is written, and
// masters are killed.
func TestCluster(t *testing.T) {
	t.Parallel()
	c, r := dialCluster(t)
	for check, severity := range severities(t, &Examiner{URL: c.URL(), Main: true}) {
		if severity != doctor.SeverityOK {
			t.Errorf("of a good cluster: %s is %s", check, severity)
		}
	}
	if _, err := r.TimeMillis(t.Context()); err != nil {
		t.Error(err)
	}
	var logs []*Log
	for _, p := range Partitions(4) {
		logs = append(logs, NewLog(r, p))
	}
	log := logs[1]
	if percents := MemoryPercents(t.Context(), logs); !maps.Equal(percents, map[int]int{0: 0, 1: 0, 2: 0, 3: 0}) {
		t.Errorf("percents of memory: %v, want 0 of each", percents)
	}
	for set, prefix := range map[string]string{"dirty": "", "{c}dirty": "c|", "{c}other": "{c}|"} {
		hashes, err := NewHashes(t.Context(), r, set)
		if err != nil {
			t.Fatal(err)
		}
		if err := hashes.CheckKeys(prefix); (err == nil) != (prefix == "{c}|") {
			t.Errorf("%s and %s: %v", set, prefix, err)
		}
	}
	forgetsOnce(t, r)
	moveWhileWritten(t, c, log)
	killMaster(t, c, log, membersKey())
	killMaster(t, c, log, log.partition.logKey())
}

// moveWhileWritten leaves a slot half-way, and has its log written meanwhile: it is
// written when the slot has moved, once.
func moveWhileWritten(t *testing.T, c *servers.RedisCluster, log *Log) {
	t.Helper()
	if _, err := log.Append(t.Context(), "test", "", "1", oneEvent("a"), false); err != nil {
		t.Fatal(err)
	}
	slot, err := c.SlotOf(log.partition.logKey())
	if err != nil {
		t.Fatal(err)
	}
	from := masterOf(t, c, slot)
	to := c.Nodes[slices.IndexFunc(c.Nodes[:3], func(n *servers.Redis) bool { return n != from })]
	if err := c.BeginMove(slot, from, to); err != nil {
		t.Fatal(err)
	}
	if got := severities(t, &Examiner{URL: c.URL()})[doctor.CheckRedisCluster]; got != doctor.SeverityWarning {
		t.Errorf("of a slot half-way doctor says %q", got)
	}
	written := make(chan error, 1)
	go func() {
		for {
			began := time.Now()
			_, err := log.Append(t.Context(), "test", "1", "2", oneEvent("b"), false)
			if !IsAway(err) || time.Since(began) < patientFor { // else the move took longer than one call is repeated
				written <- err
				return
			}
		}
	}()
	select {
	case err := <-written:
		t.Errorf("a log whose keys are on two servers was written, or refused at once: %v", err)
	case <-time.After(100 * time.Millisecond): // it is repeated
	}
	if err := c.EndMove(slot, from, to); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Errorf("when the slot had moved: %v", err)
	}
	if n, err := log.Entries(t.Context()); n != 2 || err != nil {
		t.Errorf("%d entries, want 2: %v", n, err)
	}
}

// masterOf waits for the master of a slot: a busy machine may be too slow for one question.
func masterOf(t *testing.T, c *servers.RedisCluster, slot int) (master *servers.Redis) {
	t.Helper()
	eventually(t, "a master is known", func() bool {
		master = c.MasterOf(slot)
		return master != nil
	})
	return master
}

// killMaster kills the master of a key, and prints how long the others took to
// promote its replica, and this client to go on with it.
func killMaster(t *testing.T, c *servers.RedisCluster, log *Log, key string) {
	t.Helper()
	slot, err := c.SlotOf(key)
	if err != nil {
		t.Fatal(err)
	}
	master := masterOf(t, c, slot)
	if err := master.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ready := make(chan time.Time, 1)
	go func() {
		for log.redis.PingLogs(t.Context(), []*Log{log}) != nil && t.Context().Err() == nil {
			<-time.After(10 * time.Millisecond)
		}
		ready <- time.Now()
	}()
	eventually(t, "a replica is the master", func() bool { return c.MasterOf(slot) != nil })
	promoted := time.Now()
	at := <-ready
	t.Logf("the replica of the master of %s was promoted after %s, the client went on %s later",
		key, promoted.Sub(began).Round(10*time.Millisecond), at.Sub(promoted).Round(10*time.Millisecond))
	seq, err := log.Seq(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), "test", seq, seq+"'", oneEvent("c"), false); err != nil {
		t.Error(err)
	}
	if err := master.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitReplicas(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster is whole again", func() bool {
		return severities(t, &Examiner{URL: c.URL()})[doctor.CheckRedisReachable] == doctor.SeverityOK
	})
}
