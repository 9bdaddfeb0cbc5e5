package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/test/servers"
)

// testRedis is the server of this test binary.
var testRedis *servers.Redis

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sluice-route-")
	if err != nil {
		panic(err)
	}
	testRedis, err = servers.StartRedis(context.Background(), servers.RedisOptions{Dir: dir, AppendFsync: "no"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = testRedis.Kill()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func dial(t *testing.T) *flow.Redis {
	t.Helper()
	r, err := flow.Dial(t.Context(), testRedis.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// patientRedis is waited for: on a busy machine a token would else come too late.
type patientRedis struct{ *flow.Redis }

func (p patientRedis) Pace(ctx context.Context, route string, asks []flow.PaceAsk) ([]flow.PaceGrant, error) {
	return p.Redis.Pace(context.WithoutCancel(ctx), route, asks)
}

func (p patientRedis) StopsHere(ctx context.Context) (names map[string]string, epoch uint64, err error) {
	return p.Redis.StopsHere(context.WithoutCancel(ctx))
}

// paced is a bed on real Redis with one route of a name of the test's own.
func paced(t *testing.T, redis *flow.Redis, change func(*Settings)) *bed {
	s := named(t.Name())
	change(&s)
	return newBed(t, Options{Redis: patientRedis{redis}, Routes: []Settings{s}})
}

func (b *bed) lease() {
	b.t.Helper()
	if err := b.Lease(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// drain takes mails to a domain until none is taken, and returns how many were.
func (b *bed) drain(domain string) (taken int, last Take) {
	for {
		if last = b.Takes(b.routes[0].transport, mailTo("x@"+domain), nil, b.clock.Now()); !last.OK {
			return taken, last
		}
		taken++
	}
}

// A token is leased for each mail, by those that want any, and all processes
// share them.
func TestTokens(t *testing.T) {
	redis := dial(t)
	// What comes in while the test runs is less than a token.
	slow := func(s *Settings) { s.Pace = Pace{PerSecond: 0.001, Size: 4} }
	a, b := paced(t, redis, slow), paced(t, redis, slow)
	if n, take := a.drain("example.com"); n != 0 || take.Wait != leaseEvery || take.Lane != "" {
		t.Fatalf("%d without a lease, %+v", n, take)
	}
	b.lease() // it was asked for nothing
	for _, p := range []*bed{a, b, a, b} {
		p.drain("example.com")
		p.lease()
		if n, _ := p.drain("example.com"); n != 1 { // a tenth of a second's worth, one at least
			t.Fatalf("%d of a lease", n)
		}
	}
	_, _ = a.drain("example.com")
	a.lease()
	if n, take := a.drain("example.com"); n != 0 || take.Wait != maxWait {
		t.Fatalf("%d of an empty bucket, %+v", n, take)
	}
}

// What is not used goes back when the lease is over, and what was untried too.
func TestTokensGoBack(t *testing.T) {
	redis := dial(t)
	slow := func(s *Settings) { s.Pace = Pace{PerSecond: 0.001, Size: 1} }
	a, b := paced(t, redis, slow), paced(t, redis, slow)
	a.drain("example.com")
	a.lease()
	a.clock.Move(leaseFor)
	if n, _ := a.drain("example.com"); n != 0 {
		t.Fatal("a token is good for ever")
	}
	a.routes[0].bucket.asked = 0
	a.lease()
	b.drain("example.com")
	b.lease()
	if n, _ := b.drain("example.com"); n != 1 {
		t.Fatalf("%d: the token was lost", n)
	}
	for _, r := range []mail.Result{untried, {Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Code: 421, Closed: true}} {
		b.report(t.Name(), "x@example.com", r)
		if n, _ := b.drain("example.com"); n != 1 {
			t.Fatalf("%d: what was not attempted (%s) costs a token", n, r.Kind)
		}
	}
	for range 3 { // a process that is not asked rests
		b.clock.Move(leaseFor)
		b.lease()
	}
	if !b.resting() {
		t.Error("it asks for ever")
	}
}

// A domain has a pace of its own, and only its mail waits for it.
func TestTokensOfDomains(t *testing.T) {
	b := paced(t, dial(t), func(s *Settings) {
		s.PerDomain, s.Paces = Pace{PerSecond: 0.001, Size: 1}, map[string]Pace{"free.example": {}}
	})
	for _, domain := range []string{"slow.example", "other.example"} {
		if n, take := b.drain(domain); n != 0 || take.Lane != domain {
			t.Fatalf("%s: %d, %+v", domain, n, take)
		}
	}
	b.lease()
	for _, domain := range []string{"slow.example", "other.example"} {
		if n, _ := b.drain(domain); n != 1 {
			t.Fatalf("%s: %d", domain, n)
		}
	}
	b.wantTaker(t.Name(), "x@free.example")
}

// When the other side wants fewer, all processes slow down.
func TestTokensAdapt(t *testing.T) {
	redis := dial(t)
	fast := func(s *Settings) { s.Pace = Pace{PerSecond: 1000} }
	a, b := paced(t, redis, fast), paced(t, redis, fast)
	a.drain("example.com")
	a.report(t.Name(), "x@example.com", mail.Result{Kind: mail.ResultDeferred, Code: 454})
	a.lease()
	b.drain("example.com")
	b.lease()
	for _, p := range []*bed{a, b} {
		if s := p.Routes()[0]; s.Share < 0.5 || s.Share > 0.6 {
			t.Errorf("the share is %v", s.Share)
		}
	}
}

// The first days of a route have limits.
func TestWarmup(t *testing.T) {
	b := paced(t, dial(t), func(s *Settings) { s.Warmup, s.WarmupFrom = []int{3, 5}, time.Now() })
	b.clock.Move(time.Since(testNow))
	for range 20 {
		b.drain("example.com")
	}
	b.lease()
	if n, _ := b.drain("example.com"); n != 3 {
		t.Fatalf("%d on the first day", n)
	}
	b.lease()
	if n, take := b.drain("example.com"); n != 0 || take.Wait != maxWait {
		t.Fatalf("%d more, %+v", n, take)
	}
	if s := b.Routes()[0]; s.LeftToday != 0 {
		t.Errorf("%+v", s)
	}
}

// What was given of a day and not used within its time goes back to the day, while the
// process that had it tells Redis what it was given.
func TestWarmupOfWhatIsNotUsed(t *testing.T) {
	const limit = 3
	b := paced(t, dial(t), func(s *Settings) { s.Warmup, s.WarmupFrom = []int{limit}, time.Now() })
	b.clock.Move(time.Since(testNow))
	ask := func() {
		for range 2 * limit {
			b.drain("example.com")
		}
	}
	ask()
	b.lease()
	b.clock.Move(2 * leaseFor) // nobody takes them: the machine is busy
	ask()
	b.lease() // they go back
	b.clock.Move(maxWait)
	ask()
	b.lease()
	if n, _ := b.drain("example.com"); n != limit {
		t.Errorf("%d of a day that has %d", n, limit)
	}
}

// What is not attempted uses nothing up of a day, here or in another process, and each mail
// gives back what it took, and no more.
func TestWarmupOfWhatIsNotAttempted(t *testing.T) {
	const limit = 5
	redis := dial(t)
	warm := func(s *Settings) { s.Warmup, s.WarmupFrom = []int{limit}, time.Now() }
	a, b := paced(t, redis, warm), paced(t, redis, warm)
	send := mailTo("x@example.com")
	take := func(p *bed, want int) {
		t.Helper()
		for range 2 * limit { // so that as many are asked for
			p.drain("example.com")
		}
		p.clock.Move(maxWait) // what was given before is not good any more
		p.lease()
		if n, _ := p.drain("example.com"); n != want {
			t.Fatalf("%d, want %d", n, want)
		}
	}
	back := func(p *bed, mails int) {
		t.Helper()
		for !p.resting() { // contents may be long in coming
			p.clock.Move(leaseFor)
			p.lease()
		}
		p.NotAttempted(p.routes[0].transport, slices.Repeat([]*mail.Send{send}, mails), p.clock.Now())
		if p.resting() {
			t.Fatal("it rests, and keeps what is the day's")
		}
		p.clock.Move(leaseFor)
		p.lease()
	}
	for _, p := range []*bed{a, b} {
		p.clock.Move(time.Since(testNow))
	}
	take(a, limit)
	for range 3 {
		take(a, 0)
		back(a, limit)
		take(b, limit)
		take(b, 0)
		back(b, 2)
		take(a, 2)
		take(a, 0)
		back(a, 2)
		back(b, limit-2)
		take(a, limit)
		take(b, 0)
		back(a, limit)
		b.clock.Move(dayAgain) // it has seen the day used up, and has nothing to give back
		take(b, limit)
		take(a, 0)
		back(b, limit)
		a.clock.Move(dayAgain)
		take(a, limit)
	}
}

// A route that warms up and has no pace pauses as others without one do, on its first days
// and after them.
func TestWarmupThrottled(t *testing.T) {
	for _, days := range []int{1, 2} {
		b := paced(t, dial(t), func(s *Settings) {
			s.Warmup, s.WarmupFrom = []int{1000}, time.Now().AddDate(0, 0, 1-days)
		})
		b.clock.Move(time.Since(testNow))
		ready := func(want string) {
			t.Helper()
			b.drain("example.com")
			b.clock.Move(maxWait)
			b.lease()
			b.wantTaker(want, "x@example.com")
		}
		ready(t.Name())
		for _, pause := range []time.Duration{pauseFirst, 2 * pauseFirst} {
			b.report(t.Name(), "x@example.com", mail.Result{Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Code: 421})
			b.clock.Move(pause - 1)
			b.wantTaker("", "x@example.com")
			b.clock.Move(1)
			ready(t.Name())
		}
		if s := b.Routes()[0]; s.Share != 1 || s.Throttled != 2 {
			t.Errorf("%+v", s)
		}
	}
}

// brokenRedis fails until it is mended.
type brokenRedis struct {
	patientRedis
	broken bool
}

func (r *brokenRedis) Pace(ctx context.Context, route string, asks []flow.PaceAsk) ([]flow.PaceGrant, error) {
	if r.broken {
		return nil, errors.New("away")
	}
	return r.patientRedis.Pace(ctx, route, asks)
}

// While Redis is away, mail with a pace waits, and that the other side wants
// fewer is not forgotten.
func TestRedisAway(t *testing.T) {
	redis := &brokenRedis{patientRedis{dial(t)}, true}
	s := named(t.Name())
	s.Pace.PerSecond = 1000
	b := newBed(t, Options{Redis: redis, Routes: []Settings{s}})
	b.drain("example.com")
	b.report(t.Name(), "x@example.com", mail.Result{Kind: mail.ResultDeferred, Throttled: true})
	if b.Lease(t.Context()) == nil {
		t.Fatal("no error")
	}
	if n, take := b.drain("example.com"); n != 0 || take.Wait > maxWait {
		t.Fatalf("%d, %+v", n, take)
	}
	redis.broken = false
	b.lease()
	if share := b.Routes()[0].Share; share > 0.6 {
		t.Errorf("the share is %v", share)
	}
}

// Running processes: together they keep to the pace, and marketing mail stops in
// all of them.
func TestRun(t *testing.T) {
	redis := dial(t)
	const processes = 3
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	var routers []*Router
	for range processes {
		s := named(t.Name())
		s.Pace = Pace{PerSecond: 200, Size: 20}
		r, err := New(Options{Mode: On, Sink: &carrier{name: "sink"}, Routes: []Settings{s}, Redis: redis, Clock: sluice.SystemClock{}})
		if err != nil {
			t.Fatal(err)
		}
		routers = append(routers, r)
		running.Go(func() { r.Run(ctx, slog.New(slog.DiscardHandler)) })
	}
	message := mailTo("x@example.com")
	message.Class = mail.ClassMarketing
	started, taken := time.Now(), make([]int, processes)
	for total := 0; total < 200; {
		before := total
		for i, r := range routers {
			if r.Takes(r.routes[0].transport, message, nil, time.Now()).OK {
				taken[i]++
				total++
			}
		}
		if total == before {
			<-time.After(time.Millisecond)
		}
	}
	// A second's worth, less what was saved up: on a slow machine longer.
	if took := time.Since(started); took < 850*time.Millisecond {
		t.Errorf("200 mails of 200/s took %v: %v", took, taken)
	}
	for i, n := range taken {
		if n == 0 {
			t.Errorf("process %d took none: %v", i, taken)
		}
	}
	if err := redis.Stop(t.Context(), "marketing", "test", 0); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(3 * time.Minute)
	for stopped := 0; stopped < processes; {
		stopped = 0
		for _, r := range routers {
			if _, yes := r.Stopped()["marketing"]; yes {
				stopped++
			}
		}
		<-time.After(time.Millisecond)
		if time.Now().After(deadline) {
			t.Fatal("marketing mail is not stopped everywhere")
		}
	}
	if _, err := redis.Unstop(t.Context(), "marketing"); err != nil {
		t.Fatal(err)
	}
}
