package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/bench/baseline"
)

// The parts of `bench events`.
const (
	partBacklog = "backlog" // pepi_event and events on MariaDB: old designs, Sluice, bulk load
	partSQLite  = "sqlite"  // both on SQLite: Sluice, bulk insert
	// partPostgres is measured when it is asked for: its narrow rows do not
	// reach what is promised yet.
	partPostgres = "postgres" // both on PostgreSQL: Sluice, bulk load
	partRealtime = "realtime" // from RPUSH to a visible row, at 50,000 a second
	partIdle     = "idle"     // what a drained Sluice costs
	partTakeover = "takeover" // kill -9, and the next at work

	// Measured when they are asked for, as partPostgres.
	partAway    = "away"    // events on MariaDB and PostgreSQL: the database near, and behind a delay
	partCluster = "cluster" // events on MariaDB: the logs on one Redis, and on a cluster
	partTwo     = "two"     // events on MariaDB: one process, and two, each held to a part of a core
)

// askedFor are the parts that a run without --only leaves out.
var askedFor = []string{partPostgres, partAway, partCluster, partTwo}

const eventsName = "events"

var eventsParts = []string{partBacklog, partSQLite, partPostgres, partRealtime, partIdle, partTakeover, partAway, partCluster, partTwo}

// How many events a backlog holds. The daemon that takes one at a time gets
// fewer: it is slow, and its rate does not depend on their number.
const (
	backlogEvents      = 1_000_000
	backlogEventsQuick = 100_000
	slowEvents         = 100_000
	slowEventsQuick    = 10_000
)

// In which order the runs of a backlog are made: a the daemon, b the published
// design, c Sluice, e the bulk load. What is compared is interleaved.
const (
	mariaOrder       = "aecbecbec"
	mariaOrderQuick  = "aecb"
	sqliteOrder      = "ececec"
	sqliteOrderQuick = "ec"
	pgOrder          = "ececec"
	pgOrderQuick     = "ec"
)

// What is promised.
const (
	wantOneAtATime    = 8
	wantPublished     = 1.6
	wantBulk          = 0.8
	wantEventsBulk    = 0.7
	wantPostgresBulk  = 0.7
	wantMemoryMB      = 250
	wantRealtimeP99   = 1
	wantIdleCPU       = 2
	wantIdleSyncs     = 30
	wantTakeoverDelay = 5
)

