package chaos

import (
	"flag"
	"fmt"
	"slices"
	"time"
)

var strikes = flag.Int("strikes", 1, "how often a round strikes under the same load: with kinds that take turns, or with the one that -kind names; more than 1 with the kinds of sentinel, replicas and galera only")

const (
	// strikeWithin bounds a strike after the first one of a round, with the rest before it
	// and until all is well again.
	strikeWithin = 90 * time.Second

	// restBetween bounds the rest between two strikes.
	restBetween = 3 * time.Second

	// loadOften is loadEvery of a round that strikes several times: as much comes as in
	// several rounds, and is counted at one end.
	loadOften = 2 * loadEvery
)

// turnsOf returns with which kinds a round strikes, in their order.
func turnsOf(first kind, named bool) (turns []kind) {
	all, begin := []kind{first}, 0
	if !named {
		all = slices.DeleteFunc(kindsHere(), func(k kind) bool { return !first.besides(k) })
		begin = slices.IndexFunc(all, func(k kind) bool { return k.name == first.name })
	}
	for i := range max(*strikes, 1) {
		turns = append(turns, all[(begin+i)%len(all)])
	}
	return turns
}

// besides reports whether a round of a kind may strike with another as well, by what its
// processes are started with and what is looked at. In a round with people in journeys
// all kinds meet them.
func (k *kind) besides(other kind) bool {
	if other.name == k.name {
		return true
	}
	return k.repeats && other.repeats && k.waits == other.waits && k.config == other.config && !other.journey
}

// take has the plan suit all kinds that it strikes with.
func (p *plan) take(turns []kind) {
	p.turns = turns
	for _, k := range turns {
		p.kind.losesRedis = p.kind.losesRedis || k.losesRedis
		if k.fits != nil {
			k.fits(p)
		}
	}
}

// strikeAll is all faults of the round. Each is over, and the servers are well, before the
// next begins.
func (r *round) strikeAll() {
	r.t.Helper()
	if len(r.turns) > 1 && !r.kind.repeats {
		r.t.Fatalf("-strikes=%d: a round of %s strikes once", len(r.turns), r.kind.name)
	}
	for i, k := range r.turns {
		if i > 0 {
			r.rest(0, restBetween)
		}
		r.t.Logf("strike %d of %d: %s", i+1, len(r.turns), k.name)
		promotions, windows := r.promotions(), len(r.windows)
		k.strike(r)
		r.well()
		if n := r.promotions() - promotions; n > 1 {
			r.widen(r.windows[windows:], n)
		}
		r.strikes++
		r.faults += max(k.faults, 1)
	}
}

// well waits until no server lacks anything: a strike that comes then is the only fault.
func (r *round) well() {
	r.t.Helper()
	if len(r.turns) == 1 {
		return // some kinds leave servers as they are, and the verdict finds out
	}
	if r.redis == onSentinel || r.redis == onReplicas {
		r.followed()
	}
	if r.base == onGalera {
		r.do(r.rig.galera.Await(r.ctx))
	}
	r.load.progress()
}

// promotions is how often sentinels have promoted a replica; 0: there are none.
func (r *round) promotions() int {
	r.t.Helper()
	if r.sentinels == nil {
		return 0
	}
	n, err := r.sentinels.Promotions()
	r.do(err)
	return n
}

// widen has windows last until now. On a busy machine two sentinels may be elected one after
// the other: what the replica took that the first has promoted is lost, too.
func (r *round) widen(windows []*window, promotions int) {
	r.t.Helper()
	r.t.Logf("the sentinels have promoted a replica %d times", promotions)
	for _, w := range windows {
		w.to = time.Now()
	}
}

// within bounds the whole round.
func (p *plan) within() time.Duration {
	return roundWithin + time.Duration(len(p.turns)-1)*strikeWithin
}

// struck says how often the round has struck.
func (r *round) struck() string { return fmt.Sprintf(" strikes=%d faults=%d", r.strikes, r.faults) }
