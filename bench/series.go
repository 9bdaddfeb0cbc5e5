package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"sluice/bench/baseline"
	"sluice/test/servers"
)

// `bench series`: 100 hot names are counted, 300,000 times a second, while the
// series are mirrored in MongoDB. Beside it one $inc is made for each event, as
// fast as it goes. The pace leaves the machine room. Otherwise the delay of the
// counts would be how long they wait for a core.
const (
	seriesDatabase   = "bench"
	seriesCollection = "series"
	seriesApp        = "shop" // of counterSource
	seriesHour       = 13     // of counterDay
	seriesRuns       = 3
	seriesPace       = 300_000 // increments a second
	seriesSpan       = 10 * time.Second
	seriesQuick      = 4 * time.Second
	seriesIncWorkers = 8
	seriesBulk       = 50 // FerretDB: each statement of a message holds a connection
	seriesWithin     = 60 * time.Second

	probeApp   = "probe"
	probeEvery = 20 * time.Millisecond

	// What is promised.
	wantIncrementsPerWrite = 500
	wantFreshSeconds       = 1.0
	wantVsIncEach          = 10
)

// runSeries is `sluice-bench series`.
func runSeries(ctx context.Context, r *run) (err error) {
	e, err := openEnv(ctx, r, true)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	s := &seriesBench{env: e}
	if err := s.start(ctx); err != nil {
		return err
	}
	r.report.Settings["counters"] = fmt.Sprintf("%d names of one app and hour, requests of %d increments, %d increments a second", counterNames, httpBatchItems, seriesPace)
	r.report.Settings["mirror"] = fmt.Sprintf("FerretDB 1.24.2 on SQLite, %d documents a message; a write is one document", seriesBulk)
	for n := range pick(r, seriesRuns, 1) {
		if err := s.incrementEach(ctx, n); err != nil {
			return fmt.Errorf("one $inc for each event: %w", err)
		}
		if err := s.mirrored(ctx, n); err != nil {
			return fmt.Errorf("sluice: %w", err)
		}
	}
	r.report.judge(target{ratio: "increments_per_write", value: wantIncrementsPerWrite}, r.report.value("mirror_per_write"))
	r.report.limit("fresh_s", "mirror_fresh", wantFreshSeconds)
	r.report.divide("increments_vs_inc_each", "mirror_increments", "inc_increments", wantVsIncEach)
	return nil
}

type seriesBench struct {
	*env
	url   string
	mongo *baseline.Mongo
}

func (s *seriesBench) start(ctx context.Context) error {
	s.run.say("start a private FerretDB")
	server, err := servers.StartMongo(ctx, filepath.Join(s.dir, "mongo"))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, stopServer(server.Stop))
	s.url = server.URL(seriesDatabase)
	if s.mongo, err = baseline.DialMongo(s.url, seriesDatabase, seriesCollection); err != nil {
		return err
	}
	s.closers = append(s.closers, stopServer(s.mongo.Close))
	return nil
}

func (s *seriesBench) clear(ctx context.Context) error {
	return errors.Join(s.maria.fresh(ctx), s.redis.Clear(ctx), s.mongo.Clear(ctx), s.run.watchBusy(ctx))
}

// incrementEach measures the old design, and that it counted all.
func (s *seriesBench) incrementEach(ctx context.Context, n int) error {
	if err := s.clear(ctx); err != nil {
		return err
	}
	span := pick(s.run, seriesSpan, seriesQuick)
	s.run.say("one $inc for each event, %d at once, run %d", seriesIncWorkers, n+1)
	started := time.Now()
	done, err := s.mongo.IncrementEach(ctx, seriesApp, counterNames, seriesIncWorkers, seriesHour, started.Add(span))
	took := time.Since(started)
	if err != nil {
		return err
	}
	if has, err := s.mongo.Sum(ctx, seriesApp, seriesHour); err != nil || has != done {
		return errors.Join(err, fmt.Errorf("%d increments acknowledged, %d there", done, has))
	}
	s.run.report.add("inc_increments", "one $inc for each event, increments", "1/s", float64(done)/took.Seconds())
	return nil
}

