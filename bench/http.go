package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The parts of `bench http`.
const (
	partBatches  = "batches"  // requests of 1,000 events, and the store behind them
	partCounters = "counters" // requests of 1,000 increments, and the store behind them
	partSingle   = "single"   // requests of one event, beside requests of nothing
	partPeople   = "people"   // requests of 1,000 events that name people, beside ones that do not
)

var httpParts = []string{partBatches, partCounters, partSingle, partPeople}

// benchRootKey is the key that the bench's requests carry.
const benchRootKey = "bench-root-key-0123456789abcdefgh"

const (
	httpBatchItems  = 1000
	httpBatchConns  = 16
	httpSingleConns = 256
	httpSpan        = 10 * time.Second
	httpSpanQuick   = 2 * time.Second
	httpSingleSpan  = 5 * time.Second
	httpSingleQuick = 2 * time.Second
	httpBatchRuns   = 3
	httpSingleRuns  = 5
	httpStoreGap    = 10_000_000 // indexes between the elements of two runs

	// httpBacklog lets more wait than the default does: the published design's
	// list, beside it, has no bound at all. With the default's 256 MB a run of
	// 10 s reaches the bound and measures the store.
	httpBacklog      = "backlog_megabytes: 2048"
	httpPingRequest  = "GET /v1/ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
	httpPingAnswer   = 204
	httpEventsAnswer = 202
)

// What is promised.
const (
	wantHTTPAccepted     = 150_000 // events a second, in requests of 1,000
	wantVsPublished      = 1.2
	wantSingleVsEmpty    = 0.5
	wantGeneratorCeiling = 30_000 // requests a second, or what it measures is void
)

// runHTTP is `sluice-bench http`.
func runHTTP(ctx context.Context, r *run) (err error) {
	e, err := openEnv(ctx, r, true)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	r.report.Settings["events"] = fmt.Sprintf("%d bytes on average, seed %d, with event_id", meanElementBytes()+len("event_"), elementSeed)
	if r.does(partBatches) {
		for i := range pick(r, httpBatchRuns, 1) {
			if err := e.httpBatches(ctx, i); err != nil {
				return fmt.Errorf("%s: %w", partBatches, err)
			}
			if err := e.httpPublished(ctx, i); err != nil {
				return fmt.Errorf("%s, as published: %w", partBatches, err)
			}
		}
		r.report.judge(target{ratio: "batches_accepted_per_s", value: wantHTTPAccepted}, r.report.value("batches_accepted"))
		r.report.divide("http_vs_published", "batches_accepted", "published_accepted", wantVsPublished)
		r.report.divide("http_stored_vs_published", "batches_stored", "published_stored", wantVsPublished)
		r.report.Settings["backlog"] = httpBacklog + "; the published design's list has no bound"
	}
	if r.does(partCounters) {
		for i := range pick(r, httpBatchRuns, 1) {
			if err := e.httpCounters(ctx, i); err != nil {
				return fmt.Errorf("%s: %w", partCounters, err)
			}
		}
		r.report.judge(target{ratio: "increments_accepted_per_s", value: wantIncrements}, r.report.value("counters_accepted"))
		r.report.judge(target{ratio: "increments_per_row", value: wantIncrementsPerRow}, r.report.value("counters_per_row"))
		r.report.limit("counters_delay_s", "counters_delay", wantCounterDelay)
	}
	if r.does(partSingle) {
		if err := e.httpSingle(ctx); err != nil {
			return fmt.Errorf("%s: %w", partSingle, err)
		}
	}
	if r.does(partPeople) {
		for i := range pick(r, httpBatchRuns, 1) {
			if err := e.httpPeople(ctx, i); err != nil {
				return fmt.Errorf("%s: %w", partPeople, err)
			}
		}
		r.report.divide("people_unknown_vs_none", "people_unknown", "people_none", 0)
		r.report.divide("people_known_vs_none", "people_known", "people_none", 0)
	}
	return nil
}

