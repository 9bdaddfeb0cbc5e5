package chaos

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"sluice/flow"
	"sluice/test/proxy"
)

// failpoints are the places where the program dies, in the order of an
// element's way (ARCHITECTURE.md, "What if it dies here?").
var failpoints = []string{
	"take", "taken", "read", // a list is held; was held; a page is read
	"append", "appended", // the router writes to the logs; has written
	"load", "transaction", "commit", "committed", // before, inside, at the end of, after the transaction
	"drop", "trim", // what is committed leaves Redis
}

// TestKillAtEveryFailpoint kills the program with SIGKILL at each step, some
// hits in. The next one goes on, and comes to the step at which it is killed.
func TestKillAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startPushing()
	for i, name := range failpoints {
		w.dies(fmt.Sprintf("%s=kill,%d", name, 2+i%3))
	}
	w.start("")
	w.passed()
	w.stopPushing()
	w.check()
}

// TestKillWhileHashesAreDrained kills the program at each step of a count's way,
// with nothing but hashes to drain.
func TestKillWhileHashesAreDrained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.writeConfig(inputHashes)
	w.startPushing()
	for i, name := range []string{"take", "taken", "read", "load", "transaction", "commit", "committed", "drop"} {
		w.dies(fmt.Sprintf("%s=kill,%d", name, 1+i%2))
	}
	w.start("")
	w.counted()
	w.stopPushing()
	w.checkCounts()
}

// TestErrorAtEveryFailpoint makes each step fail once, in one program.
func TestErrorAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := ""
	for i, name := range failpoints {
		spec += fmt.Sprintf("%s=error,%d;", name, 3+i)
	}
	w.start(spec[:len(spec)-1])
	w.startPushing()
	w.passed()
	w.passed()
	w.stopPushing()
	w.check()
}

// TestRandomKills kills the program, Redis or MariaDB at random instants.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	w := newWorld(t)
	w.start("")
	w.startPushing()
	w.passed()
	done := w.killAtRandom(random, *kills, func() {}, w.passed)
	t.Logf("%d kills", done)
	w.passed()
	w.stopPushing()
	w.check()
}

// seeded prints the seed with which the test can be repeated.
func seeded(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d (repeat with: go test ./chaos -run %s -args -seed=%d -kills=%d)", s, t.Name(), s, *kills)
	return rand.New(rand.NewPCG(s, 0))
}

// A prey is what killAny kills.
type prey int

const (
	preyProgram prey = iota
	preyRedis
	preyBase
	preys // how many there are
)

// anyPrey is the program more often than a server.
func anyPrey(random *rand.Rand) prey {
	switch what := random.IntN(10); {
	case what < 6:
		return preyProgram
	case what < 8:
		return preyRedis
	}
	return preyBase
}

// killAny kills the program, Redis or the database, starts it again, and
// returns the program that runs then.
func (w *world) killAny(what prey, p *program) *program {
	w.t.Helper()
	restart := func(server database) {
		if err := server.Kill(); err != nil {
			w.t.Fatal(err)
		}
		if err := server.Restart(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	switch what {
	case preyProgram:
		p.kill()
		return w.start("")
	case preyRedis:
		restart(w.redis)
	case preyBase:
		restart(w.base)
	}
	return p
}

// TestZombie stops a program past its lease, lets another take over, and
// continues it: at a random instant, and inside its transaction.
func TestZombie(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"", "transaction", "commit", "appended"} {
		t.Run("at="+where, func(t *testing.T) {
			w := newWorld(t)
			spec := ""
			if where != "" {
				spec = where + "=stop,5"
			}
			w.startPushing()
			zombie := w.start(spec)
			if where == "" {
				w.passed()
				zombie.signal(syscall.SIGSTOP)
			}
			w.eventually("the program is stopped", zombie.stopped)
			w.start("")
			w.passed()
			zombie.signal(syscall.SIGCONT)
			w.passed()
			w.stopPushing()
			w.check()
		})
	}
}

// TestCutConnections cuts the program's connections before a request, after
// it, and after the server has acted on it but before the program hears of it.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("")
	w.startPushing()
	w.passed()
	cuts := []struct {
		proxy   *proxy.Proxy
		pattern string
	}{
		{w.baseProxy, "COMMIT"},
		{w.baseProxy, "UPDATE cursors"},
		{w.baseProxy, "LOAD DATA"},
		{w.redisProxy, ":held:"},
		{w.redisProxy, "LRANGE"},
		{w.redisProxy, "list:q_events"},
		{w.redisProxy, "XREAD"},
		{w.redisProxy, "hashes:buffered"},
	}
	for _, c := range cuts {
		for _, moment := range []proxy.Moment{proxy.Before, proxy.After, proxy.Replied} {
			for _, replyBytes := range []int{0, 3} {
				if moment != proxy.Replied && replyBytes > 0 {
					continue
				}
				armed, err := c.proxy.Arm(proxy.Rule{Direction: proxy.ToServer, Pattern: []byte(c.pattern), Moment: moment, ReplyBytes: replyBytes})
				if err != nil {
					t.Fatal(err)
				}
				w.eventually(fmt.Sprintf("the connection is cut at %s, moment %d", c.pattern, moment), func() bool {
					select {
					case <-armed.Fired():
						return true
					default:
						return false
					}
				})
				w.passed()
			}
		}
	}
	w.stopPushing()
	w.check()
}

// TestTakeOver checks a promise. After kill -9 of the only process, the next
// one is at work on all partitions within 5 s of its start. It runs alone,
// because it measures time.
func TestTakeOver(t *testing.T) {
	w := newWorld(t)
	p := w.start("")
	w.startPushing()
	w.passed()
	p.kill()
	started := time.Now()
	w.start("")
	w.passed()
	t.Logf("at work again after %s", time.Since(started).Round(time.Millisecond))
	w.stopPushing()
	w.check()
	if flow.LeaseTimeout > 3*time.Second {
		t.Fatalf("leases last %s: a take-over within 5 s cannot be promised", flow.LeaseTimeout)
	}
}

// TestStopUnderLoad is the graceful stop: it ends by itself, leaves nothing in
// between, and its successor need not wait for leases to run out.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startPushing()
	for range 3 {
		p := w.start("")
		w.passed()
		p.signal(syscall.SIGTERM)
		w.exits(p, "the program has ended")
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Fatalf("the program ended with status %d", code)
		}
	}
	w.start("")
	w.stopPushing()
	w.check()
}