// mirrored measures Sluice.
func (s *seriesBench) mirrored(ctx context.Context, n int) (err error) {
	if err := s.clear(ctx); err != nil {
		return err
	}
	c, err := s.startSluice(ctx, s.maria, standard.settings, fmt.Sprintf("timeseries: %q\ntimeseries_bulk: %d", s.url, seriesBulk))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	s.run.say("requests of %d increments over %d connections, run %d", httpBatchItems, httpBatchConns, n+1)
	probing, stop := context.WithCancel(ctx)
	defer stop()
	type probed struct {
		fresh []latency
		err   error
	}
	probes := make(chan probed, 1)
	go func() { // ends with probing
		fresh, err := s.probe(probing, c)
		probes <- probed{fresh, err}
	}()
	source := &pacedCounters{began: time.Now()}
	g := generator{address: strings.TrimPrefix(c.base, "http://"), conns: httpBatchConns,
		span: pick(s.run, seriesSpan, seriesQuick), next: source.next, done: wantStatus(httpEventsAnswer)}
	all, err := g.run(ctx)
	stop()
	seen := <-probes
	if err := errors.Join(err, seen.err); err != nil {
		return errors.Join(err, c.dead())
	}
	delay, err := s.awaitMirrored(ctx, c, all.items)
	if err != nil {
		return err
	}
	documents, err := c.counter(ctx, "sluice_mirror_documents_total")
	if err != nil {
		return err
	}
	r := s.run.report
	r.add("mirror_increments", "Sluice, increments accepted", "1/s", float64(all.items)/all.took.Seconds())
	r.add("mirror_writes", "Sluice, documents written", "1/s", float64(documents)/all.took.Seconds())
	r.add("mirror_per_write", "Sluice, increments to one document written", "1", float64(all.items)/float64(max(1, documents)))
	r.add("mirror_fresh", "Sluice, from an answer to the count in MongoDB, median", "s", percentile(seen.fresh, 0.5))
	r.add("mirror_fresh_p95", "Sluice, from an answer to the count in MongoDB, p95", "s", percentile(seen.fresh, 0.95))
	r.add("mirror_delay", "Sluice, from the last answer to all of it in MongoDB", "s", delay.Seconds())
	return nil
}

// pacedCounters makes the requests of counterSource, each not before its time.
type pacedCounters struct {
	counterSource
	began time.Time
	given atomic.Int64
}

func (p *pacedCounters) next(dst []byte) ([]byte, int) {
	n := p.given.Add(1) - 1
	time.Sleep(time.Until(p.began.Add(time.Duration(n) * httpBatchItems * time.Second / seriesPace)))
	return p.counterSource.next(dst)
}

// probe counts a name of its own, again and again, and looks how soon each is
// in MongoDB.
func (s *seriesBench) probe(ctx context.Context, c *child) (fresh []latency, err error) {
	for n := int64(1); ; n++ {
		if err := s.countProbe(ctx, c); err != nil {
			return fresh, ifRunning(ctx, err)
		}
		answered := time.Now()
		for {
			has, err := s.mongo.Sum(ctx, probeApp, seriesHour)
			if err != nil {
				return fresh, ifRunning(ctx, err)
			}
			if has >= n {
				break
			}
			if err := pause(ctx, probeEvery); err != nil {
				return fresh, nil
			}
		}
		fresh = append(fresh, latency{time.Since(answered).Seconds(), 1})
	}
}

// ifRunning is an error, unless the context has ended.
func ifRunning(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *seriesBench) countProbe(ctx context.Context, c *child) error {
	body := fmt.Sprintf(`{"app_id":%q,"name":"probe","time":%q}`, probeApp, counterDay)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/counters", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+benchRootKey)
	answer, err := http1.Do(request)
	if err != nil {
		return fmt.Errorf("count a probe: %w", err)
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	if err == nil && answer.StatusCode != httpEventsAnswer {
		err = fmt.Errorf("count a probe: the server answered %s", answer.Status)
	}
	return err
}

// awaitMirrored returns how long it took until MongoDB had all increments, and
// no more than those.
func (s *seriesBench) awaitMirrored(ctx context.Context, c *child, want int64) (time.Duration, error) {
	done := time.Now()
	for {
		n, err := s.mongo.Sum(ctx, seriesApp, seriesHour)
		if err != nil {
			return 0, err
		}
		took := time.Since(done)
		if n == want {
			return took, nil
		}
		if n > want || took > seriesWithin {
			return 0, fmt.Errorf("%d increments accepted, %d in MongoDB after %s%s", want, n, took, c.tail())
		}
		if err := pause(ctx, probeEvery); err != nil {
			return 0, err
		}
	}
}
