package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// How the bench of real time pushes and looks.
const (
	liveRate        = 50_000 // events a second
	liveTime        = 60 * time.Second
	liveTimeQuick   = 10 * time.Second
	livePushEvery   = 10 * time.Millisecond
	liveLookEvery   = 20 * time.Millisecond
	liveLengthEvery = 100 * time.Millisecond
	liveDrainWithin = 30 * time.Second
)

// push is one RPUSH of the producer.
type push struct {
	last   int64 // id of its last element
	count  int
	pushed time.Time // before it was sent
}

// live is one run of real time: a producer, the program, two watchers. Each
// field is written by one goroutine and read after all have ended.
type live struct {
	e         *env
	pushes    chan push
	latencies []latency
	lengths   []float64
	backlog   int64 // most elements pushed and not yet visible
	late      time.Duration
}

type latency struct {
	seconds float64
	count   int
}

// realtime measures from RPUSH to the visible row, at 50,000 events a second.
//
// How. The producer notes when it sent each RPUSH. The watcher asks the table
// for MAX(id), one look at the end of its key, every 20 ms. Ids rise in the
// order of the list, and Sluice commits a list in its order. So everything up
// to that id is visible, and a push is visible when its last id is. (At the
// end, a check verifies that nothing below is missing.) An element's time is
// from before its RPUSH was sent until after the answer that first showed it.
// So the 20 ms between two looks count against Sluice.
func realtime(ctx context.Context, e *env) (err error) {
	if err := errors.Join(e.redis.Clear(ctx), e.maria.fresh(ctx)); err != nil {
		return err
	}
	c, err := e.startSluice(ctx, e.maria, "table: pepi_live, columns: {id: id, event_name: event}")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	span := pick(e.run, liveTime, liveTimeQuick)
	e.run.say("real time: %d events a second for %s", liveRate, span)
	total := int64(span.Seconds() * liveRate)
	l := &live{e: e, pushes: make(chan push, span/livePushEvery+1)} // room for all
	group, groupCtx := errgroup.WithContext(ctx)
	produced := make(chan struct{})
	group.Go(func() error {
		defer close(produced)
		return l.produce(groupCtx, total)
	})
	group.Go(func() error { return l.watch(groupCtx, total, produced) })
	group.Go(func() error { return l.sampleLength(groupCtx, produced) })
	if err := group.Wait(); err != nil {
		return errors.Join(err, c.dead())
	}
	var rows, ids int64
	if err := e.maria.db.QueryRowContext(ctx, "SELECT COUNT(*), COUNT(DISTINCT id) FROM pepi_live").Scan(&rows, &ids); err != nil {
		return fmt.Errorf("verify table pepi_live: %w", err)
	}
	if rows != total || ids != total {
		return fmt.Errorf("verify table pepi_live: the run is void: %d rows with %d ids, wanted %d", rows, ids, total)
	}
	l.note(e.run.report)
	return nil
}

// produce pushes its share every 10 ms by the clock; if it falls behind, the
// next shares are larger, so that the rate holds.
func (l *live) produce(ctx context.Context, total int64) error {
	defer close(l.pushes)
	buf := make([]byte, 0, 256)
	started := time.Now()
	for sent := int64(0); sent < total; {
		due := min(total, int64((time.Since(started)+livePushEvery).Seconds()*liveRate))
		if due > sent {
			items := make([]string, 0, due-sent)
			for i := sent; i < due; i++ {
				x := at(i)
				items = append(items, string(x.appendJSON(buf[:0])))
			}
			p := push{last: idBase + due - 1, count: len(items), pushed: time.Now()}
			if err := l.e.redis.Push(ctx, listName, items); err != nil {
				return err
			}
			sent = due
			l.pushes <- p
		}
		next := started.Add(time.Duration(float64(sent) / liveRate * float64(time.Second)))
		if err := pause(ctx, time.Until(next)); err != nil {
			return err
		}
	}
	l.late = max(0, time.Since(started)-time.Duration(total)*time.Second/liveRate)
	return nil
}

