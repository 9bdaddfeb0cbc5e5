package bench

import (
	"context"
	"errors"
	"fmt"
)

// The table of `bench filled` before the measured runs.
const (
	olderEvents      = 20_000_000
	olderEventsQuick = 1_000_000
	olderStep        = 1_000_000 // a file

	filledRuns = 3
	wantFilled = 0.8
)

// runFilled is `sluice-bench filled`: Sluice into the standard table, with
// dedupe, on top of 20 million older events, against an empty one. The older
// ones are loaded by the server from files, in the order of their time, with
// their time before that of the measured ones.
func runFilled(ctx context.Context, r *run) (err error) {
	e, err := openEnv(ctx, r, true)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	count := pick(r, int64(backlogEvents), backlogEventsQuick)
	older := pick(r, int64(olderEvents), olderEventsQuick)
	runs := pick(r, filledRuns, 1)
	r.report.Settings["events"] = fmt.Sprintf("%d of %d bytes on average, seed %d, with dedupe: id; %d older ones", count, meanElementBytes(), elementSeed, older)
	for i := range runs {
		r.say("empty table, run %d of %d", i+1, runs)
		rate, err := e.oneRun(ctx, e.maria, standard, elements{count: count}, e.runSluice)
		if err != nil {
			return err
		}
		r.report.add("empty_sluice", fmt.Sprintf("Sluice, events with dedupe, empty table (%dk)", count/1000), "rows/s", rate)
	}
	if err := e.loadOlder(ctx, older); err != nil {
		return err
	}
	for i := range runs {
		r.say("filled table, run %d of %d", i+1, runs)
		all := elements{first: int64(i) * (count + rangeGap), count: count}
		if err := e.forget(ctx); err != nil {
			return err
		}
		took, err := e.runSluice(ctx, e.maria, standard, all)
		if err != nil {
			return err
		}
		if err := verify(ctx, e.maria, standard, all); err != nil {
			return err
		}
		r.report.add("filled_sluice", fmt.Sprintf("Sluice, events with dedupe, on %dM older ones (%dk)", older/1_000_000, count/1000), "rows/s", float64(count)/took.Seconds())
	}
	r.report.divide("filled_vs_empty", "filled_sluice", "empty_sluice", wantFilled)
	return nil
}

// loadOlder fills the table, file by file.
func (e *env) loadOlder(ctx context.Context, older int64) error {
	if err := e.maria.fresh(ctx); err != nil {
		return err
	}
	for done := int64(0); done < older; done += olderStep {
		e.run.say("older events: %d of %d million", done/1_000_000, older/1_000_000)
		part := elements{first: done - older - rangeGap, count: olderStep}
		took, err := e.maria.bulk(ctx, standard, part)
		if err != nil {
			return err
		}
		e.run.report.add("older_bulk_load", "bulk load of the older ones, by the million", "rows/s", olderStep/took.Seconds())
	}
	return nil
}

// forget removes what a Sluice has noted of the last run's logs, and the logs
// from Redis. So the next run is a new deployment on the same table.
func (e *env) forget(ctx context.Context) error {
	for _, name := range []string{"cursors", "leases"} {
		if _, err := e.maria.db.ExecContext(ctx, "DELETE FROM "+name); err != nil {
			return fmt.Errorf("forget the last run: %w", err)
		}
	}
	return nil
}
