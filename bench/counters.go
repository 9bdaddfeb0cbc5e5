package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The counters of `bench http`: requests of 1,000 increments, each of one hot
// name, while the store adds them up in the series.
const (
	counterNames = 100
	counterDay   = "2026-01-31T13:00:00Z"

	// What is promised.
	wantIncrements       = 300_000 // accepted a second
	wantIncrementsPerRow = 500
	wantCounterDelay     = 1.0 // s, from the last answer to all stored
)

// counterSource makes requests of 1,000 increments by one.
type counterSource struct {
	taken atomic.Int64 // requests
}

func (s *counterSource) next(dst []byte) ([]byte, int) {
	n := s.taken.Add(1)
	dst, patch := openRequest(dst, "/v1/counters")
	for i := range int64(httpBatchItems) {
		dst = append(dst, `{"app_id":"shop","name":"counter `...)
		// Each request has every name as often, and another one first.
		dst = strconv.AppendInt(dst, (n+i)%counterNames, 10)
		dst = append(dst, `","by":1,"time":"`+counterDay+`"}`+"\n"...)
	}
	patch(dst)
	return dst, httpBatchItems
}

// httpCounters sends increments for a while, and looks how many rows they
// became, and how soon the last of them was there.
func (e *env) httpCounters(ctx context.Context, n int) (err error) {
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx), e.run.watchBusy(ctx)); err != nil {
		return err
	}
	c, err := e.startSluice(ctx, e.maria, standard.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	e.run.say("requests of %d increments over %d connections, run %d", httpBatchItems, httpBatchConns, n+1)
	source := &counterSource{}
	g := generator{address: strings.TrimPrefix(c.base, "http://"), conns: httpBatchConns,
		span: pick(e.run, httpSpan, httpSpanQuick), next: source.next, done: wantStatus(httpEventsAnswer)}
	before, err := e.rowsWritten(ctx)
	if err != nil {
		return err
	}
	all, err := g.run(ctx)
	if err != nil {
		return errors.Join(err, c.dead())
	}
	delay, err := e.awaitCounted(ctx, c, all.items)
	if err != nil {
		return err
	}
	after, err := e.rowsWritten(ctx)
	if err != nil {
		return err
	}
	r := e.run.report
	r.add("counters_accepted", fmt.Sprintf("increments accepted, requests of 1,000, %d names", counterNames), "1/s", float64(all.items)/all.took.Seconds())
	r.add("counters_p99", "answer to a request of 1,000 increments, p99", "s", percentile(all.latencies, 0.99))
	r.add("counters_refused", "requests of increments told to come again (503)", "requests", float64(all.repeats))
	r.add("counters_rows", "rows they became", "rows/s", float64(after-before)/all.took.Seconds())
	r.add("counters_per_row", "increments to one row", "1", float64(all.items)/float64(max(1, after-before)))
	r.add("counters_delay", "from the last answer to all stored", "s", delay.Seconds())
	e.run.say("%s increments/s accepted, %s rows/s written", number(float64(all.items)/all.took.Seconds()), number(float64(after-before)/all.took.Seconds()))
	return nil
}

// awaitCounted returns how long it took until the series had all increments,
// and no more than those.
func (e *env) awaitCounted(ctx context.Context, c *child, want int64) (time.Duration, error) {
	done := time.Now()
	for {
		n, err := e.sum(ctx, "SELECT COALESCE(SUM(count), 0) FROM series_hours")
		if err != nil {
			return 0, err
		}
		took := time.Since(done)
		if n == want {
			return took, nil
		}
		if n > want || took > hashDoneWithin {
			return 0, fmt.Errorf("%d increments accepted, %d stored after %s%s", want, n, took, c.tail())
		}
		if err := pause(ctx, countQuickly); err != nil {
			return 0, err
		}
	}
}

// rowsWritten is how many rows the database has updated since it started. Of
// hot names a row is inserted once, and then updated.
func (e *env) rowsWritten(ctx context.Context) (int64, error) {
	return e.sum(ctx, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'HANDLER_UPDATE'")
}

// sum asks MariaDB for one number.
func (e *env) sum(ctx context.Context, query string) (n int64, err error) {
	if err := e.maria.db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("ask how much is stored: %w", err)
	}
	return n, nil
}
