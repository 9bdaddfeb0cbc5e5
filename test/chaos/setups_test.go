package chaos

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice/test/servers"
)

// What of Redis a round is made on.
const (
	onOne      = "one"
	onCluster  = "cluster"  // without replicas: what is away comes back as it was
	onReplicas = "replicas" // a cluster with a replica of each master
	onSentinel = "sentinel" // a master, two replicas, three sentinels
)

// onGalera is a Galera cluster of three.
const onGalera = "galera"

// kindsHere are the kinds of faults that take turns on the set-up that was asked for.
func kindsHere() (all []kind) {
	switch *onRedis {
	case onSentinel:
		all = promotionKinds()
	case onReplicas:
		all = append(promotionKinds(), slotKinds()...)
	}
	if *onBase == onGalera {
		all = append(all, galeraKinds()...)
	}
	if len(all) == 0 {
		all = kinds()
	}
	return all
}

// allKinds are all that may be named.
func allKinds() []kind {
	return slices.Concat(kinds(), promotionKinds(), slotKinds(), galeraKinds(), standbyKinds())
}

// clustered reports whether a round is made on a cluster.
func (p *plan) clustered() bool { return p.redis == onCluster || p.redis == onReplicas }

// startRedis has the round use what of Redis it is made on, with nothing in it.
func (r *round) startRedis() {
	r.t.Helper()
	switch r.redis {
	case onOne:
		one, err := servers.StartRedis(r.ctx, servers.RedisOptions{Dir: filepath.Join(r.dir, "redis"), Listen: "tcp", Extra: roundRedis})
		r.do(err)
		r.t.Cleanup(func() { _ = one.Kill() })
		r.nodes = []*servers.Redis{one}
	case onCluster, onReplicas:
		r.cluster = r.rig.needCluster(r.t.T, r.redis)
		r.nodes = r.cluster.Nodes
		r.revive()
		r.do(r.cluster.AwaitReplicas(r.ctx))
		r.do(r.cluster.Await(r.ctx))
	case onSentinel:
		r.sentinels = r.rig.needSentinels(r.t.T)
		r.nodes = r.sentinels.Servers
		r.redisURL = r.sentinels.URL()
		r.revive()
		r.do(r.sentinels.AwaitReplicas(r.ctx))
	default:
		r.t.Fatalf("-redis=%s: want one, cluster, replicas or sentinel", r.redis)
	}
	if r.redisURL == "" {
		r.redisURL = "redis://" + r.seeds()
	}
	if r.redis != onOne {
		r.do(emptyMasters(r.ctx, r.nodes))
	}
	r.dial()
}

// serverLogs adds the logs of the servers that promote each other, by the name under which
// they are kept.
func (r *round) serverLogs(logs map[string]string) {
	if r.redis == onSentinel || r.redis == onReplicas {
		for i, node := range r.nodes {
			logs[fmt.Sprintf("redis%d.log", i)] = node.LogPath()
		}
	}
	if r.sentinels != nil {
		for i, one := range r.sentinels.Sentinels {
			logs[fmt.Sprintf("sentinel%d.log", i)] = one.LogPath()
		}
	}
	if r.base == onGalera && r.rig.galera != nil {
		for i, node := range r.rig.galera.Nodes {
			logs[fmt.Sprintf("galera%d.log", i)] = node.LogPath()
		}
	}
}

// revive starts nodes again that a round before has left dead or stopped: it failed.
func (r *round) revive() {
	r.t.Helper()
	for _, node := range r.nodes {
		if node.Current().Gone() {
			r.do(node.Restart(r.ctx))
		}
		r.do(node.Continue())
	}
}

// seeds are the addresses by which a client finds all others.
func (r *round) seeds() string {
	var all []string
	for _, node := range r.nodes {
		all = append(all, node.Addr())
	}
	return strings.Join(all, ",")
}

// dial connects our own client.
func (r *round) dial() {
	r.t.Helper()
	var err error
	if r.sentinels == nil {
		r.client, err = dialNode(r.nodes[0], r.clustered())
	} else {
		option := rueidis.ClientOption{DisableCache: true, DisableRetry: true, Sentinel: rueidis.SentinelOption{MasterSet: servers.SentinelSet}}
		for _, one := range r.sentinels.Sentinels {
			option.InitAddress = append(option.InitAddress, one.Addr())
		}
		r.client, err = rueidis.NewClient(option)
	}
	r.do(err)
	r.t.Cleanup(r.client.Close)
}

// emptyMasters removes everything of all servers that are masters.
func emptyMasters(ctx context.Context, nodes []*servers.Redis) error {
	for _, node := range nodes {
		client, err := dialNode(node, false)
		if err != nil {
			return err
		}
		err = client.Do(ctx, client.B().Flushall().Build()).Error()
		client.Close()
		if err != nil && !strings.Contains(err.Error(), "READONLY") {
			return err
		}
	}
	return nil
}

