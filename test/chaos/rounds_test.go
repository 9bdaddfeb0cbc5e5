package chaos

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

var (
	rounds     = flag.Int("rounds", 0, "how many rounds TestRounds makes in all, seeds 1 to that; 0: one of each kind without journeys, with new seeds, or as many as begin within a minute where the kind or the set-up is chosen")
	roundsFile = flag.String("rounds-file", "", "where TestRounds notes each round that has ended, a line each; it goes on after those that are there")
	atOnce     = flag.Int("at-once", 1, "how many rounds run side by side")
	onlyKind   = flag.String("kind", "", "TestRounds makes rounds of this kind only")
	onRedis    = flag.String("redis", "", "TestRounds makes its rounds on this: one, cluster, replicas (a cluster with them) or sentinel; empty: the seed chooses one or cluster")
	onBase     = flag.String("base", "", "TestRounds makes its rounds on this database: mariadb, postgres, sqlite or galera; empty: the seed chooses one of the first three")
	onWriters  = flag.Int("writers", 0, "with how many writers (store_writers) TestRounds has each process store; 0: the seed chooses 1 or 3")
	onBinary   = flag.String("binary", "", "a program to try in place of one that is built from here")
)

// beginWithin is after what time a run without -rounds begins no further round, where the
// kind or the set-up is chosen.
const beginWithin = time.Minute

// plan is what a round is made of. Its seed says all of it.
type plan struct {
	seed      uint64
	kind      kind
	turns     []kind // with which it strikes, the first is kind
	processes int
	redis     string
	base      string
	slow      bool // the receiver takes its time
	writers   int  // of the store, in each process
}

// kind is a kind of fault.
type kind struct {
	name string

	// fits corrects a plan to what the fault needs.
	fits func(*plan)

	// config is added to that of all processes; failpoints are armed in the first.
	config     string
	failpoints func(r *round) string

	// strike is the fault, under load. It returns when the fault is over.
	strike func(r *round)

	// strict: nothing may be in doubt and no lease may move.
	strict bool

	// journey: people go through journeys.
	journey bool

	// table: a list goes into a table as well.
	table bool

	// losesRedis: Redis goes back, and what it had not received is lost.
	losesRedis bool

	// waits: what was accepted is in a replica, and nothing may be lost.
	waits bool

	// standby: the database has a replica, which is promoted.
	standby bool

	// repeats: a round may strike so several times.
	repeats bool

	// faults is how many faults a strike is; 0: one.
	faults int
}

// planOf derives a round from its seed: the kinds take turns, but for one that is named.
func planOf(seed uint64, name string) (plan, *rand.Rand) {
	random := rand.New(rand.NewPCG(seed, 3))
	all := kindsHere()
	p := plan{seed: seed, kind: all[seed%uint64(len(all))]}
	if name != "" {
		all = allKinds()
		i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
		if i < 0 {
			panic("there is no kind " + name)
		}
		p.kind = all[i]
	}
	p.processes = []int{1, 3, 3}[random.IntN(3)]
	p.redis = []string{onCluster, onOne}[random.IntN(2)]
	p.base = []string{onMariaDB, onPostgres, onSQLite}[random.IntN(3)]
	p.slow = random.IntN(2) == 0
	p.writers = *onWriters
	if p.writers == 0 { // by numbers of its own: what else a seed says stays as it is
		p.writers = []int{1, 3}[rand.New(rand.NewPCG(seed, 4)).IntN(2)]
	}
	if *onRedis != "" {
		p.redis = *onRedis
	}
	if *onBase != "" {
		p.base = *onBase
	}
	if p.base == onSQLite && *onBase != "" {
		p.processes = 1
	}
	if p.processes > 1 && p.base == onSQLite { // it takes one process only
		p.base = []string{onMariaDB, onPostgres}[random.IntN(2)]
	}
	p.take(turnsOf(p.kind, name != ""))
	return p, random
}

func (p *plan) String() string { return p.kind.name + " " + p.setUp() }

// setUp says what a round is made on.
func (p *plan) setUp() string {
	receiver := "fast"
	if p.slow {
		receiver = "slow"
	}
	return fmt.Sprintf("processes=%d writers=%d redis=%s base=%s receiver=%s", p.processes, p.writers, p.redis, p.base, receiver)
}

