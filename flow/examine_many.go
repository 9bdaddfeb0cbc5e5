package flow

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"sluice/lib/doctor"
)

// cluster looks at a cluster as a whole, then at each of its masters. asked is the
// node that was asked first.
func (x *Examiner) cluster(ctx context.Context, e *doctor.Examination, option rueidis.ClientOption, asked masterInfo) {
	client, err := rueidis.NewClient(option)
	var nodes []clusterNode
	r := &Redis{client: client, name: e.Where}
	if err == nil {
		defer r.Close()
		nodes, err = r.clusterNodes(ctx)
	}
	if err != nil {
		e.Unknown(fmt.Errorf("the cluster could not be asked: %w", err), redisChecks...)
		return
	}
	masters := r.masters(ctx)
	if len(masters) == 0 { // nobody has a slot yet
		masters = []masterInfo{asked}
	}
	x.slots(ctx, e, nodes, masters)
	found := make([]doctor.Examination, len(masters))
	var group errgroup.Group
	group.SetLimit(parallelCalls)
	for i, m := range masters {
		group.Go(func() error {
			found[i] = x.master(ctx, m)
			return nil
		})
	}
	_ = group.Wait() // what is wrong is in found
	for _, one := range found {
		e.Findings = append(e.Findings, one.Findings...)
	}
	versions(e, masters)
}

