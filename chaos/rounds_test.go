package chaos

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	rounds     = flag.Int("rounds", 0, "how many rounds TestRounds makes in all, seeds 1 to that; 0: as many as begin within a minute, with new seeds")
	roundsFile = flag.String("rounds-file", "", "where TestRounds notes each round that has ended, a line each; it goes on after those that are there")
	atOnce     = flag.Int("at-once", 1, "how many rounds run side by side")
	onlyKind   = flag.String("kind", "", "TestRounds makes rounds of this kind only")
)

// beginWithin is after what time a run without -rounds begins no further round.
const beginWithin = time.Minute

// plan is what a round is made of. Its seed says all of it.
type plan struct {
	seed      uint64
	kind      kind
	processes int
	clustered bool
	base      string
	slow      bool // the receiver takes its time
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

	// losesRedis: Redis goes back, and what it had not received is lost.
	losesRedis bool

	// later: it takes no turns yet, but can be asked for by its name.
	later bool
}

// planOf derives a round from its seed: the kinds take turns.
func planOf(seed uint64) (plan, *rand.Rand) {
	random := rand.New(rand.NewPCG(seed, 3))
	all := kinds()
	turns := slices.DeleteFunc(kinds(), func(k kind) bool { return k.later })
	p := plan{seed: seed, kind: turns[seed%uint64(len(turns))]}
	if *onlyKind != "" {
		i := slices.IndexFunc(all, func(k kind) bool { return k.name == *onlyKind })
		if i < 0 {
			panic("there is no kind " + *onlyKind)
		}
		p.kind = all[i]
	}
	p.processes = []int{1, 3, 3}[random.IntN(3)]
	p.clustered = random.IntN(2) == 0
	p.base = []string{onMariaDB, onPostgres, onSQLite}[random.IntN(3)]
	p.slow = random.IntN(2) == 0
	if p.processes > 1 && p.base == onSQLite { // it takes one process only
		p.base = []string{onMariaDB, onPostgres}[random.IntN(2)]
	}
	if p.kind.fits != nil {
		p.kind.fits(&p)
	}
	return p, random
}

func (p *plan) String() string {
	redis, receiver := "one", "fast"
	if p.clustered {
		redis = "cluster"
	}
	if p.slow {
		receiver = "slow"
	}
	return fmt.Sprintf("%s processes=%d redis=%s base=%s receiver=%s", p.kind.name, p.processes, redis, p.base, receiver)
}

// command repeats the round.
func (p *plan) command() string {
	again := fmt.Sprintf("go test ./chaos -count=1 -run 'TestRounds$' -args -seed=%d", p.seed)
	if *onlyKind != "" {
		again += " -kind=" + *onlyKind
	}
	return again
}

// verdict is how a round has ended.
type verdict struct {
	seed   uint64
	kind   string
	passed bool
}

// TestRounds makes rounds of faults: each starts processes and servers, loads
// them with events, users and mail, strikes, and counts at the far end. The seed
// of a round says its kind, the number of processes, the servers and the load;
// the instants at which things happen differ from run to run.
//
// With -rounds=500 -rounds-file=FILE it may be ended at any time and goes on
// with the next run. With -seed it makes the round of that seed.
func TestRounds(t *testing.T) {
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
				noteVerdict(t, v)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	sumUp(t, done)
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
	p, random := planOf(seed)
	began := time.Now()
	passed := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
		t.Logf("%s; repeat it with: %s", &p, p.command())
		r := newRound(t, rig, p, random)
		r.make()
	})
	word := "passed"
	if !passed {
		word = "FAILED"
	}
	fmt.Printf("round %d %s in %.0f s: %s\n", seed, word, time.Since(began).Seconds(), &p)
	if !passed {
		fmt.Printf("  repeat it with: %s\n", p.command())
	}
	return verdict{seed, p.kind.name, passed}
}

// readVerdicts returns the rounds that the file has.
func readVerdicts(t *testing.T) (all []verdict) {
	t.Helper()
	if *roundsFile == "" {
		return nil
	}
	file, err := os.Open(*roundsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			continue // a run was killed while it wrote
		}
		s, err := strconv.ParseUint(words[0], 10, 64)
		if err != nil || words[2] != "passed" && words[2] != "FAILED" {
			continue
		}
		all = append(all, verdict{s, words[1], words[2] == "passed"})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// noteVerdict writes a line: seed, kind, passed or FAILED.
func noteVerdict(t *testing.T, v verdict) {
	t.Helper()
	if *roundsFile == "" {
		return
	}
	file, err := os.OpenFile(*roundsFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Error(err)
		return
	}
	defer file.Close()
	word := map[bool]string{true: "passed", false: "FAILED"}[v.passed]
	if _, err := fmt.Fprintf(file, "%d %s %s\n", v.seed, v.kind, word); err != nil {
		t.Error(err)
	}
}

// sumUp prints how many rounds of each kind have passed, and the seeds of those
// that have not; these also fail the test if an earlier run made them.
func sumUp(t *testing.T, done []verdict) {
	t.Helper()
	made, failed := map[string]int{}, map[string][]uint64{}
	for _, v := range done {
		made[v.kind]++
		if !v.passed {
			failed[v.kind] = append(failed[v.kind], v.seed)
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(made)) {
		slices.SortFunc(failed[name], cmp.Compare[uint64])
		fmt.Fprintf(&text, "  %-16s %4d of %4d passed", name, made[name]-len(failed[name]), made[name])
		if len(failed[name]) > 0 {
			fmt.Fprintf(&text, "; failed: seeds %v", failed[name])
		}
		text.WriteByte('\n')
	}
	fmt.Printf("%d rounds:\n%s", len(done), text.String())
	if len(failed) > 0 && !t.Failed() {
		t.Errorf("rounds of earlier runs have failed; take their lines out of %s to make them again", *roundsFile)
	}
	if len(done) == 0 {
		t.Error("no round was made")
	}
}
