package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// clusterReadyWithin bounds the time until all nodes know each other.
	clusterReadyWithin = busyWithin

	// clusterLook is how often the nodes are asked whether they do.
	clusterLook = 20 * time.Millisecond

	// clusterNodeTimeout is after how long a silent node is taken for failed, and its
	// replica, if it has one, asks to be promoted. On a busy machine one that lives may be
	// silent for some seconds.
	clusterNodeTimeout = 5 * time.Second

	// redisDialWithin bounds one question to a node.
	redisDialWithin = 2 * time.Second

	// moveWithin bounds each step of the move of a slot, as redis-cli does, and each step
	// of the start: they are not repeated. A replica of the target answers when it has the
	// keys as well.
	moveWithin = 60 * time.Second

	// ClusterSlots is the number of hash slots of a Redis Cluster.
	ClusterSlots = 16384
)

// ClusterOptions are what a private Redis Cluster is started with.
type ClusterOptions struct {
	// Dir holds a directory for each node. Required.
	Dir string

	// Masters is the number of nodes that share the slots evenly.
	Masters int

	// Replicas is the number of replicas of each master.
	Replicas int

	// Apart is a key whose slot has a node of its own, beside the Masters; empty:
	// there is none.
	Apart string

	// Extra are further arguments of each node.
	Extra []string
}

// RedisCluster is a private Redis Cluster on 127.0.0.1.
type RedisCluster struct {
	// Nodes are the servers: the masters, the one with the slot apart, and the
	// replicas of each in that order.
	Nodes []*Redis

	replicas int // of all masters
}

// StartRedisCluster starts a cluster and returns when every node serves.
// Close kills all nodes.
func StartRedisCluster(ctx context.Context, opt ClusterOptions) (*RedisCluster, error) {
	c := &RedisCluster{}
	count := opt.Masters
	if opt.Apart != "" {
		count++
	}
	for i := range count * (1 + opt.Replicas) {
		r, err := startNode(ctx, filepath.Join(opt.Dir, "node"+strconv.Itoa(i)), opt.Extra)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start redis cluster: %w", err), c.Close())
		}
		c.Nodes = append(c.Nodes, r)
	}
	if err := c.join(ctx, opt); err != nil {
		return nil, errors.Join(fmt.Errorf("start redis cluster in %s: %w", opt.Dir, err), c.Close())
	}
	return c, nil
}

// startNode starts a node of no cluster yet. Its bus port is free when it is
// chosen; if another program takes it before the node does, a second is tried.
func startNode(ctx context.Context, dir string, extra []string) (r *Redis, err error) {
	for range portAttempts {
		var bus int
		if bus, err = freePort(); err != nil {
			return nil, err
		}
		args := append([]string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-require-full-coverage", "no",
			"--cluster-node-timeout", strconv.FormatInt(clusterNodeTimeout.Milliseconds(), 10),
		}, extra...)
		if r, err = StartRedis(ctx, RedisOptions{Dir: dir, Listen: "tcp", Extra: args}); err == nil || !portTaken(err) {
			return r, err
		}
	}
	return nil, err
}

// join gives the nodes their slots and makes them known to each other.
func (c *RedisCluster) join(ctx context.Context, opt ClusterOptions) error {
	apart := -1
	if opt.Apart != "" {
		slot, err := order(c.Nodes[0], "CLUSTER KEYSLOT "+opt.Apart)
		if err != nil {
			return err
		}
		if apart, err = strconv.Atoi(strings.TrimPrefix(slot[0], ":")); err != nil {
			return fmt.Errorf("read the slot of %s: %w", opt.Apart, err)
		}
	}
	count := len(c.Nodes) / (1 + opt.Replicas)
	for i, node := range c.Nodes {
		if _, err := order(node, "CLUSTER SET-CONFIG-EPOCH "+strconv.Itoa(i+1)); err != nil {
			return err
		}
		for _, span := range slots(opt.Masters, i, apart) {
			if i >= count {
				break // a replica
			}
			if _, err := order(node, fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", span[0], span[1])); err != nil {
				return err
			}
		}
		for _, other := range c.Nodes[:i] { // all pairs: gossip alone takes seconds
			bus, err := order(other, "CONFIG GET cluster-port")
			if err != nil {
				return err
			}
			if _, err := order(node, fmt.Sprintf("CLUSTER MEET 127.0.0.1 %d %s", other.port, bus[len(bus)-1])); err != nil {
				return err
			}
		}
	}
	if err := c.Await(ctx); err != nil {
		return err
	}
	c.replicas = len(c.Nodes) - count
	return c.replicate(ctx, count)
}