// watch looks at the table until all is visible.
func (l *live) watch(ctx context.Context, total int64, produced <-chan struct{}) error {
	conn, err := l.e.maria.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Close()
	var waiting []push
	var drainBy <-chan time.Time
	for seen := int64(0); seen < total; {
		var last int64
		if err := conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(id), 0) FROM pepi_live").Scan(&last); err != nil {
			return fmt.Errorf("look at the table: %w", err)
		}
		now := time.Now()
		for more := true; more; {
			select {
			case p, ok := <-l.pushes:
				if more = ok; ok {
					waiting = append(waiting, p)
				}
			default:
				more = false
			}
		}
		n := 0
		for ; n < len(waiting) && waiting[n].last <= last; n++ {
			l.latencies = append(l.latencies, latency{now.Sub(waiting[n].pushed).Seconds(), waiting[n].count})
			seen += int64(waiting[n].count)
		}
		waiting = waiting[n:]
		if len(waiting) > 0 {
			l.backlog = max(l.backlog, waiting[len(waiting)-1].last-max(last, idBase-1))
		}
		select {
		case <-produced:
			produced, drainBy = nil, time.After(liveDrainWithin)
		case <-drainBy:
			return fmt.Errorf("wait until all is visible: %d events of %d, %s after the last push", seen, total, liveDrainWithin)
		default:
		}
		if err := pause(ctx, liveLookEvery); err != nil {
			return err
		}
	}
	return nil
}

func (l *live) sampleLength(ctx context.Context, produced <-chan struct{}) error {
	for {
		n, err := l.e.redis.Length(ctx, listName)
		if err != nil {
			return err
		}
		l.lengths = append(l.lengths, float64(n))
		select {
		case <-produced:
			return nil
		default:
		}
		if err := pause(ctx, liveLengthEvery); err != nil {
			return err
		}
	}
}

func (l *live) note(r *report) {
	r.add("realtime_p50", "real time at 50,000/s, RPUSH to visible row, p50", "s", percentile(l.latencies, 0.5))
	r.add("realtime_p99", "real time at 50,000/s, RPUSH to visible row, p99", "s", percentile(l.latencies, 0.99))
	r.add("realtime_max", "real time at 50,000/s, RPUSH to visible row, max", "s", percentile(l.latencies, 1))
	r.add("realtime_list_max", "real time, longest the list was", "items", slices.Max(l.lengths))
	r.add("realtime_list_end", "real time, the list at the last push", "items", l.lengths[len(l.lengths)-1])
	r.add("realtime_backlog_max", "real time, most pushed and not yet visible", "items", float64(l.backlog))
	r.add("realtime_producer_late", "real time, the producer behind its rate at the end", "s", l.late.Seconds())
	r.limit("realtime_p99_s", "realtime_p99", wantRealtimeP99)
}

// percentile returns the time within which that share of the events was visible.
func percentile(all []latency, share float64) float64 {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b latency) int {
		if a.seconds < b.seconds {
			return -1
		}
		return 1
	})
	total := 0
	for _, x := range all {
		total += x.count
	}
	need := int(share * float64(total))
	for _, x := range all {
		if need -= x.count; need <= 0 {
			return x.seconds
		}
	}
	return all[len(all)-1].seconds
}

const (
	idleTime      = 10 * time.Second
	idleTimeQuick = 5 * time.Second
	idleSettle    = time.Second
)

