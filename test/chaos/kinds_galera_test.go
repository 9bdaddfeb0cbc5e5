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
			for node := range galeraStruck {
				r.rest(500*time.Millisecond, 1500*time.Millisecond)
				how(r, r.rig.galera, node)
				r.load.progress()
			}
			if r.strikes == 0 { // in a round of other kinds as well processes die
				r.checks = append(r.checks, r.noDoubts)
			}
		}
	}
	onNodes := func(p *plan) { p.processes, p.base = 3, onGalera }
	return []kind{
		{name: "galera-kill", repeats: true, faults: galeraStruck, fits: onNodes, strike: strike(strikeGaleraKill)},
		{name: "galera-freeze", repeats: true, faults: galeraStruck, fits: onNodes, strike: strike(strikeGaleraFreeze)},
		{name: "galera-stop", repeats: true, faults: galeraStruck, fits: onNodes, strike: strike(strikeGaleraStop)},
		{name: "journey-galera-kill", repeats: true, faults: galeraStruck, journey: true, fits: onNodes, strike: strike(strikeGaleraKill)},
	}
}

// galeraStruck is how many nodes a strike meets, one after the other.
const galeraStruck = 2

func (r *round) noDoubts() {
	r.t.Helper()
	if n := r.states["in_doubt"]; n > 0 {
		r.t.Errorf("%d mails are in doubt, though no process died", n)
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
	restarted, err := g.Return(r.ctx, node)
	if restarted != "" {
		r.t.Logf("node %d was started again: %s", node, restarted)
	}
	r.do(err)
}

// strikeGaleraStop stops a node as for work on its machine, and starts it again.
func strikeGaleraStop(r *round, g *servers.Galera, node int) {
	ctx, cancel := context.WithTimeout(r.ctx, settleWithin)
	defer cancel()
	r.do(g.Nodes[node].Stop(ctx))
	r.load.progress()
	r.do(g.Rejoin(r.ctx, node))
}