// replicate makes the nodes behind the masters their replicas, and returns when they
// have all of their data.
func (c *RedisCluster) replicate(ctx context.Context, masters int) error {
	for i, node := range c.Nodes[masters:] {
		id, err := order(c.Nodes[i/((len(c.Nodes)-masters)/masters)], "CLUSTER MYID")
		if err != nil {
			return err
		}
		if _, err := order(node, "CLUSTER REPLICATE "+id[0]); err != nil {
			return err
		}
	}
	return c.AwaitReplicas(ctx)
}

// AwaitReplicas returns when every node that is a replica follows its master, and its master
// knows that it does: that is a moment later. A master that was killed and started again does
// not know at once that it is a replica now, so they are counted.
func (c *RedisCluster) AwaitReplicas(ctx context.Context) error {
	return awaitEach(ctx, c.Nodes[:1], func(*Redis) bool {
		following := 0
		for _, node := range c.Nodes {
			info, err := say(node, "INFO replication")
			text := strings.Join(info, "\n")
			known := strings.Count(text, ",state=") == strings.Count(text, ",state=online")
			switch {
			case err == nil && strings.Contains(text, "master_link_status:up"):
				following++
			case err != nil || !strings.Contains(text, "role:master") || !known:
				return false
			}
		}
		return following >= c.replicas
	})
}

// awaitEach returns when all of some servers are in a state.
func awaitEach(ctx context.Context, nodes []*Redis, reached func(*Redis) bool) error {
	ctx, cancel := context.WithTimeout(ctx, clusterReadyWithin)
	defer cancel()
	for _, node := range nodes {
		for !reached(node) {
			select {
			case <-time.After(clusterLook):
			case <-ctx.Done():
				return fmt.Errorf("wait for %s: %w", node.Addr(), ctx.Err())
			}
		}
	}
	return nil
}

// SlotOf returns the slot of a key.
func (c *RedisCluster) SlotOf(key string) (int, error) {
	for _, node := range c.Nodes {
		if slot, err := say(node, "CLUSTER KEYSLOT "+key); err == nil {
			return strconv.Atoi(strings.TrimPrefix(slot[0], ":"))
		}
	}
	return 0, errors.New("no node answers")
}

// MasterOf returns the living node that is the master of a slot; nil: there is none.
func (c *RedisCluster) MasterOf(slot int) *Redis {
	for _, node := range c.Nodes {
		lines, err := say(node, "CLUSTER NODES")
		if err != nil {
			continue
		}
		for _, line := range lines {
			words := strings.Fields(line)
			if len(words) > 8 && strings.Contains(words[2], "myself,master") && has(words[8:], slot) {
				return node
			}
		}
	}
	return nil
}

// ReplicaOf returns a node that is a replica of a master; nil: there is none.
func (c *RedisCluster) ReplicaOf(master *Redis) *Redis {
	for _, node := range c.Nodes {
		info, err := say(node, "INFO replication")
		text := strings.Join(info, "\n") + "\n"
		if err == nil && strings.Contains(text, "role:slave\n") && strings.Contains(text, "master_port:"+strconv.Itoa(master.port)+"\n") {
			return node
		}
	}
	return nil
}

// Promote has a replica take its master's place, which hands over all that it has.
func (c *RedisCluster) Promote(replica *Redis) error {
	_, err := say(replica, "CLUSTER FAILOVER")
	return err
}

