package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// The parts of `bench turns`.
const (
	partList = "list" // elements of a list, until they are rows
)

var turnsParts = []string{partBatches, partCounters, partSingle, partCalls, partObjects, partList}

// turnsName is the bench that compares two programs.
const turnsName = "turns"

const (
	turns       = 40
	turnsQuick  = 4
	mostTurns   = 1000
	turnsWithin = 2 * time.Minute // one piece of work

	allProcesses = "all"

	// z95 of a normal distribution leaves 5 % outside, at both ends together.
	z95 = 1.96
)

// load is a kind of work that both programs get, in pieces of the same size.
type load struct {
	part  string
	conns int
	piece int64 // requests, or elements of a list
	next  func(dst []byte) ([]byte, int)
	want  int // the status

	// stored returns when the process has written so many items.
	stored func(ctx context.Context, e *env, c *child, items int64) error
}

// loads makes the loads anew: each program gets the same requests.
func loads() []load {
	rows := func(ctx context.Context, _ *env, c *child, items int64) error { return c.awaitStored(ctx, items) }
	updates := func(ctx context.Context, _ *env, c *child, items int64) error {
		return c.await(ctx, storedUpdates, trackUsers+items)
	}
	counted := func(ctx context.Context, e *env, c *child, items int64) error {
		_, err := e.awaitCounted(ctx, c, items)
		return err
	}
	return []load{
		{part: partBatches, conns: httpBatchConns, piece: 60, next: (&eventSource{each: httpBatchItems}).next, want: httpEventsAnswer, stored: rows},
		{part: partCounters, conns: httpBatchConns, piece: 400, next: (&counterSource{}).next, want: httpEventsAnswer, stored: counted},
		{part: partSingle, conns: httpSingleConns, piece: 8_000, next: (&eventSource{each: 1}).next, want: httpEventsAnswer, stored: rows},
		{part: partCalls, conns: trackConns, piece: 4_000, next: (&trackSource{}).one, want: trackAnswer, stored: updates},
		{part: partObjects, conns: trackObjectConns, piece: 200, next: (&trackSource{}).many, want: trackAnswer, stored: updates},
		{part: partList, piece: 60_000, stored: rows},
	}
}

// side is one of the two programs, with servers of its own.
type side struct {
	env   *env
	child *child
	load  load
	items int64 // so far

	accepted, stored []float64            // of each turn: seconds to the last answer, to the last row
	computed         map[string][]float64 // CPU seconds of each process by its name, and of all
}

// runTurns is `sluice-bench turns`. This program and another one get the same
// pieces of work in turns, each with a Redis and a MariaDB of its own. The
// other one has nothing to do meanwhile. The state of the machine affects both,
// so the ratio of a turn holds where two runs, minutes apart, differ by a
// third. A row's runs are the ratios of the turns, and the interval is that of
// their mean.
func runTurns(ctx context.Context, r *run) (err error) {
	if r.against == "" {
		return errors.New("name the other program: --against FILE")
	}
	if r.redis != "" || r.database != "" {
		return errors.New("each program has servers of its own: leave out --redis and --database")
	}
	if r.whole != "" {
		return runWhole(ctx, r)
	}
	other := *r
	other.program = r.against
	if r.others > 0 {
		other.partitions = r.others
		r.report.Settings["partitions_of_the_other"] = fmt.Sprint(r.others)
	}
	var sides [2]*side
	for i, of := range []*run{r, &other} {
		e, err := openEnv(ctx, of, true)
		defer func() { err = errors.Join(err, e.close()) }()
		if err != nil {
			return err
		}
		e.maria.bare = true
		sides[i] = &side{env: e}
	}
	for i := range loads() {
		if part := loads()[i].part; r.does(part) {
			if err := turnsOf(ctx, r, sides, i); err != nil {
				return fmt.Errorf("%s: %w", part, err)
			}
		}
	}
	return nil
}

// turnsOr is how many turns there are.
func (r *run) turnsOr(usual int) int {
	if r.turns > 0 {
		return r.turns
	}
	return pick(r, usual, turnsQuick)
}

// checkTurns checks the flags of bench turns.
func (r *run) checkTurns() error {
	if r.turns != 0 && (r.turns < 2 || r.turns > mostTurns) {
		return fmt.Errorf("--turns %d: want 2 to %d", r.turns, mostTurns)
	}
	if r.whole == "" {
		return nil
	}
	for _, of := range strings.Split(r.whole, ",") {
		name, _, _ := strings.Cut(of, ":")
		if name == turnsName || !slices.ContainsFunc(benches, func(b bench) bool { return b.name == name }) {
			return fmt.Errorf("--benches: there is no bench %q to run in turns", name)
		}
	}
	return nil
}