// command repeats the round, also when there are more kinds to take turns.
func (p *plan) command() string {
	text := fmt.Sprintf("go test ./chaos -count=1 -run 'TestRounds$' -args -seed=%d", p.seed)
	if len(p.turns) == 1 || *onlyKind != "" { // else kinds take turns
		text += " -kind=" + p.kind.name
	}
	if *onRedis != "" {
		text += " -redis=" + *onRedis
	}
	if *onBase != "" {
		text += " -base=" + *onBase
	}
	if *onWriters != 0 {
		text += fmt.Sprintf(" -writers=%d", *onWriters)
	}
	if len(p.turns) > 1 {
		text += fmt.Sprintf(" -strikes=%d", len(p.turns))
	}
	return text
}

// TestRounds makes rounds of faults: each starts processes and servers, loads
// them with events, users and mail, strikes, and counts at the far end. The
// seed of a round decides its kind, the number of processes, the servers and
// the load. The instants at which things happen differ from run to run.
//
// With -rounds=500 -rounds-file=FILE it may be ended at any time and goes on
// with the next run. With -seed it makes the round of that seed. With nothing it
// makes one of each kind, but for those of TestJourneyRounds.
func TestRounds(t *testing.T) {
	if *seed == 0 && *rounds == 0 && *onlyKind == "" && *onRedis == "" && *onBase == "" {
		makeOneOfEach(t, slices.DeleteFunc(kinds(), func(k kind) bool { return k.journey }), 2)
		return
	}
	done := readVerdicts(t)
	seeds := make(chan uint64)
	go feedSeeds(t, done, seeds) // ends with the channel, which it closes
	var all sync.WaitGroup
	var mu sync.Mutex
	for worker := range max(*atOnce, 1) {
		all.Go(func() {
			rig := newRig(t, worker)
			for seed := range seeds {
				v := makeRound(t, rig, seed)
				mu.Lock()
				done = append(done, v)
				noteLine(t, v.String())
				mu.Unlock()
			}
		})
	}
	all.Wait()
	sumUp(t, done)
}

// TestJourneyRounds makes a round of every second kind with journeys, some side by side:
// they take longer than all the rest. Chance decides which half it is; one after the
// other are made with -rounds, or with -kind.
func TestJourneyRounds(t *testing.T) {
	t.Parallel()
	var half []kind
	odd := rand.IntN(2)
	for i, k := range journeyKinds() {
		if i%2 == odd {
			half = append(half, k)
		}
	}
	makeOneOfEach(t, half, 4)
}

// makeOneOfEach makes a round of each kind, so many side by side.
func makeOneOfEach(t *testing.T, kinds []kind, sideBySide int) {
	first, turns := uint64(rand.Uint32()), make(chan int)
	var all sync.WaitGroup
	for worker := range sideBySide {
		all.Go(func() {
			rig := newRig(t, worker)
			for i := range turns {
				makeRoundOf(t, rig, first+uint64(i), kinds[i].name) // databases are named by seeds
			}
		})
	}
	for i := range kinds {
		turns <- i
	}
	close(turns)
	all.Wait()
}

// feedSeeds sends the seeds of the rounds to make.
func feedSeeds(t *testing.T, done []verdict, to chan<- uint64) {
	defer close(to)
	if *seed != 0 {
		to <- *seed
		return
	}
	if *rounds > 0 {
		for s := uint64(1); s <= uint64(*rounds) && t.Context().Err() == nil; s++ {
			if !slices.ContainsFunc(done, func(v verdict) bool { return v.seed == s }) {
				to <- s
			}
		}
		return
	}
	began, first := time.Now(), uint64(rand.Uint32())
	for s := first; time.Since(began) < beginWithin; s++ {
		to <- s
	}
}

// makeRound makes one round. A round that fails does not end the others.
func makeRound(t *testing.T, rig *rig, seed uint64) verdict {
	return makeRoundOf(t, rig, seed, *onlyKind)
}

func makeRoundOf(t *testing.T, rig *rig, seed uint64, kind string) verdict {
	p, random := planOf(seed, kind)
	v := verdict{seed: seed, kind: p.kind.name, setUp: p.setUp()}
	began := time.Now()
	v.passed = t.Run(fmt.Sprintf("seed=%d/%s", seed, p.kind.name), func(t *testing.T) {
		rec := &recorder{T: t}
		t.Cleanup(func() {
			if t.Failed() {
				keepOutput(t, &p, rec.text())
			}
		})
		rec.Logf("%s; repeat it with: %s", &p, p.command())
		r := newRound(rec, rig, p, random)
		defer func() { v.amounts, v.faults = r.amounts(), r.faults }() // also when it fails
		r.make()
	})
	v.took = time.Since(began)
	fmt.Printf("round %s\n", v)
	if !v.passed {
		fmt.Printf("  repeat it with: %s\n", p.command())
	}
	return v
}