// runEvents is `sluice-bench events`.
func runEvents(ctx context.Context, r *run) (err error) {
	withMaria := slices.ContainsFunc(eventsParts, func(part string) bool { return r.does(part) && part != partSQLite && part != partPostgres })
	e, err := openEnv(ctx, r, withMaria)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	r.report.Settings["events"] = fmt.Sprintf("%d of %d bytes on average, seed %d; table events with dedupe: id",
		pick(r, backlogEvents, backlogEventsQuick), meanElementBytes(), elementSeed)
	for _, part := range []struct {
		name string
		run  func(context.Context, *env) error
	}{
		{partBacklog, backlog}, {partSQLite, backlogSQLite}, {partPostgres, backlogPostgres}, {partRealtime, realtime}, {partIdle, idle}, {partTakeover, takeover}, {partAway, backlogAway}, {partCluster, compareCluster}, {partTwo, compareTwo},
	} {
		if !r.does(part.name) || (len(r.parts) == 0 && slices.Contains(askedFor, part.name)) {
			continue
		}
		if err := part.run(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func meanElementBytes() int {
	const n = 1000
	buf, total := make([]byte, 0, 256), 0
	for i := range int64(n) {
		x := at(i)
		total += len(x.appendJSON(buf[:0]))
	}
	return total / n
}

// backlog compares on MariaDB.
func backlog(ctx context.Context, e *env) error {
	r := e.run.report
	for _, t := range []*table{pepiEvent, standard} {
		if err := e.compare(ctx, e.maria, t, "MariaDB", t.name, pick(e.run, mariaOrder, mariaOrderQuick)); err != nil {
			return err
		}
	}
	r.divide("vs_one_at_a_time", "pepi_event_sluice", "pepi_event_one_at_a_time", wantOneAtATime)
	r.divide("vs_published", "pepi_event_sluice", "pepi_event_published", wantPublished)
	r.divide("vs_bulk_load", "pepi_event_sluice", "pepi_event_bulk_load", wantBulk)
	r.divide("events_vs_bulk_load", "events_sluice", "events_bulk_load", wantEventsBulk)
	r.limit("memory_mb", "pepi_event_memory", wantMemoryMB)
	r.limit("events_memory_mb", "events_memory", wantMemoryMB)
	return nil
}

// backlogSQLite compares on SQLite.
func backlogSQLite(ctx context.Context, e *env) error {
	s, err := openSQLite(e)
	if err != nil {
		return err
	}
	r := e.run.report
	for _, t := range []*table{pepiEvent, standard} {
		if err := e.compare(ctx, s, t, "SQLite", "sqlite_"+t.name, pick(e.run, sqliteOrder, sqliteOrderQuick)); err != nil {
			return err
		}
	}
	r.divide("sqlite_vs_bulk_load", "sqlite_pepi_event_sluice", "sqlite_pepi_event_bulk_load", wantBulk)
	r.divide("sqlite_events_vs_bulk_load", "sqlite_events_sluice", "sqlite_events_bulk_load", wantEventsBulk)
	return nil
}

// backlogPostgres compares on PostgreSQL.
func backlogPostgres(ctx context.Context, e *env) error {
	s, err := openPostgres(ctx, e)
	if err != nil {
		return err
	}
	r := e.run.report
	for _, t := range []*table{pepiEvent, standard} {
		if err := e.compare(ctx, s, t, "PostgreSQL", "postgres_"+t.name, pick(e.run, pgOrder, pgOrderQuick)); err != nil {
			return err
		}
	}
	r.divide("postgres_vs_bulk_load", "postgres_pepi_event_sluice", "postgres_pepi_event_bulk_load", wantPostgresBulk)
	r.divide("postgres_events_vs_bulk_load", "postgres_events_sluice", "postgres_events_bulk_load", wantPostgresBulk)
	return nil
}

// compare makes the runs of an order and notes their rates under prefix_WAY.
func (e *env) compare(ctx context.Context, s database, t *table, engine, prefix, order string) error {
	for i, way := range order {
		all := elements{count: pick(e.run, int64(backlogEvents), backlogEventsQuick)}
		var name, label string
		var measure func(context.Context, database, *table, elements) (time.Duration, error)
		switch way {
		case 'a':
			all.count = pick(e.run, int64(slowEvents), slowEventsQuick)
			name, label, measure = "one_at_a_time", "one BLPOP and INSERT at a time, 10 workers", e.runOneAtATime
		case 'b':
			name, label, measure = "published", "published: Lua 100, 10 builders, 1 inserter", e.runPublished
		case 'c':
			name, label, measure = "sluice", "Sluice", e.runSluice
		case 'e':
			name, label, measure = "bulk_load", "bulk load from a file", e.runBulk
			if engine == "SQLite" {
				label = "bulk: prepared INSERT, one transaction"
			}
		}
		e.run.say("%s %s, run %d of %d: %s", engine, t.name, i+1, len(order), label)
		rate, err := e.oneRun(ctx, s, t, all, measure)
		if err != nil {
			return fmt.Errorf("%s %s: %s: %w", engine, t.name, label, err)
		}
		id := prefix + "_" + name
		e.run.report.add(id, fmt.Sprintf("%s %s, %s (%dk)", engine, t.name, label, all.count/1000), "rows/s", rate)
		e.run.say("%s %s: %s rows/s", engine, t.name, number(rate))
		if way == 'c' {
			e.run.report.add(prefix+"_memory", fmt.Sprintf("%s %s, Sluice's peak memory", engine, t.name), "MB", e.lastPeakMB)
		}
	}
	return nil
}

// oneRun makes one run on fresh tables and returns its rows per second, if the
// table then holds what it should.
func (e *env) oneRun(ctx context.Context, s database, t *table, all elements, measure func(context.Context, database, *table, elements) (time.Duration, error)) (float64, error) {
	if err := s.fresh(ctx); err != nil {
		return 0, err
	}
	if err := e.run.watchBusy(ctx); err != nil {
		return 0, err
	}
	took, err := measure(ctx, s, t, all)
	if err != nil {
		return 0, err
	}
	if err := verify(ctx, s, t, all); err != nil {
		return 0, err
	}
	return float64(all.count) / took.Seconds(), nil
}

func (e *env) runOneAtATime(ctx context.Context, s database, t *table, all elements) (time.Duration, error) {
	q, err := e.queue(ctx, s, t, all)
	if err != nil {
		return 0, err
	}
	return baseline.OneAtATime(ctx, q)
}

func (e *env) runPublished(ctx context.Context, s database, t *table, all elements) (time.Duration, error) {
	q, err := e.queue(ctx, s, t, all)
	if err != nil {
		return 0, err
	}
	return baseline.Published(ctx, q)
}

func (e *env) queue(ctx context.Context, s database, t *table, all elements) (baseline.Queue, error) {
	if err := e.prefill(ctx, all); err != nil {
		return baseline.Queue{}, err
	}
	return baseline.Queue{Redis: e.redis, List: listName, DB: s.handle(), Table: t.old, Count: int(all.count)}, e.release(ctx)
}

func (e *env) runBulk(ctx context.Context, s database, t *table, all elements) (time.Duration, error) {
	return s.bulk(ctx, t, all)
}

// runSluice measures the real program. It is started and ready before the list
// appears, all at once, under the name it watches. The clock runs from then
// until its own counter of committed rows says that all are. The counter is
// behind the commit, and read every few milliseconds, so the time is rather too
// long than too short.
func (e *env) runSluice(ctx context.Context, s database, t *table, all elements) (took time.Duration, err error) {
	if err := e.prefill(ctx, all); err != nil {
		return 0, err
	}
	var more []string
	if far, ok := s.(*farStore); ok {
		more = append(more, far.settings())
	}
	c, err := e.startSluice(ctx, s, t.settings, more...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	started := time.Now()
	if err := e.release(ctx); err != nil {
		return 0, err
	}
	if err := c.awaitStored(ctx, all.count); err != nil {
		return 0, err
	}
	took = time.Since(started)
	e.lastPeakMB, err = c.peakMemoryMB()
	return took, err
}
