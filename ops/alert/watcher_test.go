package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ops/alertstate"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/servers"
	"sluice/test/tables"
)

// receiver is a webhook's other end.
type receiver struct {
	mu     sync.Mutex
	told   []string // "status subject"
	refuse bool
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var m Message
	if err := json.NewDecoder(request.Body).Decode(&m); err != nil || r.refuse {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	for _, n := range m.Alerts {
		r.told = append(r.told, n.Status+" "+n.Subject)
	}
}

func (r *receiver) setRefuse(refuse bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = refuse
}

// take returns what was told since the last call.
func (r *receiver) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.told
	r.told = nil
	return strings.Join(told, ", ")
}

// process is a watcher and its leases.
type process struct {
	watcher  *Watcher
	problems []Problem
	stop     context.CancelFunc
	ended    chan struct{}
}

func (p *process) tells() bool {
	held, _ := p.watcher.Leases.Held(Role)
	return len(held) == 1
}

// office is what several processes share.
type office struct {
	t        *testing.T
	redis    *flow.Redis
	child    *servers.Redis
	store    *sqlstore.Store
	clock    *clocktest.Clock
	receiver *receiver
	url      string
}

func openOffice(t *testing.T) *office {
	t.Helper()
	child, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Stop(context.Background()) })
	o := &office{t: t, child: child, clock: clocktest.At(begin), receiver: &receiver{}}
	if o.redis, err = flow.Dial(t.Context(), child.URL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.redis.Close)
	o.store = tables.Open(t, sqlstore.Options{})
	server := httptest.NewServer(o.receiver)
	t.Cleanup(server.Close)
	o.url = server.URL
	return o
}

