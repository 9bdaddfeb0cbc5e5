package chaos

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"sluice/flow"
	"sluice/lib/faults"
	"sluice/test/proxy"
	"sluice/test/servers"
	"sluice/test/sink"
)

const (
	// roundWithin bounds a round that strikes once.
	roundWithin = 12 * time.Minute

	// roundSettles bounds every wait of a round: other rounds may run beside it, on a
	// machine that others use as well.
	roundSettles = 2 * settleWithin

	roundPartitions = 8

	// keptOfRound bounds the mails of which the receiver knows when it took them.
	keptOfRound = 500_000
)

// round is servers, processes, a load and a fault.
type round struct {
	plan
	t      *recorder
	ctx    context.Context
	rig    *rig
	random *rand.Rand // of the test's own goroutine
	dir    string

	nodes     []*servers.Redis // one, those of a cluster, or a master and its replicas
	cluster   *servers.RedisCluster
	sentinels *servers.Sentinels
	redisURL  string         // by which commands reach it
	client    rueidis.Client // ours
	name      string         // of the database
	promote   func()         // has the replica of the database take its place
	db        *sql.DB        // past the proxies
	relay     *sink.Sink
	peers     []*peer
	load      *load

	// What may be lost: what was accepted between the two. They are set by faults
	// that put Redis back.
	lossFrom, lossTo time.Time

	windows []*window // in which masters were lost that replicas had not caught up with
	doubled int       // mails that left twice because their attempts were in such a window

	strikes, faults int // that are over

	// Large contents may be lost of what was accepted between these two: they are in
	// the database alone, which was put back.
	bodiesFrom, bodiesTo time.Time

	// ended has the sends that had ended by the database when Redis was put back; nil:
	// it was not. Others that were accepted before may leave twice: their
	// attempts are forgotten.
	ended map[string]bool

	environ []string // of processes that are started from now on

	checks []func() // after the load, at the far end

	journeys *journeyLoad // nil: there are none

	states map[string]int // of the sends in the ledger, at the end

	latest  atomic.Int64 // the longest delay of this process, in ns
	settled int64        // r.leaseNumbers() when all began
}

// peer is one of the processes, with ways to its servers of its own.
type peer struct {
	*program
	config    string
	redis     *proxy.Proxy // nil but with one Redis
	base      *proxy.Proxy // nil but with one server
	at        string       // its URL, guarded by load.mu
	redisUser string       // on a cluster, where it is cut off by it
}

func newRound(t *recorder, g *rig, p plan, random *rand.Rand) *round {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), p.within())
	t.Cleanup(cancel)
	r := &round{plan: p, t: t, ctx: ctx, rig: g, random: random, dir: t.TempDir(), name: fmt.Sprintf("r%d", p.seed)}
	r.startRedis()
	var address, url string
	if p.kind.standby {
		r.db, url = r.startPair()
	} else {
		r.db, address, url = g.connect(t.T, p.base, r.name)
	}
	if p.kind.table {
		_, err := r.db.ExecContext(ctx, "CREATE TABLE target (ref VARCHAR(32) NOT NULL)") // no key: what is doubled is seen
		r.do(err)
	}
	t.Cleanup(r.dropDatabase)
	t.Cleanup(r.keepLogs)
	var err error
	if r.relay, err = sink.Start(sink.Options{Keep: keptOfRound, Hashed: true, Fault: r.receiver(random.Uint64())}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.relay.Close() })
	for i := range p.processes {
		r.addPeer(i, address, url)
	}
	return r
}

// receiver is how the relay takes mail: slowly, or at once.
func (r *round) receiver(seed uint64) func(sink.At) sink.Act {
	if !r.slow {
		return nil
	}
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 4))
	return func(at sink.At) sink.Act {
		if at.Step != sink.OnEnd {
			return sink.Act{}
		}
		mu.Lock()
		defer mu.Unlock()
		return sink.Act{Delay: time.Duration(random.IntN(80)) * time.Millisecond}
	}
}

// addPeer makes a process's configuration and the ways to its servers.
func (r *round) addPeer(i int, address, url string) {
	r.t.Helper()
	p := &peer{config: filepath.Join(r.dir, fmt.Sprintf("sluice%d.yaml", i))}
	redis := r.redisURL
	switch {
	case r.clustered():
		p.redisUser = fmt.Sprintf("process%d", i)
		r.allow(p, true, r.nodes...)
		redis = fmt.Sprintf("redis://%s:secret@%s", p.redisUser, r.seeds())
	case r.redis == onOne:
		p.redis = r.proxy(r.nodes[0].Addr())
		redis = "redis://" + p.redis.Addr()
	}
	if address != "" {
		p.base = r.proxy(address)
		url = fmt.Sprintf(url, p.base.Addr())
	}
	table := ""
	if r.kind.table {
		table = "  q_table: {table: target, columns: {ref: ref}}\n"
	}
	text := fmt.Sprintf(`
listen: 127.0.0.1:0
redis: %s
database: %s
data: %s
partitions: %d
store_writers: %d
event_time: {past_days: 0}
root_key: %s
sending: "on"
in_doubt_seconds: 5
start_seconds: 30
domains: {check: false}
routes:
  relay: {smtp: {url: 'smtp://%s', plain: true, connections: 2, window: 8}}
lists:
  q_events: {}
%s%s`, redis, url, filepath.Join(r.dir, fmt.Sprint("data", i)), roundPartitions, r.writers, httpRoot, r.relay.Addr(), table, r.kind.config)
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.peers = append(r.peers, p)
}

