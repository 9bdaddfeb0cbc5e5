package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/bench/baseline"
	"sluice/test/servers"
)

// `bench hashes`: producers count 100 hot names on 12 servers, as fast as they
// can. Meanwhile the counts are brought into MariaDB: by the published flush,
// and by Sluice.
const (
	hashServers    = 12
	hashNames      = 100
	hashDirty      = "buffered"
	hashDay        = "2026-01-31"
	hashHour       = "13"
	hashPipeline   = 50 // increments a round trip
	hashRuns       = 3
	hashSpan       = 10 * time.Second
	hashSpanQuick  = 4 * time.Second
	hashDoneWithin = 30 * time.Second

	// What is promised.
	wantCountsPerRow      = 142 // published: 1,000,000 increments to 7,000 writes
	wantFewerRowsThanPubl = 5
)

// runHashes is `sluice-bench hashes`.
func runHashes(ctx context.Context, r *run) (err error) {
	e, err := openEnv(ctx, r, true)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	h := &hashBench{env: e}
	if err := h.start(ctx); err != nil {
		return err
	}
	r.report.Settings["counters"] = fmt.Sprintf("%d names of one app and hour on %d servers, appendfsync everysec; %d increments a round trip, one connection a server", hashNames, hashServers, hashPipeline)
	for n := range pick(r, hashRuns, 1) {
		r.say("published flush, run %d", n+1)
		if err := h.measure(ctx, "published", "published flush", h.published); err != nil {
			return fmt.Errorf("published flush: %w", err)
		}
		r.say("Sluice, run %d", n+1)
		if err := h.measure(ctx, "sluice", "Sluice", h.sluice); err != nil {
			return fmt.Errorf("sluice: %w", err)
		}
	}
	r.report.judge(target{ratio: "increments_per_row", value: wantCountsPerRow}, r.report.value("sluice_per_row"))
	r.report.divide("rows_published_vs_sluice", "published_rows", "sluice_rows", wantFewerRowsThanPubl)
	return nil
}

// hashBench is the servers and the producers.
type hashBench struct {
	*env
	urls    []string
	servers []*baseline.Redis
}

func (h *hashBench) start(ctx context.Context) error {
	for i := range hashServers {
		server, err := servers.StartRedis(ctx, servers.RedisOptions{Dir: filepath.Join(h.dir, "counters-"+strconv.Itoa(i)), AppendFsync: "everysec"})
		if err != nil {
			return err
		}
		h.closers = append(h.closers, stopServer(server.Stop))
		redis, err := baseline.Dial(server.URL())
		if err != nil {
			return err
		}
		h.closers = append(h.closers, func() error { redis.Close(); return nil })
		h.urls, h.servers = append(h.urls, server.URL()), append(h.servers, redis)
	}
	return nil
}

// measure makes one run: store brings counts into the database until it is
// told to stop, and returns how many it has there.
func (h *hashBench) measure(ctx context.Context, id, label string, store func(ctx context.Context, produce func() (int64, error)) (int64, error)) error {
	if err := errors.Join(h.maria.fresh(ctx), h.redis.Clear(ctx), h.run.watchBusy(ctx)); err != nil {
		return err
	}
	for _, server := range h.servers {
		if err := server.Clear(ctx); err != nil {
			return err
		}
	}
	var counted, rows int64
	var took time.Duration
	stored, err := store(ctx, func() (int64, error) {
		before, err := h.rowsWritten(ctx)
		if err != nil {
			return 0, err
		}
		started := time.Now()
		if counted, err = h.produce(ctx); err != nil {
			return 0, err
		}
		took = time.Since(started)
		after, err := h.rowsWritten(ctx)
		rows = after - before
		return counted, err
	})
	if err != nil {
		return err
	}
	if stored != counted {
		return fmt.Errorf("%d increments counted, %d stored", counted, stored)
	}
	r := h.run.report
	r.add(id+"_increments", label+", increments counted meanwhile", "1/s", float64(counted)/took.Seconds())
	r.add(id+"_rows", label+", rows written", "rows/s", float64(rows)/took.Seconds())
	r.add(id+"_per_row", label+", increments to one row", "1", float64(counted)/float64(max(1, rows)))
	return nil
}

// produce counts on all servers for a while, and returns how often.
func (h *hashBench) produce(ctx context.Context) (int64, error) {
	var total atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	until := time.Now().Add(pick(h.run, hashSpan, hashSpanQuick))
	for i, server := range h.servers {
		group.Go(func() error {
			keys := make([]string, hashPipeline)
			for n := i; time.Now().Before(until); {
				for k := range keys {
					keys[k] = fmt.Sprintf("app|%s|name %d", hashDay, n%hashNames)
					n++
				}
				if err := server.Count(ctx, hashDirty, hashHour, keys); err != nil {
					return err
				}
				total.Add(int64(len(keys)))
			}
			return nil
		})
	}
	err := group.Wait()
	return total.Load(), err
}

// published runs the published flush, one for each server.
func (h *hashBench) published(ctx context.Context, produce func() (int64, error)) (int64, error) {
	if _, err := h.maria.db.ExecContext(ctx, baseline.CreateSeries); err != nil {
		return 0, fmt.Errorf("create table: %w", err)
	}
	flushing, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(h.servers))
	var running sync.WaitGroup
	for i, server := range h.servers {
		running.Go(func() { errs[i] = baseline.FlushCounters(flushing, server, h.maria.db, hashDirty) })
	}
	_, err := produce()
	stop()
	running.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return 0, err
	}
	return h.sum(ctx, "SELECT COALESCE(SUM(n), 0) FROM published_series")
}

// sluice runs the program.
func (h *hashBench) sluice(ctx context.Context, produce func() (int64, error)) (_ int64, err error) {
	c, err := h.startSluice(ctx, h.maria, standard.settings, fmt.Sprintf("hashes:\n  - {redis: [%s], dirty: %s, key: \"{app_id}|{date}|{name}\"}", `"`+strings.Join(h.urls, `", "`)+`"`, hashDirty))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	before, err := c.cpuTime()
	if err != nil {
		return 0, err
	}
	counted, err := produce()
	if err != nil {
		return 0, errors.Join(err, c.dead())
	}
	after, err := c.cpuTime()
	if err != nil {
		return 0, err
	}
	h.run.report.add("sluice_cpu", "Sluice, its own computing", "s/s", (after-before).Seconds()/pick(h.run, hashSpan, hashSpanQuick).Seconds())
	delay, err := h.awaitCounted(ctx, c, counted)
	if err != nil {
		return 0, err
	}
	h.run.report.add("sluice_delay", "Sluice, from the last increment to all stored", "s", delay.Seconds())
	return counted, nil
}