// eventSource makes requests of events, each event once, in the order in which
// they are asked for.
type eventSource struct {
	first, each int64
	plain       bool         // the id is called id, as in lists
	taken       atomic.Int64 // requests
}

// next appends a request: the events of the next `each` indexes.
func (s *eventSource) next(dst []byte) ([]byte, int) {
	from := s.first + (s.taken.Add(1)-1)*s.each
	dst, patch := openRequest(dst, "/v1/events")
	for i := from; i < from+s.each; i++ {
		x := at(i)
		if s.plain {
			dst = x.appendJSON(dst)
		} else {
			dst = append(dst, `{"event_`...)
			start := len(dst)
			dst = x.appendJSON(dst)
			dst = append(dst[:start], dst[start+len(`{"`):]...) // {"id": becomes {"event_id":
		}
		dst = append(dst, '\n')
	}
	patch(dst)
	return dst, int(s.each)
}

// openRequest appends the head of a request of NDJSON. patch is called when
// the body is there: it writes the length into its place, with leading zeros.
func openRequest(dst []byte, path string) (_ []byte, patch func([]byte)) {
	dst = append(dst, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+benchRootKey+
		"\r\nContent-Type: application/x-ndjson\r\nContent-Length: 0000000\r\n\r\n"...)
	body := len(dst)
	return dst, func(whole []byte) {
		size := strconv.Itoa(len(whole) - body)
		copy(whole[body-len("\r\n\r\n")-len(size):], size)
	}
}

// elements returns what has been made of the source.
func (s *eventSource) elements() elements { return elements{s.first, s.taken.Load() * s.each} }

// httpBatches sends requests of 1,000 events while the store runs, then waits
// until all are in the table. A request that is refused (503) is sent again:
// its events carry ids.
func (e *env) httpBatches(ctx context.Context, n int) (err error) {
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx), e.run.watchBusy(ctx)); err != nil {
		return err
	}
	c, err := e.startSluice(ctx, e.maria, standard.settings, httpBacklog)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	e.run.say("requests of %d events over %d connections, run %d", httpBatchItems, httpBatchConns, n+1)
	source := &eventSource{first: int64(n) * httpStoreGap, each: httpBatchItems}
	g := generator{address: strings.TrimPrefix(c.base, "http://"), conns: httpBatchConns,
		span: pick(e.run, httpSpan, httpSpanQuick), next: source.next, done: wantStatus(httpEventsAnswer)}
	started := time.Now()
	all, err := g.run(ctx)
	if err != nil {
		return errors.Join(err, c.dead())
	}
	if err := c.awaitStored(ctx, source.elements().count); err != nil {
		return err
	}
	stored := time.Since(started)
	if err := verify(ctx, e.maria, standard, source.elements()); err != nil {
		return err
	}
	memory, err := c.peakMemoryMB()
	if err != nil {
		return err
	}
	r := e.run.report
	r.add("batches_accepted", "events accepted, requests of 1,000", "events/s", float64(all.items)/all.took.Seconds())
	r.add("batches_stored", "the same, from the first request to the last row", "rows/s", float64(all.items)/stored.Seconds())
	r.add("batches_p99", "answer to a request of 1,000, p99", "s", percentile(all.latencies, 0.99))
	r.add("batches_refused", "requests told to come again (503)", "requests", float64(all.repeats))
	r.add("batches_memory", "Sluice's peak memory", "MB", memory)
	e.run.say("%s events/s accepted, %s rows/s stored", number(float64(all.items)/all.took.Seconds()), number(float64(all.items)/stored.Seconds()))
	return nil
}