// idle measures what a Sluice that has drained its list costs: its CPU time,
// and how often Redis and the database sync because of it.
//
// Syncs are counted from outside, since a user may not trace a process. Redis
// with appendfsync always syncs at most once for each change of a key, and
// counts changes (rdb_changes_since_last_save): an upper bound. The database
// counts its own (Innodb_os_log_fsyncs, Innodb_data_fsyncs); what it does by
// itself is included. Sluice writes no file.
func idle(ctx context.Context, e *env) (err error) {
	all := elements{count: slowEventsQuick}
	if err := errors.Join(e.maria.fresh(ctx), e.prefill(ctx, all)); err != nil {
		return err
	}
	c, err := e.startSluice(ctx, e.maria, standard.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := e.release(ctx); err != nil {
		return err
	}
	if err := c.awaitStored(ctx, all.count); err != nil {
		return err
	}
	if err := pause(ctx, idleSettle); err != nil {
		return err
	}
	span := pick(e.run, idleTime, idleTimeQuick)
	e.run.say("idle: %s", span)
	cpuBefore, err := c.cpuTime()
	if err != nil {
		return err
	}
	changesBefore, syncsBefore, err := e.syncs(ctx)
	if err != nil {
		return err
	}
	started := time.Now()
	if err := pause(ctx, span); err != nil {
		return err
	}
	seconds := time.Since(started).Seconds()
	changes, syncs, err := e.syncs(ctx)
	if err != nil {
		return err
	}
	cpu, err := c.cpuTime()
	if err != nil {
		return err
	}
	r := e.run.report
	r.add("idle_cpu", "idle, Sluice's share of a core", "%", (cpu-cpuBefore).Seconds()/seconds*100)
	r.add("idle_redis_syncs", "idle, Redis's syncs at most (changes)", "1/s", (changes-changesBefore)/seconds)
	r.add("idle_database_syncs", "idle, the database's syncs", "1/s", (syncs-syncsBefore)/seconds)
	r.add("idle_syncs", "idle, syncs of both", "1/s", (changes-changesBefore+syncs-syncsBefore)/seconds)
	r.limit("idle_cpu_percent", "idle_cpu", wantIdleCPU)
	r.limit("idle_syncs_per_s", "idle_syncs", wantIdleSyncs)
	return nil
}

// syncs reads the two counters of idle.
func (e *env) syncs(ctx context.Context) (redisChanges, databaseSyncs float64, err error) {
	info, err := e.redis.Info(ctx, "persistence")
	if err != nil {
		return 0, 0, err
	}
	if redisChanges, err = strconv.ParseFloat(info["rdb_changes_since_last_save"], 64); err != nil {
		return 0, 0, fmt.Errorf("count redis's changes: %w", err)
	}
	err = e.maria.db.QueryRowContext(ctx, "SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN ('INNODB_OS_LOG_FSYNCS', 'INNODB_DATA_FSYNCS')").Scan(&databaseSyncs)
	if err != nil {
		return 0, 0, fmt.Errorf("count the database's syncs: %w", err)
	}
	return redisChanges, databaseSyncs, nil
}

const (
	takeoverEvents = 500 // of so many users that every partition has some
	takeoverWithin = 30 * time.Second
	takeoverLook   = 10 * time.Millisecond
)

// takeover measures from the kill -9 of the only process until the next one has
// stored a fresh event of every partition. The next one is started at once, and
// has then taken every lease and works.
func takeover(ctx context.Context, e *env) (err error) {
	e.run.say("take-over")
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx)); err != nil {
		return err
	}
	first, err := e.startSluice(ctx, e.maria, standard.settings)
	if err != nil {
		return err
	}
	warm := elements{count: takeoverEvents}
	if err := errors.Join(e.fill(ctx, listName, warm), first.awaitStored(ctx, warm.count)); err != nil {
		return errors.Join(err, first.kill())
	}
	killed := time.Now()
	if err := first.kill(); err != nil {
		return err
	}
	fresh := elements{first: takeoverEvents + rangeGap, count: takeoverEvents}
	if err := e.fill(ctx, listName, fresh); err != nil {
		return err
	}
	next, err := e.startSluice(ctx, e.maria, standard.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, next.stop()) }()
	for rows, parts := 0, 0; rows < takeoverEvents; {
		err := e.maria.db.QueryRowContext(ctx, "SELECT COUNT(*), COUNT(DISTINCT part) FROM events WHERE time >= ?", standard.from(e.maria, fresh)[0]).Scan(&rows, &parts)
		if err != nil {
			return fmt.Errorf("look at the table: %w", err)
		}
		if rows == takeoverEvents && parts != e.run.partitions {
			return fmt.Errorf("verify take-over: the fresh events came from %d partitions, wanted %d", parts, e.run.partitions)
		}
		if time.Since(killed) > takeoverWithin {
			return fmt.Errorf("wait for the next process: %d of %d fresh events after %s%s", rows, takeoverEvents, takeoverWithin, next.tail())
		}
		if err := pause(ctx, takeoverLook); err != nil {
			return err
		}
	}
	e.run.report.add("takeover", "take-over, kill -9 until all partitions are at work again", "s", time.Since(killed).Seconds())
	e.run.report.limit("takeover_s", "takeover", wantTakeoverDelay)
	return verify(ctx, e.maria, standard, fresh)
}
