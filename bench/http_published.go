package bench

import (
	"context"
	"errors"
	"time"

	"sluice/bench/baseline"
)

// drainPause is how long the published design's flush waits when the list was
// empty. The published one waits for a second; less does it no harm.
const drainPause = 20 * time.Millisecond

// httpPublished is httpBatches with the published design. Requests of 1,000
// events go to a list by an RPUSH each. Meanwhile its Lua batches and its one
// inserter take them from there into the table.
func (e *env) httpPublished(ctx context.Context, n int) (err error) {
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx), e.run.watchBusy(ctx)); err != nil {
		return err
	}
	address, stop, err := serve(ctx, baseline.Accept(e.redis, listName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	e.run.say("the same, taken in as published, run %d", n+1)
	source := &eventSource{first: int64(n) * httpStoreGap, each: httpBatchItems, plain: true}
	g := generator{address: address, conns: httpBatchConns, span: pick(e.run, httpSpan, httpSpanQuick),
		next: source.next, done: wantStatus(httpEventsAnswer)}
	draining, drained := context.WithCancel(ctx)
	flushed := make(chan error, 1)
	go func() { flushed <- e.flushPublished(ctx, draining) }() // ends when the list is empty and nothing more comes
	started := time.Now()
	all, err := g.run(ctx)
	drained()
	if err = errors.Join(err, <-flushed); err != nil {
		return err
	}
	stored := time.Since(started)
	if err := verify(ctx, e.maria, standard, source.elements()); err != nil {
		return err
	}
	r := e.run.report
	r.add("published_accepted", "events accepted, one RPUSH each", "events/s", float64(all.items)/all.took.Seconds())
	r.add("published_stored", "the same, from the first request to the last row", "rows/s", float64(all.items)/stored.Seconds())
	r.add("published_p99", "answer to a request of 1,000, one RPUSH each, p99", "s", percentile(all.latencies, 0.99))
	e.run.say("%s events/s accepted, %s rows/s stored", number(float64(all.items)/all.took.Seconds()), number(float64(all.items)/stored.Seconds()))
	return nil
}

// flushPublished drains the list again and again, and once more when nothing
// more comes.
func (e *env) flushPublished(ctx, coming context.Context) error {
	for {
		last := coming.Err() != nil
		q := baseline.Queue{Redis: e.redis, List: listName, DB: e.maria.handle(), Table: standard.old}
		if _, err := baseline.Published(ctx, q); err != nil || last {
			return err
		}
		if err := pause(coming, drainPause); err != nil && ctx.Err() != nil {
			return err
		}
	}
}
