package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"
)

// What a database that is far costs: the same program and backlog, with the database on
// this machine and behind a delay. The delay keeps no data back (delayer), so what is
// lost is lost to waiting for answers.
const (
	awayEvents      = 400_000
	awayEventsQuick = 100_000
	awayOrder       = "naoknaoknaok" // near, away, away with one writer, near with several
	awayOrderQuick  = "nao"
	defaultAway     = 10 * time.Millisecond // there and back
	nearWriters     = 4                     // as many as the program has of itself when the database is far

	wantAway = 0.8 // of the speed with a database that is near
)

// mostAway is the longest distance that is measured.
const mostAway = time.Second

func (r *run) checkAway() error {
	if r.away < 0 || r.away > mostAway {
		return fmt.Errorf("--database-away: %s, want 0 to %s", r.away, mostAway)
	}
	return nil
}

// farStore is a database as the measured program reaches it.
type farStore struct {
	database
	address string
	writers int
}

func (s *farStore) url() string { return s.address }

// settings are lines of the program's configuration.
func (s *farStore) settings() string { return fmt.Sprintf("store_writers: %d", s.writers) }

// backlogAway compares near and far, on MariaDB and on PostgreSQL.
func backlogAway(ctx context.Context, e *env) error {
	pg, err := openPostgres(ctx, e)
	if err != nil {
		return err
	}
	e.run.report.Settings["away"] = fmt.Sprintf("the database is %s away, there and back; table events, %d events", e.run.away, pick(e.run, awayEvents, awayEventsQuick))
	return errors.Join(e.compareAway(ctx, e.maria, "MariaDB", "away_mariadb"), e.compareAway(ctx, pg, "PostgreSQL", "away_postgres"))
}

// compareAway makes the runs of one database.
func (e *env) compareAway(ctx context.Context, s database, engine, prefix string) (err error) {
	to, err := url.Parse(s.url())
	if err != nil {
		return err
	}
	// Both are reached through a carrier, so that its own work slows both.
	addresses := make(map[time.Duration]string)
	for _, distance := range []time.Duration{0, e.run.away} {
		carrier, err := startDelayer(to.Host, distance)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, carrier.close()) }()
		there := *to
		there.Host = carrier.address()
		addresses[distance] = there.String()
	}
	all := elements{count: int64(pick(e.run, awayEvents, awayEventsQuick))}
	order := pick(e.run, awayOrder, awayOrderQuick)
	for i, way := range order {
		id, label, at := prefix+"_near", "Sluice, near", &farStore{s, addresses[0], 0}
		switch way {
		case 'a':
			id, label, at = prefix+"_far", fmt.Sprintf("Sluice, %s away", e.run.away), &farStore{s, addresses[e.run.away], 0}
		case 'o':
			id, label, at = prefix+"_far_one", fmt.Sprintf("Sluice, %s away, store_writers: 1", e.run.away), &farStore{s, addresses[e.run.away], 1}
		case 'k':
			id, label, at = prefix+"_near_several", fmt.Sprintf("Sluice, near, store_writers: %d", nearWriters), &farStore{s, addresses[0], nearWriters}
		}
		e.run.say("%s events, run %d of %d: %s", engine, i+1, len(order), label)
		rate, err := e.oneRun(ctx, at, standard, all, e.runSluice)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", engine, label, err)
		}
		e.run.say("%s events: %s rows/s", engine, number(rate))
		e.run.report.add(id, fmt.Sprintf("%s events, %s (%dk)", engine, label, all.count/1000), "rows/s", rate)
		e.run.report.add(id+"_memory", fmt.Sprintf("%s events, %s, peak memory", engine, label), "MB", e.lastPeakMB)
	}
	e.run.report.divide(prefix+"_vs_near", prefix+"_far", prefix+"_near", wantAway)
	if order == awayOrder { // for comparison: what several writers do for one that is near
		e.run.report.Ratios[prefix+"_vs_near_several"] = math.Round(1000*e.run.report.value(prefix+"_far")/e.run.report.value(prefix+"_near_several")) / 1000
	}
	e.run.report.limit(prefix+"_memory_mb", prefix+"_far_memory", wantMemoryMB)
	return nil
}
