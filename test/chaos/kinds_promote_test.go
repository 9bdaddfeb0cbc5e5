package chaos

import (
	"time"

	"sluice/flow"
	"sluice/test/servers"
)

// promotionKinds are faults of a Redis whose masters have replicas: one takes the place of
// a master. What that master had not sent is lost, and nothing else.
func promotionKinds() []kind {
	return []kind{
		{name: "master-kill", losesRedis: true, repeats: true, fits: withReplicas, strike: strikeMasterKill},
		{name: "master-freeze", losesRedis: true, repeats: true, fits: withReplicas, strike: strikeMasterFreeze},
		{name: "master-command", losesRedis: true, repeats: true, fits: withReplicas, strike: strikeMasterCommand},
		{name: "master-kill-both", losesRedis: true, repeats: true, fits: withReplicas, strike: strikeMasterAndProcess},
		{name: "master-kill-waited", losesRedis: true, repeats: true, waits: true, config: "wait_replicas: 1\nwait_replicas_ms: 2000\n", fits: withReplicas, strike: strikeMasterKill},
		{name: "journey-master-kill", losesRedis: true, repeats: true, journey: true, fits: withReplicas, strike: strikeMasterKill},
	}
}

// slotKinds are faults of a cluster that loses nothing by them.
func slotKinds() []kind {
	return []kind{{name: "slots", repeats: true, faults: slotMoves, fits: func(p *plan) { several(p); p.redis = onReplicas }, strike: strikeSlots}}
}

// withReplicas has several processes use masters with replicas.
func withReplicas(p *plan) {
	several(p)
	if p.redis != onSentinel && p.redis != onReplicas {
		p.redis = []string{onSentinel, onReplicas}[p.seed%2]
	}
}

// victim is a master, and how to find its successor.
type victim struct {
	*servers.Redis
	successor func() *servers.Redis // nil: there is none yet
}

// victim returns the master with sentinels, or that of the beats, or of a partition.
func (r *round) victim() victim {
	r.t.Helper()
	find := func() *servers.Redis { m, _ := r.sentinels.Agree(); return m }
	if r.sentinels == nil {
		slot, err := r.cluster.SlotOf("{members}")
		r.do(err)
		if i := r.random.IntN(1 + roundPartitions); i < roundPartitions {
			slot = slotOfPartition(i)
		}
		find = func() *servers.Redis { return r.cluster.MasterOf(slot) }
	}
	var v victim
	r.await("there is a master", func() bool { v.Redis = find(); return v.Redis != nil })
	v.successor = func() *servers.Redis {
		if now := find(); now != v.Redis {
			return now
		}
		return nil
	}
	return v
}

// slotOfPartition is the slot in which a partition is: flow.Partitions spaces them evenly.
func slotOfPartition(i int) int {
	return i*servers.ClusterSlots/roundPartitions + servers.ClusterSlots/(2*roundPartitions)
}

// followed waits until every server that is no master follows one.
func (r *round) followed() {
	r.t.Helper()
	if r.sentinels != nil {
		r.do(r.sentinels.AwaitReplicas(r.ctx))
		return
	}
	r.do(r.cluster.AwaitReplicas(r.ctx))
	r.do(r.cluster.Await(r.ctx))
}

// strikeMasterKill kills a master, and starts it again when a replica has its place.
func strikeMasterKill(r *round) {
	v := r.victim()
	r.rest(500*time.Millisecond, 1500*time.Millisecond)
	w := r.opensWindow()
	r.do(v.Kill())
	w.to = time.Now()
	r.await("a replica is promoted", func() bool { return v.successor() != nil })
	if !r.kind.waits || r.sentinels != nil { // of a cluster the new master has no replica yet
		r.load.progress()
	}
	r.restart(v.Redis)
	r.followed()
}

// strikeMasterAndProcess kills a process at nearly the same time, so that its successors
// read what the new master has.
func strikeMasterAndProcess(r *round) {
	v, p := r.victim(), r.peers[r.random.IntN(len(r.peers))]
	r.rest(500*time.Millisecond, 1500*time.Millisecond)
	w := r.opensWindow()
	if r.random.IntN(2) == 0 {
		p.kill()
		r.rest(0, 100*time.Millisecond)
	}
	r.do(v.Kill())
	w.to = time.Now()
	p.kill()
	r.await("a replica is promoted", func() bool { return v.successor() != nil })
	r.start(p, "")
	r.load.progress()
	r.restart(v.Redis)
	r.followed()
}

// strikeMasterFreeze stops a master for so long that a replica takes its place, and lets it
// go on. What it takes then, until it has been told, is lost as well.
func strikeMasterFreeze(r *round) {
	v := r.victim()
	r.rest(500*time.Millisecond, 1500*time.Millisecond)
	w := r.opensWindow()
	r.do(v.Pause())
	w.to = time.Now()
	r.await("a replica is promoted", func() bool { return v.successor() != nil })
	r.load.progress()
	r.rest(0, 2*flow.LeaseTimeout)
	w = r.opensWindow()
	w.from = time.Now()
	r.do(v.Continue())
	w.to = time.Now().Add(notSent)
	r.load.progress()
	r.followed()
}

// strikeMasterCommand has a replica promoted though its master lives, as for work on a
// machine. A cluster loses nothing by it. Sentinels do not wait: what the old master takes
// until all clients know the new one is lost.
func strikeMasterCommand(r *round) {
	v := r.victim()
	r.rest(500*time.Millisecond, 1500*time.Millisecond)
	if r.sentinels == nil {
		replica := r.cluster.ReplicaOf(v.Redis)
		if replica == nil {
			r.t.Fatal("the master has no replica")
		}
		r.do(r.cluster.Promote(replica))
		r.await("the replica is promoted", func() bool { return v.successor() != nil })
	} else {
		w := r.opensWindow()
		r.do(r.sentinels.Failover())
		asked := time.Now()
		r.await("a replica is promoted", func() bool {
			if time.Since(asked) > askedAgain {
				asked = time.Now()
				_ = r.sentinels.Failover() // refused while one is under way
			}
			return v.successor() != nil
		})
		w.to = time.Now().Add(notSent)
	}
	r.load.progress()
	r.followed()
}

// askedAgain is how long a promotion is waited for. On a busy machine another sentinel may
// have made the chosen replica one of the old master again: then the first gives up.
const askedAgain = 15 * time.Second

// slotMoves is how many slots a strike moves.
const slotMoves = 3

// strikeSlots moves slots with partitions, and that of the beats, between masters. Some of
// their keys are at one master and some at the other for a while.
func strikeSlots(r *round) {
	for range slotMoves {
		slot := slotOfPartition(r.random.IntN(roundPartitions))
		if r.random.IntN(4) == 0 {
			var err error
			slot, err = r.cluster.SlotOf("{members}")
			r.do(err)
		}
		from := r.cluster.MasterOf(slot)
		var others []*servers.Redis
		for _, node := range r.nodes {
			if node != from && r.cluster.ReplicaOf(node) != nil {
				others = append(others, node)
			}
		}
		to := others[r.random.IntN(len(others))]
		r.do(r.cluster.BeginMove(slot, from, to))
		r.rest(0, 1500*time.Millisecond) // less than a request is repeated
		r.do(r.cluster.EndMove(slot, from, to))
		r.load.progress()
	}
	r.do(r.cluster.Await(r.ctx))
}