// has reports whether words of CLUSTER NODES name a slot.
func has(words []string, slot int) bool {
	for _, word := range words {
		from, to, ok := strings.Cut(word, "-")
		if !ok {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err1 == nil && err2 == nil && a <= slot && slot <= b {
			return true
		}
	}
	return false
}

// BeginMove begins to move a slot from one master to another, and moves some keys, or
// half of its keys if none is named. EndMove does the rest.
func (c *RedisCluster) BeginMove(slot int, from, to *Redis, some ...string) error {
	ids := make([]string, 2)
	for i, node := range []*Redis{from, to} {
		id, err := order(node, "CLUSTER MYID")
		if err != nil {
			return err
		}
		ids[i] = id[0]
	}
	if _, err := order(to, fmt.Sprintf("CLUSTER SETSLOT %d IMPORTING %s", slot, ids[0])); err != nil {
		return err
	}
	if _, err := order(from, fmt.Sprintf("CLUSTER SETSLOT %d MIGRATING %s", slot, ids[1])); err != nil {
		return err
	}
	if len(some) > 0 {
		return moveKeys(from, to, some)
	}
	keys, err := order(from, fmt.Sprintf("CLUSTER GETKEYSINSLOT %d 1000", slot))
	if err != nil {
		return err
	}
	return moveKeys(from, to, keys[:len(keys)/2])
}

// EndMove moves the rest of a slot, and tells all masters.
func (c *RedisCluster) EndMove(slot int, from, to *Redis) error {
	id, err := order(to, "CLUSTER MYID")
	if err != nil {
		return err
	}
	for { // what was written meanwhile is there as well
		keys, err := order(from, fmt.Sprintf("CLUSTER GETKEYSINSLOT %d 1000", slot))
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		if err := moveKeys(from, to, keys); err != nil {
			return err
		}
	}
	for _, node := range append([]*Redis{to, from}, c.Nodes...) {
		if _, err := order(node, fmt.Sprintf("CLUSTER SETSLOT %d NODE %s", slot, id[0])); err != nil && !strings.Contains(err.Error(), "only with masters") {
			return err
		}
	}
	return nil
}

// DropSlot takes a slot away from its master, and gives it to no other.
func (c *RedisCluster) DropSlot(slot int) error {
	for _, node := range append([]*Redis{c.MasterOf(slot)}, c.Nodes...) { // its master claims it no more, when others forget that
		if _, err := order(node, fmt.Sprintf("CLUSTER DELSLOTS %d", slot)); err != nil && !strings.Contains(err.Error(), "unassigned") {
			return err
		}
	}
	return nil
}

func moveKeys(from, to *Redis, keys []string) error {
	for _, key := range keys {
		if _, err := order(from, fmt.Sprintf("MIGRATE 127.0.0.1 %d %q 0 %d", to.port, key, moveWithin.Milliseconds())); err != nil {
			return err
		}
	}
	return nil
}

// slots are the spans of slots of a node: one of the masters, or the node of
// the slot apart, which comes behind them.
func slots(masters, node, apart int) (spans [][2]int) {
	if node == masters {
		return [][2]int{{apart, apart}}
	}
	from, to := node*ClusterSlots/masters, (node+1)*ClusterSlots/masters-1
	if apart < from || apart > to {
		return [][2]int{{from, to}}
	}
	if from < apart {
		spans = append(spans, [2]int{from, apart - 1})
	}
	if apart < to {
		spans = append(spans, [2]int{apart + 1, to})
	}
	return spans
}

// Await returns when all nodes serve and know of all slots.
func (c *RedisCluster) Await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterReadyWithin)
	defer cancel()
	for _, node := range c.Nodes {
		for {
			lines, err := say(node, "CLUSTER INFO")
			text := strings.Join(lines, "\n") + "\n"
			if err == nil && strings.Contains(text, "cluster_state:ok\n") && strings.Contains(text, "cluster_slots_ok:"+strconv.Itoa(ClusterSlots)+"\n") &&
				strings.Contains(text, "cluster_known_nodes:"+strconv.Itoa(len(c.Nodes))+"\n") {
				break
			}
			select {
			case <-time.After(clusterLook):
			case <-ctx.Done():
				return fmt.Errorf("wait for the cluster: %w; node %s says %q (%v)", ctx.Err(), node.Addr(), text, err)
			}
		}
	}
	return nil
}

// URL returns where one of the masters listens; a client finds the others.
func (c *RedisCluster) URL() string { return c.Nodes[0].URL() }

// Close kills all nodes.
func (c *RedisCluster) Close() error {
	var errs []error
	for _, node := range c.Nodes {
		errs = append(errs, node.Kill())
	}
	return errors.Join(errs...)
}

// say sends a server one inline command through its socket and returns the lines of
// the answer, without the lengths.
func say(r *Redis, command string) ([]string, error) { return inquire("unix", r.Socket(), command) }

// order is say for what is not repeated: a busy node has more time for it.
func order(r *Redis, command string) ([]string, error) {
	return inquireWithin("unix", r.Socket(), command, moveWithin)
}

func inquire(network, address, command string) ([]string, error) {
	return inquireWithin(network, address, command, redisDialWithin)
}

func inquireWithin(network, address, command string, within time.Duration) ([]string, error) {
	conn, err := net.DialTimeout(network, address, redisDialWithin)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		return nil, err
	}
	lines, err := answered(bufio.NewReader(io.LimitReader(conn, 256<<10)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return lines, nil
}

// answered reads one answer: a line, a text of several lines, or a list of answers.
// https://redis.io/docs/latest/develop/reference/protocol-spec/
func answered(in *bufio.Reader) (lines []string, err error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	n, _ := strconv.Atoi(line[min(1, len(line)):])
	switch {
	case strings.HasPrefix(line, "-"):
		return nil, errors.New(line[1:])
	case strings.HasPrefix(line, "*"):
		for range n {
			more, err := answered(in)
			if err != nil {
				return nil, err
			}
			lines = append(lines, more...)
		}
		return lines, nil
	case strings.HasPrefix(line, "$") && n >= 0:
		text := make([]byte, n+len("\r\n"))
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		for part := range strings.Lines(string(text[:n])) {
			lines = append(lines, strings.TrimRight(part, "\r\n"))
		}
		return lines, nil
	}
	return []string{line}, nil
}