// turnsOf measures one load.
func turnsOf(ctx context.Context, r *run, sides [2]*side, at int) (err error) {
	for _, s := range sides {
		s.load, s.items = loads()[at], 0
		s.accepted, s.stored, s.computed = nil, nil, make(map[string][]float64)
		if err := s.start(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.child.stop()) }()
		if err := s.turn(ctx, false); err != nil { // to warm up
			return err
		}
	}
	part := sides[0].load.part
	many := r.turnsOr(turns)
	r.say("%s: %d turns", part, many)
	for n := range many {
		order := []*side{sides[0], sides[1]}
		if n%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			if err := s.turn(ctx, true); err != nil {
				return err
			}
		}
	}
	r.compare(part+"_accepted", part+": speed to the last answer", sides[1].accepted, sides[0].accepted)
	r.compare(part+"_stored", part+": speed to the last row", sides[1].stored, sides[0].stored)
	for _, name := range slices.Sorted(maps.Keys(sides[0].computed)) {
		r.compare(part+"_computing_"+strings.ToLower(name), part+": computing of "+name, sides[0].computed[name], sides[1].computed[name])
	}
	return nil
}

// compare notes the ratios of two figures that were taken in turns, and the
// interval of their mean.
func (r *run) compare(id, what string, a, b []float64) {
	var logs []float64
	sum := 0.0
	for i := range a {
		r.report.add(id, what+", this program to the other", "1", a[i]/b[i])
		logs = append(logs, math.Log(a[i]/b[i]))
		sum += logs[i]
	}
	mean, squares := sum/float64(len(logs)), 0.0
	for _, x := range logs {
		squares += (x - mean) * (x - mean)
	}
	half := z95 * math.Sqrt(squares/float64(max(1, len(logs)-1))/float64(len(logs)))
	r.report.judge(target{ratio: id}, math.Exp(mean))
	r.report.judge(target{ratio: id + "_from"}, math.Exp(mean-half))
	r.report.judge(target{ratio: id + "_to"}, math.Exp(mean+half))
	r.say("%s: %.3f, 95 %% within %.3f to %.3f", id, math.Exp(mean), math.Exp(mean-half), math.Exp(mean+half))
}

// start starts the program with what the load needs.
func (s *side) start(ctx context.Context) (err error) {
	e := s.env
	if s.load.part == partCalls || s.load.part == partObjects {
		s.child, err = e.startTracked(ctx, httpBacklog)
		return err
	}
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx)); err != nil {
		return err
	}
	s.child, err = e.startSluice(ctx, e.maria, standard.settings, httpBacklog)
	return err
}

// turn is one piece of work, until all of it is stored.
func (s *side) turn(ctx context.Context, counts bool) error {
	ctx, cancel := context.WithTimeout(ctx, turnsWithin)
	defer cancel()
	e := s.env
	if s.load.next == nil {
		if err := e.fill(ctx, nextName, elements{s.items, s.load.piece}); err != nil {
			return err
		}
	}
	before, err := e.cpuTimes(s.child)
	if err != nil {
		return err
	}
	began := time.Now()
	accepted, err := s.work(ctx)
	if err != nil {
		return errors.Join(err, s.child.dead())
	}
	if err := s.load.stored(ctx, e, s.child, s.items); err != nil {
		return err
	}
	stored := time.Since(began)
	after, err := e.cpuTimes(s.child)
	if err != nil || !counts {
		return err
	}
	all := 0.0
	for name, t := range after {
		computed := (t - before[name]).Seconds()
		s.computed[name] = append(s.computed[name], computed)
		all += computed
	}
	s.computed[allProcesses] = append(s.computed[allProcesses], all)
	s.accepted, s.stored = append(s.accepted, accepted.Seconds()), append(s.stored, stored.Seconds())
	return nil
}

// work hands a piece in and returns how long that took.
func (s *side) work(ctx context.Context) (time.Duration, error) {
	if s.load.next == nil {
		s.items += s.load.piece
		began := time.Now()
		err := s.env.release(ctx)
		return time.Since(began), err
	}
	g := generator{address: strings.TrimPrefix(s.child.base, "http://"), conns: s.load.conns, span: time.Hour,
		most: s.load.piece, next: s.load.next, done: wantStatus(s.load.want)}
	all, err := g.run(ctx)
	s.items += all.items
	return all.took, err
}