// httpSingle compares requests of one event, written durably, with empty
// requests, answered by the same server to the same generator. Accepting is
// compared: the process that takes requests in has only that role, and another
// one writes the rows after the clock has stopped. Both roles in one process,
// on the same cores, are measured as well.
func (e *env) httpSingle(ctx context.Context) (err error) {
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx), e.run.watchBusy(ctx)); err != nil {
		return err
	}
	r := e.run.report
	best, err := ceiling(ctx, httpSingleConns, pick(e.run, httpSingleSpan, httpSingleQuick), httpPingRequest)
	if err != nil {
		return err
	}
	r.add("generator_ceiling", "the generator, answered by nothing", "1/s", best)
	source, stored := &eventSource{each: 1}, int64(0)
	for n := range pick(e.run, httpSingleRuns, 1) {
		e.run.say("single events and empty requests over %d connections, run %d", httpSingleConns, n+1)
		if err := e.accepting(ctx, source, n%2 == 1); err != nil {
			return err
		}
		if err := e.storing(ctx, source, stored); err != nil {
			return err
		}
		stored = source.elements().count
	}
	if err := verify(ctx, e.maria, standard, source.elements()); err != nil {
		return err
	}
	if best < wantGeneratorCeiling {
		return fmt.Errorf("the generator reaches %s requests/s by itself, wanted %d: what it measured is void; is the machine busy?", number(best), wantGeneratorCeiling)
	}
	r.judge(target{ratio: "single_vs_empty", value: wantSingleVsEmpty}, r.value("single_share"))
	return nil
}

// accepting measures a process that only takes in: empty requests and single
// events, or the other way round.
func (e *env) accepting(ctx context.Context, source *eventSource, eventsFirst bool) (err error) {
	c, err := e.startSluice(ctx, e.maria, standard.settings, "roles: [intake]")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	steps := []func() error{
		func() error {
			empty := generator{next: func(dst []byte) ([]byte, int) { return append(dst, httpPingRequest...), 1 }}
			return e.singles(ctx, c, &empty, httpPingAnswer, "empty_requests", "empty requests (204)")
		},
		func() error {
			return e.singles(ctx, c, &generator{next: source.next}, httpEventsAnswer, "single_requests", "requests of one event (202)")
		},
	}
	if eventsFirst {
		slices.Reverse(steps)
	}
	if err := errors.Join(steps[0](), steps[1]()); err != nil {
		return err
	}
	// Each run's own: what the machine does meanwhile, it does to both.
	r := e.run.report
	r.add("single_share", "requests of one event to empty ones, in the same run", "1", r.last("single_requests")/r.last("empty_requests"))
	return nil
}

// storing measures single events with the store in the same process, which
// first stores what was accepted before and is not stored yet.
func (e *env) storing(ctx context.Context, source *eventSource, stored int64) (err error) {
	c, err := e.startSluice(ctx, e.maria, standard.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.awaitStored(ctx, source.elements().count-stored); err != nil {
		return err
	}
	if err := e.singles(ctx, c, &generator{next: source.next}, httpEventsAnswer, "stored_requests", "the same, the store at work on the same cores"); err != nil {
		return err
	}
	return c.awaitStored(ctx, source.elements().count-stored)
}

// singles runs a generator of single requests against a process.
func (e *env) singles(ctx context.Context, c *child, g *generator, want int, name, what string) error {
	g.address, g.conns = strings.TrimPrefix(c.base, "http://"), httpSingleConns
	g.span, g.done = pick(e.run, httpSingleSpan, httpSingleQuick), wantStatus(want)
	before, err := c.cpuTime()
	if err != nil {
		return err
	}
	all, err := g.run(ctx)
	if err != nil {
		return errors.Join(err, c.dead())
	}
	after, err := c.cpuTime()
	if err != nil {
		return err
	}
	e.run.report.add(name, what, "1/s", float64(all.requests)/all.took.Seconds())
	e.run.report.add(name+"_p99", what+", p99", "s", percentile(all.latencies, 0.99))
	e.run.report.add(name+"_cpu", what+", Sluice's computing", "µs", float64((after-before).Microseconds())/float64(all.requests))
	return nil
}
