package chaos

import (
	"context"
	"time"

	"sluice/test/servers"
)

// galeraKinds are faults of a Galera cluster. Two nodes are struck one after the other, the
// one that processes use among them; the third is never. Nothing is lost, and no mail is in
// doubt: no process dies.
func galeraKinds() []kind {
	strike := func(how func(r *round, g *servers.Galera, node int)) func(*round) {
		return func(r *round) {
			for _, node := range []int{0, 1} {
				r.rest(500*time.Millisecond, 1500*time.Millisecond)
				how(r, r.rig.galera, node)
				r.load.progress()
			}
			r.checks = append(r.checks, func() {
				if n := r.states["in_doubt"]; n > 0 {
					r.t.Errorf("%d mails are in doubt, though no process died", n)
				}
			})
		}
	}
	onNodes := func(p *plan) { p.processes, p.base = 3, onGalera }
	return []kind{
		{name: "galera-kill", fits: onNodes, strike: strike(strikeGaleraKill)},
		{name: "galera-freeze", fits: onNodes, strike: strike(strikeGaleraFreeze)},
		{name: "galera-stop", fits: onNodes, strike: strike(strikeGaleraStop)},
		{name: "journey-galera-kill", journey: true, fits: onNodes, strike: strike(strikeGaleraKill)},
	}
}

// strikeGaleraKill kills a node, and starts it again when the others serve.
func strikeGaleraKill(r *round, g *servers.Galera, node int) {
	r.do(g.Nodes[node].Kill())
	r.load.progress()
	r.do(g.Rejoin(r.ctx, node))
}

// strikeGaleraFreeze stops a node for longer than the others wait for it, or less.
func strikeGaleraFreeze(r *round, g *servers.Galera, node int) {
	how := r.between(time.Second, 6*time.Second)
	r.t.Logf("node %d is stopped for %s", node, how.Round(time.Millisecond))
	r.do(g.Nodes[node].Pause())
	pause(r.ctx, how)
	r.do(g.Nodes[node].Continue())
	r.do(g.Await(r.ctx))
}

// strikeGaleraStop stops a node as for work on its machine, and starts it again.
func strikeGaleraStop(r *round, g *servers.Galera, node int) {
	ctx, cancel := context.WithTimeout(r.ctx, settleWithin)
	defer cancel()
	r.do(g.Nodes[node].Stop(ctx))
	r.load.progress()
	r.do(g.Rejoin(r.ctx, node))
}
