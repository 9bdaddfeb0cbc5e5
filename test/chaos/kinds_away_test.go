package chaos

import (
	"math"
	"time"

	"sluice/flow"
	"sluice/test/servers"
)

// strikeKill kills processes, Redis (one node of it) and the database, with kill
// -9, at random instants.
func strikeKill(r *round) {
	for range 4 {
		r.rest(0, 1500*time.Millisecond)
		switch n := r.random.IntN(10); {
		case n < 6:
			p := r.peers[r.random.IntN(len(r.peers))]
			p.kill()
			r.start(p, "")
		case n < 8:
			node := r.nodes[r.random.IntN(len(r.nodes))]
			r.do(node.Kill())
			r.rest(0, 500*time.Millisecond)
			r.restart(node)
		default:
			server := r.server()
			if server == nil {
				continue
			}
			r.do(server.Kill())
			r.do(server.Restart(r.ctx))
		}
	}
}

// outage is 1 to 20 s, the shorter the more often.
func (r *round) outage() time.Duration {
	return time.Duration(float64(time.Second) * math.Pow(20, r.random.Float64()))
}

// strikeRedisAway takes all of Redis away for 1 to 20 s, in one of several ways,
// while mail is on the wire.
func strikeRedisAway(r *round) {
	r.burst(200)
	r.away(r.nodes, r.outage())
}

// strikeMembersAway takes away the node alone that has what the processes know of
// each other.
func strikeMembersAway(r *round) {
	r.burst(200)
	r.away(r.nodes[len(r.nodes)-1:], r.outage())
}

// strikeReceiver takes Redis away for a little longer than a lease lasts, while
// a slow receiver has much mail on the wire. A process that judged others by
// the age of their beats would take living ones for dead.
func strikeReceiver(r *round) {
	r.burst(600)
	r.away(r.nodes, r.between(3100*time.Millisecond, 4700*time.Millisecond))
}

// away takes servers away for a time: frozen, killed, unreachable, or silent.
func (r *round) away(nodes []*servers.Redis, how time.Duration) {
	ways := 2
	if !r.clustered() {
		ways = 4
	}
	way := r.random.IntN(ways)
	r.t.Logf("%d servers away for %s: %s", len(nodes), how.Round(time.Millisecond), []string{"frozen", "killed", "unreachable", "silent"}[way])
	for _, node := range nodes {
		switch way {
		case 0:
			r.do(node.Pause())
		case 1:
			r.do(node.Kill())
		}
	}
	for _, p := range r.peers {
		switch way {
		case 2:
			p.redis.Refuse(true)
			p.redis.Cut()
		case 3:
			p.redis.Stall()
		}
	}
	pause(r.ctx, how)
	for _, node := range nodes {
		switch way {
		case 0:
			r.do(node.Continue())
		case 1:
			r.restart(node)
		}
	}
	for _, p := range r.peers {
		if way >= 2 {
			p.redis.Refuse(false)
			p.redis.Resume()
		}
	}
}

// strikeCutOff cuts one process off from Redis, beyond the time of its leases,
// while the others go on.
func strikeCutOff(r *round) {
	p, how := r.peers[r.random.IntN(len(r.peers))], r.between(flow.LeaseTimeout, 4*flow.LeaseTimeout)
	switch {
	case r.clustered():
		r.allow(p, false, r.nodes...)
	case r.random.IntN(2) == 0:
		p.redis.Stall()
	default:
		p.redis.Refuse(true)
		p.redis.Cut()
	}
	pause(r.ctx, how)
	if r.clustered() {
		r.allow(p, true, r.nodes...)
		return
	}
	p.redis.Refuse(false)
	p.redis.Resume()
}