// needCluster returns a cluster, with or without replicas. Without them a slot of its own
// node has what the processes know of each other.
func (g *rig) needCluster(t *testing.T, what string) *servers.RedisCluster {
	t.Helper()
	if g.clusters[what] != nil {
		return g.clusters[what]
	}
	options := servers.ClusterOptions{Dir: filepath.Join(g.dir, what), Masters: 3, Apart: "{members}", Extra: roundRedis}
	if what == onReplicas {
		options.Apart, options.Replicas = "", 1
	}
	c, err := servers.StartRedisCluster(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	g.clusters[what] = c
	return c
}

// needSentinels returns a master with replicas and sentinels. A master that is cut off
// from all replicas refuses writes.
func (g *rig) needSentinels(t *testing.T) *servers.Sentinels {
	t.Helper()
	if g.sentinels != nil {
		return g.sentinels
	}
	s, err := servers.StartSentinels(t.Context(), servers.SentinelOptions{
		Dir: filepath.Join(g.dir, onSentinel), Replicas: 2, Sentinels: 3,
		Extra: append([]string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "5"}, roundRedis...),
	})
	if err != nil {
		t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = s.Close() })
	g.sentinels = s
	return s
}

// connectGalera makes a database on a Galera cluster. Our own way is to the last node,
// which no fault strikes, and reads what all nodes have committed.
func (g *rig) connectGalera(t *testing.T, name string) (db *sql.DB, url string) {
	t.Helper()
	var err error
	if g.galera != nil && g.galera.Await(t.Context()) != nil { // a round before has failed
		_ = g.galera.Close()
		g.galera = nil
	}
	if g.galera == nil {
		if g.galera, err = servers.StartGalera(t.Context(), filepath.Join(g.dir, onGalera, name), 3); err != nil {
			t.Fatal(err)
		}
		started := g.galera
		g.t.Cleanup(func() { _ = started.Close() })
	}
	if err = g.galera.Await(t.Context()); err == nil {
		err = g.galera.Nodes[2].CreateDatabase(t.Context(), name)
	}
	if err == nil {
		db, err = sql.Open("mysql", g.galera.Nodes[2].DSN(name)+"?wsrep_sync_wait=1")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, g.galera.URL(name)
}

// window is a time in which a master was lost: what it accepted then, and had not yet sent
// to a replica, may be lost with it.
type window struct {
	from, to time.Time
	ended    map[string]bool // sends that had ended by the database
	accepted int             // in this time
	lost     int             // of these
	oldest   time.Duration   // how long before its end the earliest of the lost was accepted
}

// opensWindow notes that a master is lost from now on, with what it accepted since notSent
// ago. to is set when it takes nothing more.
func (r *round) opensWindow() *window {
	r.t.Helper()
	w := &window{from: time.Now().Add(-notSent), ended: map[string]bool{}}
	for _, id := range r.texts("SELECT message FROM sends WHERE state <> 'waiting'") {
		w.ended[id] = true
	}
	w.to = time.Now()
	r.windows = append(r.windows, w)
	return w
}

// notSent is how long before a master is lost an answer may be of which no replica knows.
const notSent = time.Second

// windowOf returns the window in which something was accepted that may be lost; nil: in
// none.
func (r *round) windowOf(a accepted) *window {
	if r.kind.waits {
		return nil
	}
	for _, w := range r.windows {
		if !a.to.Before(w.from) && !a.from.After(w.to) {
			return w
		}
	}
	return nil
}

// lose notes that something accepted in a window is not there.
func (w *window) lose(a accepted, n int) {
	w.lost += n
	w.oldest = max(w.oldest, w.to.Sub(a.to))
}

// countLost counts what was accepted in windows, and what of it is not there.
func (r *round) countLost(all []accepted, there func(ref string) bool, each int) {
	for _, a := range all {
		w := r.windowOf(a)
		if w == nil {
			continue
		}
		w.accepted += each
		for i := range each {
			if !there(fmt.Sprint(a.what, "-", i)) {
				w.lose(a, 1)
			}
		}
	}
}

// forgot returns how many windows may have forgotten an attempt of a mail, so that it left
// once more for each.
func (r *round) forgot(id string, a accepted) (n int) {
	for _, w := range r.windows {
		if !w.ended[id] && a.from.Before(w.to) {
			n++
		}
	}
	return n
}

// lostAmounts says what windows have cost.
func (r *round) lostAmounts() string {
	if len(r.windows) == 0 {
		return ""
	}
	accepted, lost, oldest := 0, 0, time.Duration(0)
	for _, w := range r.windows {
		accepted, lost, oldest = accepted+w.accepted, lost+w.lost, max(oldest, w.oldest)
	}
	return fmt.Sprintf(" windows=%d within=%d lost=%d oldest_ms=%d doubled=%d", len(r.windows), accepted, lost, oldest.Milliseconds(), r.doubled)
}