func (o *office) start() *process {
	partitions := flow.Partitions(1)
	leases := flow.NewLeases(o.redis, o.store, slog.New(slog.DiscardHandler))
	leases.AddPartitions(Role, o.redis, partitions)
	p := &process{ended: make(chan struct{})}
	p.watcher = &Watcher{
		State: &alertstate.State{Redis: o.redis, Key: partitions[0].AlertsKey(), Leases: leases}, Leases: leases, Clock: o.clock, Log: slog.New(slog.DiscardHandler), Host: "h",
		Rules: rules, Channels: []Channel{NewWebhook(o.url, "")},
		Look: func(context.Context, bool) ([]Problem, bool) { return p.problems, true }, LookTimeout: time.Minute,
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() { // ends with ctx
		defer close(p.ended)
		_ = leases.Run(ctx)
	}()
	o.t.Cleanup(func() { stop(); <-p.ended })
	return p
}

func (o *office) await(what string, done func() bool) {
	o.t.Helper()
	deadline := time.After(3 * time.Minute)
	for !done() {
		select {
		case <-deadline:
			o.t.Fatalf("waited in vain until %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// pass moves the clock and has every process look; those that tell last.
func (o *office) pass(after time.Duration, want string, all ...*process) {
	o.t.Helper()
	o.clock.Move(after)
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *process) int { return strings.Compare(fmt.Sprint(a.tells()), fmt.Sprint(b.tells())) })
	for _, p := range all {
		if err := p.watcher.Pass(o.t.Context()); err != nil {
			o.t.Fatal(err)
		}
	}
	if got := o.receiver.take(); got != want {
		o.t.Errorf("told %q, want %q", got, want)
	}
}

// Several processes: each one's problem is told, once; so it stays when the one
// that tells goes, and who has lost the lease writes and sends nothing.
func TestSeveralProcessesTellOnce(t *testing.T) {
	o := openOffice(t)
	a := o.start()
	o.await("the first tells", a.tells)
	b := o.start()
	lag := func(subject string) []Problem { return []Problem{{Kind: Lag, Subject: subject, Summary: "behind"}} }
	a.problems, b.problems = lag("of both"), append(lag("of both"), lag("of b")...)
	o.pass(0, "", a, b)
	o.pass(time.Minute, "firing of b, firing of both", a, b)
	o.pass(time.Minute, "", a, b)

	held, _ := a.watcher.Leases.Held(Role)
	a.stop()
	<-a.ended
	o.await("the second tells, and the first is forgotten", func() bool {
		posts, err := b.watcher.State.Posts(t.Context())
		return err == nil && len(posts) == 1 && b.tells()
	})
	o.pass(time.Minute, "", b)
	o.pass(time.Minute, "", b) // it knows what the first has told
	o.pass(24*time.Hour, "firing of b, firing of both", b)
	if err := a.watcher.State.Keep(t.Context(), held[0], "x"); !errors.Is(err, sluice.ErrLeaseLost) {
		t.Errorf("who has lost the lease keeps: %v", err)
	}
	o.pass(time.Minute, "", b)

	o.receiver.setRefuse(true)
	b.problems = nil
	o.pass(time.Minute, "", b)
	o.receiver.setRefuse(false)
	o.pass(0, "", b) // not at once
	o.pass(retrySoonest, "resolved of b, resolved of both", b)
	o.pass(24*time.Hour, "", b)
}

// In a full Redis a process tells what is wrong with it: that Redis is full, for one.
func TestRedisIsFull(t *testing.T) {
	o := openOffice(t)
	a := o.start()
	o.await("it tells", a.tells)
	if err := o.redis.Do(t.Context(), "fill redis", o.redis.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()); err != nil {
		t.Fatal(err)
	}
	a.problems = []Problem{{Kind: Follower, Subject: "store", Summary: "redis is full"}}
	o.pass(0, "", a)
	o.pass(time.Minute, "firing store", a)
	if posts, err := a.watcher.State.Posts(t.Context()); err != nil || len(posts) != 1 {
		t.Errorf("posted are %v, %v", posts, err)
	}
}

// While Redis is away, who tells goes on telling.
func TestRedisIsAway(t *testing.T) {
	o := openOffice(t)
	a := o.start()
	o.await("it tells", a.tells)
	if err := o.child.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.problems = []Problem{{Kind: Follower, Subject: "store", Summary: "redis is away"}}
	for _, want := range []string{"", "firing store", ""} {
		if err := a.watcher.Pass(t.Context()); err == nil {
			t.Error("no word on redis being away")
		}
		if got := o.receiver.take(); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		o.clock.Move(time.Minute)
	}
}

// Redis is away when a process begins to tell. What was told before is neither written over
// nor forgotten: it is not told again, its end is, and what was not delivered is.
func TestRedisIsAwayAtTheFirstPass(t *testing.T) {
	o := openOffice(t)
	a := o.start()
	o.await("it tells", a.tells)
	store := Problem{Kind: Follower, Subject: "store", Summary: "behind"}
	list := Problem{Kind: Follower, Subject: "list:q", Summary: "behind"}
	a.problems = []Problem{store}
	o.pass(0, "", a)
	o.pass(time.Minute, "firing store", a)
	o.receiver.setRefuse(true)
	a.problems = []Problem{store, list}
	o.pass(0, "", a)
	o.pass(time.Minute, "", a)
	o.receiver.setRefuse(false)

	a.watcher.state, a.watcher.read = nil, false // another process tells from now on
	if err := o.child.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.watcher.Pass(t.Context()); err == nil {
		t.Error("no word on redis being away")
	}
	if err := o.child.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.await("redis answers", func() bool { return a.tells() && a.watcher.Pass(t.Context()) == nil })
	o.pass(time.Minute, "firing list:q", a)
	a.problems = nil
	o.pass(time.Minute, "resolved list:q, resolved store", a)
}

// A look that hangs, as on a database that does not answer, takes no time from telling:
// what was found is told.
func TestALookThatHangs(t *testing.T) {
	o := openOffice(t)
	a := o.start()
	o.await("it tells", a.tells)
	a.watcher.LookTimeout = time.Millisecond
	a.watcher.Look = func(ctx context.Context, _ bool) ([]Problem, bool) {
		<-ctx.Done()
		return []Problem{{Kind: Lag, Subject: "store", Summary: "behind"}}, false
	}
	o.pass(0, "", a)
	o.pass(time.Minute, "firing store", a)
}
