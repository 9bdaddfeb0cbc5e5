package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sluice/test/servers"
)

// What more servers and more processes give. The list is on the bench's own Redis; that
// of Sluice is another one, new for each run.
const (
	clusterMasters = 3
	scaleRuns      = 3

	// Two processes on two cores cannot be twice as fast as one, and the database
	// computes on them as well. So each process may compute 2 ms of each 20 ms of one
	// core, and waits for the rest: the kernel counts (cgroup, cpu.cfs_quota_us). The stores have no bound, and their part of the cores is told.
	heldMicros = 2000
	heldOf     = 20_000
	heldEvents = 300_000
	heldQuick  = 100_000
	heldLists  = 8                      // one is drained by one process
	lookEvery  = 250 * time.Millisecond // seldom: an answer is some of what a process may compute

	wantCluster = 0.9
	wantTwo     = 1.8
)

// onRedis is an environment whose Sluice has another Redis than its lists.
func (e *env) onRedis(url string) *env {
	x := *e
	x.lists, x.redisURL = e.redisURL, url
	return &x
}

// listAt is a list of events on a Redis.
func listAt(url string) string { return fmt.Sprintf("dedupe: id, redis: %q", url) }

// compareCluster compares one Redis with a cluster of three masters.
func compareCluster(ctx context.Context, e *env) error {
	all := elements{count: int64(pick(e.run, backlogEvents, backlogEventsQuick))}
	t := *standard
	t.settings = listAt(e.redisURL)
	for n := range pick(e.run, scaleRuns, 1) {
		for _, masters := range []int{1, clusterMasters} {
			id, label := "cluster_one", "one Redis"
			if masters > 1 {
				id, label = "cluster_three", fmt.Sprintf("a cluster of %d masters", masters)
			}
			e.run.say("run %d: logs on %s", n+1, label)
			var rate float64
			err := e.withRedis(ctx, masters, func(x *env) (err error) {
				rate, err = x.oneRun(ctx, e.maria, &t, all, x.runSluice)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", label, err)
			}
			e.run.say("%s: %s rows/s", label, number(rate))
			e.run.report.add(id, fmt.Sprintf("MariaDB events, logs on %s (%dk)", label, all.count/1000), "rows/s", rate)
		}
	}
	e.run.report.divide("cluster_vs_one", "cluster_three", "cluster_one", wantCluster)
	return nil
}

// withRedis calls f with a Redis, or a cluster, that is new and synced as the bench's own.
func (e *env) withRedis(ctx context.Context, masters int, f func(x *env) error) (err error) {
	dir, err := os.MkdirTemp(e.dir, "redis-")
	if err != nil {
		return fmt.Errorf("make a directory for redis: %w", err)
	}
	if masters == 1 {
		server, err := servers.StartRedis(ctx, servers.RedisOptions{Dir: dir, Listen: "tcp"})
		if err != nil {
			return err
		}
		err = f(e.onRedis(server.URL()))
		return errors.Join(err, stopServer(server.Stop)())
	}
	cluster, err := servers.StartRedisCluster(ctx, servers.ClusterOptions{Dir: dir, Masters: masters})
	if err != nil {
		return err
	}
	return errors.Join(f(e.onRedis(cluster.URL())), cluster.Close())
}

// compareTwo compares two processes with one.
func compareTwo(ctx context.Context, e *env) error {
	e.run.report.Settings["held"] = fmt.Sprintf("each process may compute %d µs of each %d µs of one core; %d lists", heldMicros, heldOf, heldLists)
	for n := range pick(e.run, scaleRuns, 1) {
		for _, processes := range []int{1, 2} {
			e.run.say("run %d: %d processes, each held to %d %% of a core", n+1, processes, 100*heldMicros/heldOf)
			err := e.withRedis(ctx, 1, func(x *env) error { return x.heldRun(ctx, processes) })
			if err != nil {
				return fmt.Errorf("%d processes: %w", processes, err)
			}
		}
	}
	e.run.report.divide("two_vs_one", "held_2", "held_1", wantTwo)
	return nil
}

// heldRun measures some processes that share the lists and the partitions evenly.
func (e *env) heldRun(ctx context.Context, processes int) (err error) {
	if err := e.maria.fresh(ctx); err != nil {
		return err
	}
	if err := e.redis.Clear(ctx); err != nil {
		return err
	}
	all := elements{count: int64(pick(e.run, heldEvents, heldQuick))}
	for i := range int64(heldLists) {
		each := all.count / heldLists
		if err := e.fill(ctx, heldList(i)+":next", elements{first: i * each, count: each}); err != nil {
			return err
		}
	}
	var more strings.Builder
	for i := range int64(heldLists - 1) {
		fmt.Fprintf(&more, "  %q: {%s}\n", heldList(i+1), listAt(e.lists))
	}
	var children []*child
	for range processes {
		c, failed := e.startSluice(ctx, e.maria, listAt(e.lists), more.String()+"roles: [intake, store]")
		if failed != nil {
			return failed
		}
		children = append(children, c)
		defer func() { err = errors.Join(err, c.stop()) }()
	}
	if err := awaitShares(ctx, children, e.run.partitions, heldLists); err != nil {
		return err
	}
	for _, c := range children {
		free, err := hold(c.cmd.Process.Pid)
		if err != nil {
			return err
		}
		defer free()
	}
	return e.heldDrain(ctx, children, all)
}

func heldList(i int64) string {
	if i == 0 {
		return listName
	}
	return listName + ":" + strconv.FormatInt(i, 10)
}

// heldDrain releases the lists, and waits until all is stored.
func (e *env) heldDrain(ctx context.Context, children []*child, all elements) error {
	before, err := e.cpuTimes(children[0])
	if err != nil {
		return err
	}
	started := time.Now()
	for i := range int64(heldLists) {
		if err := e.redis.Rename(ctx, heldList(i)+":next", heldList(i)); err != nil {
			return err
		}
	}
	for stored := int64(0); stored < all.count; {
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
		stored = 0
		for _, c := range children {
			n, err := c.counter(ctx, storedRows)
			if err != nil {
				return errors.Join(err, c.dead())
			}
			stored += n
		}
	}
	took := time.Since(started)
	after, err := e.cpuTimes(children[0])
	if err != nil {
		return err
	}
	id, label := fmt.Sprintf("held_%d", len(children)), fmt.Sprintf("MariaDB events, %d held processes (%dk)", len(children), all.count/1000)
	rate, database := float64(all.count)/took.Seconds(), 100*(after[mariaServer]-before[mariaServer]).Seconds()/took.Seconds()
	e.run.say("%s: %s rows/s; MariaDB computed %.0f %% of a core", label, number(rate), database)
	e.run.report.add(id, label, "rows/s", rate)
	e.run.report.add(id+"_database", label+", what MariaDB computed", "% of a core", database)
	return verify(ctx, e.maria, standard, all)
}

// awaitShares waits until each process has an even share of partitions and lists.
func awaitShares(ctx context.Context, children []*child, partitions, lists int) error {
	for {
		even := true
		for _, c := range children {
			store, err := c.counter(ctx, `sluice_leases{role="store"}`)
			if err != nil {
				return err
			}
			intake, err := c.counter(ctx, `sluice_leases{role="intake"}`)
			if err != nil {
				return err
			}
			even = even && int(store) == partitions/len(children) && int(intake) >= lists/len(children)
		}
		if even {
			return nil
		}
		if err := pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("wait until the processes share evenly: %w", err)
		}
	}
}

// hold bounds what a process computes, by a cgroup of the first or the second kind.
func hold(pid int) (free func(), err error) {
	name := "sluice-bench-" + strconv.Itoa(pid)
	dir, limits := filepath.Join("/sys/fs/cgroup/cpu", name), map[string]string{"cpu.cfs_period_us": strconv.Itoa(heldOf), "cpu.cfs_quota_us": strconv.Itoa(heldMicros)}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, limits = filepath.Join("/sys/fs/cgroup", name), map[string]string{"cpu.max": fmt.Sprintf("%d %d", heldMicros, heldOf)}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup, which takes root on Linux: %w", err)
	}
	move := func(to string) error {
		return os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
	}
	free = func() { _, _ = move(filepath.Dir(dir)), os.Remove(dir) } // it is empty then
	for file, text := range limits {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	if err = errors.Join(err, move(dir)); err != nil {
		free()
		return nil, fmt.Errorf("hold process %d: %w", pid, err)
	}
	return free, nil
}