// versions looks whether the masters of a cluster, as far as they answer, have one version.
func versions(e *doctor.Examination, masters []masterInfo) {
	all := make(map[string]bool)
	for _, m := range masters {
		if m.err == nil {
			all[cmpVersion(m.info)] = true
		}
	}
	if len(all) > 1 {
		e.Warn(doctor.CheckRedisVersion, "bring all nodes to one version; while they are upgraded one by one it is as it should be",
			"its masters have different versions: %s", strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
}

func cmpVersion(info map[string]string) string {
	if v := info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + info["redis_version"]
}

// master looks at one master of a cluster.
func (x *Examiner) master(ctx context.Context, m masterInfo) doctor.Examination {
	e := doctor.Examination{Where: m.address}
	if m.err != nil {
		e.Fail(doctor.CheckRedisReachable, "start it; if another has taken its place and it is gone for good: CLUSTER FORGET on the others, and name living nodes in the URL",
			"this node of the cluster does not answer: %s", doctor.OneLine(m.err))
		return e
	}
	r := &Redis{client: m.client, name: m.address}
	x.server(ctx, &e, r, m.info)
	replicas(ctx, &e, r, m.info)
	return e
}

// slots looks at what a cluster as a whole needs.
func (x *Examiner) slots(ctx context.Context, e *doctor.Examination, nodes []clusterNode, masters []masterInfo) {
	var failed []string
	have := 0
	for _, n := range nodes {
		if n.master && len(n.slots) > 0 {
			have++
			if n.failed {
				failed = append(failed, n.address)
			}
		}
	}
	full, moving := false, make(map[string]bool)
	for _, m := range masters {
		if m.err != nil {
			continue
		}
		r := &Redis{client: m.client, name: m.address}
		value, err := r.configured(ctx, "cluster-require-full-coverage")
		full = full || err == nil && value == "yes"
		// Each is asked: a third node knows nothing of a slot between two others.
		for _, slot := range movingOf(ctx, r) {
			moving[slot] = true
		}
	}
	wrong := uncovered(nodes)
	switch {
	case wrong != nil:
		e.Fail(doctor.CheckRedisCluster, remedyOf(wrong), "%s", wrong.(*wrongServer).found)
	case len(failed) > 0:
		e.Fail(doctor.CheckRedisCluster, "start them, or promote a replica of each: CLUSTER FAILOVER TAKEOVER on it", "masters with slots are down, and what is in those slots with them: %s", strings.Join(failed, ", "))
	case len(moving) > 0:
		e.Warn(doctor.CheckRedisCluster, "let the migration end; if none runs, one was broken off: `redis-cli --cluster fix HOST:PORT`",
			"slots are on their way between nodes: %d; while a slot is, what needs several of its keys waits", len(moving))
	case full:
		e.Warn(doctor.CheckRedisCluster, "CONFIG SET cluster-require-full-coverage no on each node, and the same in redis.conf",
			"cluster-require-full-coverage is yes: if one master and its replicas are down, the partitions of all others stop too")
	default:
		e.Fine(doctor.CheckRedisCluster, "it is a cluster of %d masters, which have all slots", have)
	}
}

// movingOf returns the slots that come to a node or go from it just now.
func movingOf(ctx context.Context, r *Redis) (slots []string) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	text, err := r.client.Do(ctx, r.client.B().ClusterNodes().Build()).ToString()
	if err != nil {
		return nil // the node is asked for more, whose failure is a finding
	}
	for _, n := range parseNodes(text) {
		slots = append(slots, n.moving...)
	}
	return slots
}

// replicas looks at what would take a master's place.
func replicas(ctx context.Context, e *doctor.Examination, r *Redis, info map[string]string) {
	have := number(info["connected_slaves"])
	text, err := r.configured(ctx, "min-replicas-to-write")
	least := number(text)
	syncing := unsynced(info)
	switch {
	case err != nil:
		e.Unknown(err, doctor.CheckRedisFailover)
	case len(syncing) > 0:
		e.Warn(doctor.CheckRedisFailover, "wait until they have it; if it stays, see their logs",
			"%s cannot take its place: they have not received yet what it has", strings.Join(syncing, ", "))
	case least > 0 && have <= least:
		e.Warn(doctor.CheckRedisFailover, fmt.Sprintf("give it %d replicas, or set min-replicas-to-write lower", least+1),
			"min-replicas-to-write is %d, and it has %d replicas: after a failover the new master has one less, and refuses all writes", least, have)
	case least == 0 && have >= 2:
		e.Warn(doctor.CheckRedisFailover, "CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 5, and the same in redis.conf of all",
			"min-replicas-to-write is 0: a master that is cut off goes on taking writes, which are lost when its replica is promoted")
	case have == 0 && info["cluster_enabled"] == "1":
		e.Warn(doctor.CheckRedisFailover, "give it a replica: redis-cli --cluster add-node NEW:PORT HOST:PORT --cluster-slave", "it has no replica: while it is down its partitions stop")
	case have == 0:
		e.Fine(doctor.CheckRedisFailover, "it has no replica, and nothing takes its place (docs/scale.md)")
	default:
		e.Fine(doctor.CheckRedisFailover, "replicas: %d, min-replicas-to-write: %d", have, least)
	}
}

// unsynced are the replicas that have not received what their master has. A master counts
// them among its replicas as soon as they have asked for it, which may be seconds before
// (repl-diskless-sync-delay), and meanwhile nothing takes its place.
func unsynced(info map[string]string) (addresses []string) {
	for name, line := range info {
		if fields := pairsOf(line); strings.HasPrefix(name, "slave") && fields["state"] != "" && fields["state"] != "online" {
			addresses = append(addresses, net.JoinHostPort(fields["ip"], fields["port"]))
		}
	}
	slices.Sort(addresses)
	return addresses
}

// failover looks at what would take a server's place: its replicas, and the
// sentinels that promote one.
func (x *Examiner) failover(ctx context.Context, e *doctor.Examination, option rueidis.ClientOption, r *Redis, info map[string]string) {
	replicas(ctx, e, r, info)
	if option.Sentinel.MasterSet == "" {
		return
	}
	var group errgroup.Group
	group.SetLimit(parallelCalls)
	var mu sync.Mutex
	var silent []string
	most, masters := int64(0), make(map[string]bool)
	for _, address := range option.InitAddress {
		group.Go(func() error {
			info, err := probeOne(ctx, option, address)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = judgeServer(option, address, info)
			}
			if err != nil {
				silent = append(silent, fmt.Sprintf("%s (%s)", address, doctor.OneLine(err)))
				return nil
			}
			s := watchedMaster(info, option.Sentinel.MasterSet)
			masters[s["address"]] = true
			most = max(most, number(s["sentinels"]))
			return nil
		})
	}
	_ = group.Wait() // what is wrong is in silent
	slices.Sort(silent)
	switch {
	case len(masters) > 1:
		e.Fail(doctor.CheckRedisFailover, "wait a moment; if it stays, SENTINEL RESET on those that are wrong", "the sentinels name different masters: %s", strings.Join(slices.Sorted(maps.Keys(masters)), ", "))
	case len(silent) > 0:
		e.Warn(doctor.CheckRedisFailover, "start them, or take them out of the URL", "sentinels of the URL cannot be used: %s", strings.Join(silent, "; "))
	case most < 3:
		e.Warn(doctor.CheckRedisFailover, "run three, on three machines", "the sentinels are %d: when one is down, there is no majority that promotes a replica", most)
	case len(option.InitAddress) < 2:
		e.Warn(doctor.CheckRedisFailover, "name all of them: redis-sentinel://HOST:PORT,HOST:PORT,HOST:PORT/"+option.Sentinel.MasterSet, "the URL names one sentinel of %d: while that one is down, no process can start", most)
	default:
		e.Fine(doctor.CheckRedisFailover, "sentinels: %d, all of those in the URL answer and agree", most)
	}
}

// watchedMaster is what a sentinel's INFO says of a master set.
func watchedMaster(info map[string]string, set string) map[string]string {
	fields := make(map[string]string)
	for name, line := range info {
		if strings.HasPrefix(name, "master") && strings.HasPrefix(line, "name="+set+",") {
			maps.Copy(fields, pairsOf(line))
		}
	}
	return fields
}

// pairsOf reads a value of INFO that has several: "ip=10.0.0.1,port=6379".
func pairsOf(line string) map[string]string {
	fields := make(map[string]string)
	for word := range strings.SplitSeq(line, ",") {
		k, v, _ := strings.Cut(word, "=")
		fields[k] = v
	}
	return fields
}
