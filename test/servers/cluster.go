package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sluice/lib/child"
)

const (
	// clusterReadyWithin bounds the time until all nodes know each other.
	clusterReadyWithin = 60 * time.Second

	// clusterLook is how often the nodes are asked whether they do.
	clusterLook = 20 * time.Millisecond

	// clusterNodeTimeout is after how long a silent node is taken for failed.
	// There are no replicas, so nothing but the answers of the others changes.
	clusterNodeTimeout = 2 * time.Second

	// redisDialWithin bounds one question to a node.
	redisDialWithin = 2 * time.Second

	// ClusterSlots is the number of hash slots of a Redis Cluster.
	ClusterSlots = 16384
)

// ClusterOptions are what a private Redis Cluster is started with.
type ClusterOptions struct {
	// Dir holds a directory for each node. Required.
	Dir string

	// Masters is the number of nodes that share the slots evenly. There are no
	// replicas.
	Masters int

	// Apart is a key whose slot has a node of its own, beside the Masters; empty:
	// there is none.
	Apart string

	// Extra are further arguments of each node.
	Extra []string
}

// RedisCluster is a private Redis Cluster on 127.0.0.1.
type RedisCluster struct {
	// Nodes are the servers: the masters, and last the one with the slot apart.
	Nodes []*Redis
}

// StartRedisCluster starts a cluster and returns when every node serves.
// Close kills all nodes.
func StartRedisCluster(ctx context.Context, opt ClusterOptions) (*RedisCluster, error) {
	c := &RedisCluster{}
	count := opt.Masters
	if opt.Apart != "" {
		count++
	}
	for i := range count {
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
		slot, err := say(c.Nodes[0], "CLUSTER KEYSLOT "+opt.Apart)
		if err != nil {
			return err
		}
		if apart, err = strconv.Atoi(strings.TrimPrefix(slot[0], ":")); err != nil {
			return fmt.Errorf("read the slot of %s: %w", opt.Apart, err)
		}
	}
	for i, node := range c.Nodes {
		if _, err := say(node, "CLUSTER SET-CONFIG-EPOCH "+strconv.Itoa(i+1)); err != nil {
			return err
		}
		for _, span := range slots(opt.Masters, i, apart) {
			if _, err := say(node, fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", span[0], span[1])); err != nil {
				return err
			}
		}
		for _, other := range c.Nodes[:i] { // all pairs: gossip alone takes seconds
			bus, err := say(other, "CONFIG GET cluster-port")
			if err != nil {
				return err
			}
			if _, err := say(node, fmt.Sprintf("CLUSTER MEET 127.0.0.1 %d %s", other.port, bus[len(bus)-1])); err != nil {
				return err
			}
		}
	}
	return c.Await(ctx)
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
func say(r *Redis, command string) ([]string, error) {
	conn, err := child.DialSocket(r.Socket(), redisDialWithin)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, command+"\r\nQUIT\r\n"); err != nil {
		return nil, err
	}
	all, err := io.ReadAll(bufio.NewReader(io.LimitReader(conn, 64<<10)))
	if err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", command, err)
	}
	var lines []string
	for line := range strings.Lines(strings.TrimSuffix(string(all), "+OK\r\n")) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "-"):
			return nil, fmt.Errorf("%s: %s", command, line[1:])
		case line != "" && line[0] != '$' && line[0] != '*':
			lines = append(lines, line)
		}
	}
	return lines, nil
}