func (r *round) proxy(address string) *proxy.Proxy {
	r.t.Helper()
	p, err := proxy.New("tcp", address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = p.Close() })
	return p
}

// allow lets a process use nodes of the cluster, or cuts it off: its connections end, and
// it gets no other.
func (r *round) allow(p *peer, yes bool, nodes ...*servers.Redis) {
	r.t.Helper()
	for _, node := range nodes {
		client, err := dialNode(node, false)
		if err != nil {
			r.t.Fatal(err)
		}
		command := client.B().Arbitrary("ACL", "SETUSER", p.redisUser, "reset", "on", ">secret", "~*", "&*", "+@all").Build()
		if !yes {
			command = client.B().Arbitrary("ACL", "DELUSER", p.redisUser).Build()
		}
		err = client.Do(r.ctx, command).Error()
		client.Close()
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// start starts a process and waits until it listens.
func (r *round) start(p *peer, failpoints string) {
	r.t.Helper()
	environ := append(os.Environ(), r.environ...)
	if failpoints != "" {
		environ = append(environ, faults.EnvFailpoint+"="+failpoints)
	}
	p.program = startBinary(r.t.T, binary, r.dir, p.config, environ, filepath.Base(p.config)+" "+failpoints)
	r.listens(p)
}

// listens waits until a process listens that has been started.
func (r *round) listens(p *peer) {
	r.t.Helper()
	started := p.program
	r.t.Cleanup(func() {
		started.signal(continued)
		started.kill()
	})
	r.await("the program listens", func() bool {
		parts := httpListening.FindSubmatch(p.logged(r.t.T))
		if parts == nil {
			return false
		}
		if r.load != nil {
			r.load.mu.Lock()
			defer r.load.mu.Unlock()
		}
		p.at = "http://" + string(parts[1])
		return true
	})
}

// make is the round.
func (r *round) make() {
	for i, p := range r.peers {
		failpoints := ""
		if i == 0 && r.kind.failpoints != nil {
			failpoints = r.kind.failpoints(r)
		}
		r.start(p, failpoints)
	}
	r.allReady()
	r.settled = r.settledLeases()
	r.watchClock()
	r.prepareJourneys()
	r.load = startLoad(r)
	if r.kind.failpoints == nil { // else it strikes by itself, and soon
		r.load.progress()
	}
	r.strikeAll()
	r.load.progress()
	r.load.finish()
	r.allReady()
	r.checkAll()
	if after := r.leaseNumbers(); r.kind.strict && after != r.settled && !r.starved() {
		r.t.Errorf("leases have moved %d times between processes that live", after-r.settled)
	}
}

// restsLong is how late this process comes to its turn when those beside it on the machine
// may have rested for as long as a lease lasts.
const restsLong = time.Second

// watchClock notes how late this process came to its turn at most.
func (r *round) watchClock() {
	const every = 100 * time.Millisecond
	go func() { // ends with ctx
		for last := time.Now(); r.ctx.Err() == nil; {
			pause(r.ctx, every)
			now := time.Now()
			if late := int64(now.Sub(last) - every); late > r.latest.Load() {
				r.latest.Store(late)
			}
			last = now
		}
	}()
}

// starved reports whether a process may rightly have lost its leases, and mail be in doubt
// by that. The machine was so busy that a process did not reach the database for seconds,
// or did not even compute.
func (r *round) starved() bool {
	r.t.Helper()
	if late := time.Duration(r.latest.Load()); late > restsLong && r.leaseNumbers() != r.settled {
		r.t.Logf("the machine was too busy: this process rested for %s", late)
		return true
	}
	for _, p := range r.peers {
		if bytes.Contains(p.logged(r.t.T), []byte("this process cannot reach the database, and another process can")) {
			r.t.Log("the machine was too busy: a process did not reach the database, and gave up its leases")
			return true
		}
	}
	return false
}

// amounts says how much was handed in, and what has become of it.
func (r *round) amounts() string {
	if r.load == nil {
		return ""
	}
	c := r.load.counts()
	text := fmt.Sprintf("events=%d users=%d mails=%d pushes=%d tabled=%d refused=%d taken=%d", c[0]*loadEvents, c[1], c[2], c[3]*loadList, r.load.tabledRows(), r.load.refused(), r.relay.Received())
	for _, state := range slices.Sorted(maps.Keys(r.states)) {
		text += fmt.Sprintf(" %s=%d", state, r.states[state])
	}
	return text + r.struck() + r.lostAmounts()
}

// keepLogs keeps the logs of the processes of a round that has failed, and of the servers
// that promote each other.
func (r *round) keepLogs() {
	dir := failedDir(&r.plan)
	if dir == "" || !r.t.Failed() {
		return
	}
	names, err := filepath.Glob(filepath.Join(r.dir, "log*"))
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	logs := map[string]string{}
	for _, name := range names {
		logs[filepath.Base(name)] = name
	}
	r.serverLogs(logs)
	for as, name := range logs {
		var text []byte
		if text, err = os.ReadFile(name); err == nil {
			err = os.WriteFile(filepath.Join(dir, as), text, 0o644)
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		r.t.Error(err)
	}
}

// allReady waits until every process says that it is.
func (r *round) allReady() {
	r.t.Helper()
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for i, p := range r.peers {
		said := ""
		r.awaitOr(fmt.Sprintf("process %d is ready", i), func() bool {
			res, err := client.Get(p.at + "/readyz")
			if err != nil {
				said = err.Error()
				return false
			}
			defer res.Body.Close()
			text, _ := io.ReadAll(res.Body)
			said = string(text)
			return res.StatusCode == http.StatusOK
		}, func() string { return said })
	}
	r.await("all leases are shared out", func() bool { return r.leasesHeld() })
}

// leasesHeld reports whether each partition has a process that stores it.
func (r *round) leasesHeld() bool {
	return r.number("SELECT COUNT(*) FROM leases WHERE role = 'store'") == roundPartitions
}

// leaseNumbers is how often leases were taken in all.
func (r *round) leaseNumbers() int64 {
	r.t.Helper()
	n := int64(-1)
	r.await("the database says how often leases were taken", func() bool {
		n = r.number("SELECT COALESCE(SUM(number), 0) FROM leases WHERE role IN ('store', 'send')")
		return n >= 0
	})
	return n
}

// settledLeases is leaseNumbers when the processes have shared the leases out evenly
// and none has been taken for two beats. Only strict kinds need to know.
func (r *round) settledLeases() int64 {
	r.t.Helper()
	n, since := r.leaseNumbers(), time.Now()
	r.await("the leases are shared out evenly, and none is taken any more", func() bool {
		even := r.even() // first: a lease that is taken while it is asked for counts in the numbers
		if now := r.leaseNumbers(); now != n || !even {
			n, since = now, time.Now()
		}
		return !r.kind.strict || time.Since(since) > time.Second
	})
	return n
}

// even reports whether each process holds as many leases as the others, but for one.
func (r *round) even() bool {
	for _, role := range []string{"store", "send"} {
		least, most := roundPartitions, 0
		for _, p := range r.peers {
			n, err := strconv.Atoi(r.metric(p, `sluice_leases{role="`+role+`"}`))
			if err != nil {
				return false
			}
			least, most = min(least, n), max(most, n)
		}
		if most-least > 1 || most == 0 {
			return false
		}
	}
	return true
}

// number returns what a query finds, -1 if the database does not answer.
func (r *round) number(query string, args ...any) int64 {
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	var n int64
	if err := r.db.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return -1
	}
	return n
}

// await waits for a condition.
func (r *round) await(what string, ok func() bool) {
	r.t.Helper()
	r.awaitOr(what, ok, func() string { return "" })
}

// awaitOr is await that says more when it was in vain.
func (r *round) awaitOr(what string, ok func() bool, said func() string) {
	r.t.Helper()
	limit := time.Now().Add(roundSettles)
	for !ok() {
		if time.Now().After(limit) || r.ctx.Err() != nil {
			r.t.Fatalf("waited %s in vain until %s. %s", roundSettles, what, said())
		}
		pause(r.ctx, 20*time.Millisecond)
	}
}

// applied reports whether the store's cursors are at the ends of all logs.
func (r *round) applied(redis *flow.Redis) bool {
	for _, p := range flow.Partitions(roundPartitions) {
		last, err := flow.NewLog(redis, p).Last(r.ctx)
		if err != nil {
			return false
		}
		if r.cursor("cursors", p.Number) != last {
			return false
		}
	}
	return true
}

// dropDatabase removes what the round has stored.
func (r *round) dropDatabase() {
	if r.base != onMariaDB && r.base != onGalera || r.t.Failed() || r.kind.standby {
		return // PostgreSQL does it only without sessions; its files are small
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, name := range []string{r.name, r.name + "_snapshot"} {
		if _, err := r.db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name); err != nil && !errors.Is(err, sql.ErrConnDone) {
			r.t.Log(err)
		}
	}
}
