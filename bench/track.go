package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"sluice/bench/baseline"
)

// The parts of `bench track`.
const (
	partCalls   = "calls"   // calls of one event, beside the naive handler and calls of nothing
	partObjects = "objects" // calls of 75 objects, and the store behind them
)

var trackParts = []string{partCalls, partObjects}

const (
	trackUsers       = 10_000
	trackCalls       = 100_000
	trackCallsQuick  = 20_000
	trackNaive       = 30_000
	trackNaiveQuick  = 5_000
	trackConns       = 32
	trackObjects     = 75
	trackObjectConns = 16
	trackPace        = 880 // calls a second: 66,000 objects
	trackSpan        = 10 * time.Second
	trackSpanQuick   = 3 * time.Second
	trackRuns        = 3
	trackAnswer      = 201
	trackPath        = "/users/track"
)

// What is promised.
const (
	wantVsNaive           = 10
	wantObjects           = 60_000 // a second
	wantTrackDelay        = 2      // s, from the last answer to the last write
	wantStatementsPerCall = 100    // of 1,000 calls
)

// runTrack is `sluice-bench track`.
func runTrack(ctx context.Context, r *run) (err error) {
	e, err := openEnv(ctx, r, true)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	r.report.Settings["users"] = fmt.Sprintf("%d, of some 300 bytes, made before", trackUsers)
	if r.does(partCalls) {
		for i := range pick(r, trackRuns, 1) {
			if err := errors.Join(e.trackNaive(ctx, i), e.trackCalls(ctx, i)); err != nil {
				return fmt.Errorf("%s: %w", partCalls, err)
			}
		}
		r.report.divide("vs_naive", "track_calls", "naive_calls", wantVsNaive)
		r.report.divide("empty_vs_naive", "track_empty", "naive_calls", 0)
		r.report.limit("statements_per_1000_calls", "track_statements", wantStatementsPerCall)
	}
	if r.does(partObjects) {
		for i := range pick(r, trackRuns, 1) {
			if err := errors.Join(e.trackObjects(ctx, i, 0), e.trackObjects(ctx, i, trackPace)); err != nil {
				return fmt.Errorf("%s: %w", partObjects, err)
			}
		}
		r.report.judge(target{ratio: "objects_per_s", value: wantObjects}, r.report.value("track_objects"))
		r.report.judge(target{ratio: "objects_paced_per_s", value: wantObjects}, r.report.value("paced_objects"))
		r.report.limit("objects_delay_s", "paced_delay", wantTrackDelay)
	}
	return nil
}

// trackSource makes calls. Users come by chance, evenly, the same in each run.
type trackSource struct{ taken atomic.Int64 }

func trackUser(i int64) string { return "user-" + strconv.FormatInt(i, 10) }

// someUser is the user of the n-th object.
func someUser(n int64) int64 {
	return int64(rand.New(rand.NewPCG(elementSeed, uint64(n))).IntN(trackUsers))
}

// trackAttributes are what a user has before: some 300 bytes as a profile.
func trackAttributes(i int64) string {
	return fmt.Sprintf(`"first_name":"First%d","last_name":"Last%d","email":"user%d@example.com","country":"DE","language":"de","plan":"gold","visits":%d,"score":%d.5,"city":"Hamburg","newsletter":true,"tags":["a","b","c"],"member_since":"2024-05-01T00:00:00Z"`, i, i, i, i%977, i%89)
}

// one appends a call of one event.
func (s *trackSource) one(dst []byte) ([]byte, int) {
	n := s.taken.Add(1)
	dst, patch := openRequest(dst, trackPath)
	dst = appendTrackEvent(append(dst, `{"events":[`...), n)
	dst = append(dst, `]}`...)
	patch(dst)
	return dst, 1
}

func appendTrackEvent(dst []byte, n int64) []byte {
	dst = append(append(append(dst, `{"external_id":"`...), trackUser(someUser(n))...), `","app_id":"shop","name":"opened_article","time":"`...)
	dst = time.UnixMilli(elementsBegin+n).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	return append(strconv.AppendInt(append(dst, `","properties":{"section":"sport","position":`...), n%97, 10), `}}`...)
}

// many appends a call of 75 objects, a third of each kind.
func (s *trackSource) many(dst []byte) ([]byte, int) {
	const each = trackObjects / 3
	first := s.taken.Add(1) * trackObjects
	dst, patch := openRequest(dst, trackPath)
	for kind, array := range []string{`{"attributes":[`, `],"events":[`, `],"purchases":[`} {
		dst = append(dst, array...)
		for i := range int64(each) {
			if i > 0 {
				dst = append(dst, ',')
			}
			n := first + int64(kind)*each + i
			switch kind {
			case 0:
				dst = append(append(append(dst, `{"external_id":"`...), trackUser(someUser(n))...), `","visits":{"inc":1},"plan":"silver","score":`...)
				dst = append(strconv.AppendInt(dst, n%1000, 10), '}')
			case 1:
				dst = appendTrackEvent(dst, n)
			default:
				dst = append(append(append(dst, `{"external_id":"`...), trackUser(someUser(n))...), `","app_id":"shop","product_id":"sku-1","currency":"EUR","price":9.5,"time":"`...)
				dst = time.UnixMilli(elementsBegin+n).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
				dst = append(dst, `"}`...)
			}
		}
	}
	dst = append(dst, `]}`...)
	patch(dst)
	return dst, trackObjects
}

// trackNaive measures the handler that is written first.
func (e *env) trackNaive(ctx context.Context, n int) (err error) {
	if err := errors.Join(e.maria.fresh(ctx), e.run.watchBusy(ctx)); err != nil {
		return err
	}
	t, err := baseline.NewTracker(ctx, e.maria.handle())
	if err != nil {
		return err
	}
	for i := range int64(trackUsers) {
		if err := t.Add(ctx, trackUser(i), "{"+trackAttributes(i)+"}"); err != nil {
			return fmt.Errorf("add user %d: %w", i, err)
		}
	}
	address, stop, err := serve(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	e.run.say("calls of one event, each read, changed and committed, run %d", n+1)
	all, err := e.runCalls(ctx, address, int64(pick(e.run, trackNaive, trackNaiveQuick)))
	if err != nil {
		return err
	}
	e.run.report.add("naive_calls", "calls of one event, each read, changed, committed", "1/s", float64(all.requests)/all.took.Seconds())
	return e.checkTracked(ctx, "SELECT SUM(JSON_VALUE(profile, '$.events.opened_article.count')) FROM naive_users", all.requests)
}

// runCalls sends so many calls of one event.
func (e *env) runCalls(ctx context.Context, address string, calls int64) (generated, error) {
	source := &trackSource{}
	g := generator{address: address, conns: trackConns, span: time.Hour, done: wantStatus(trackAnswer), next: source.one, most: calls}
	return g.run(ctx)
}

// startTracked starts Sluice with its users made.
func (e *env) startTracked(ctx context.Context, more ...string) (*child, error) {
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx), e.run.watchBusy(ctx)); err != nil {
		return nil, err
	}
	c, err := e.startSluice(ctx, e.maria, standard.settings, more...)
	if err != nil {
		return nil, err
	}
	var made atomic.Int64
	g := generator{address: strings.TrimPrefix(c.base, "http://"), conns: 4, span: time.Hour, done: wantStatus(trackAnswer), most: trackUsers / 50,
		next: func(dst []byte) ([]byte, int) {
			dst, patch := openRequest(dst, trackPath)
			dst = append(dst, `{"attributes":[`...)
			first := (made.Add(1) - 1) * 50
			for i := first; i < first+50; i++ {
				if i > first {
					dst = append(dst, ',')
				}
				dst = fmt.Appendf(dst, `{"external_id":"%s",%s}`, trackUser(i), trackAttributes(i))
			}
			dst = append(dst, `]}`...)
			patch(dst)
			return dst, 50
		}}
	if _, err := g.run(ctx); err != nil {
		return nil, errors.Join(err, c.dead(), c.kill())
	}
	if err := c.await(ctx, storedUpdates, trackUsers); err != nil {
		return nil, errors.Join(err, c.kill())
	}
	return c, nil
}

// trackCalls measures the same calls, and calls of nothing.
func (e *env) trackCalls(ctx context.Context, n int) (err error) {
	c, err := e.startTracked(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	e.run.say("the same by Sluice, run %d", n+1)
	before, err := e.maria.questions(ctx)
	if err != nil {
		return err
	}
	computed, err := e.cpuTimes(c)
	if err != nil {
		return err
	}
	started := time.Now()
	all, err := e.runCalls(ctx, strings.TrimPrefix(c.base, "http://"), int64(pick(e.run, trackCalls, trackCallsQuick)))
	if err != nil {
		return errors.Join(err, c.dead())
	}
	if err := c.await(ctx, storedUpdates, trackUsers+all.requests); err != nil {
		return err
	}
	stored := time.Since(started)
	after, err := e.maria.questions(ctx)
	if err != nil {
		return err
	}
	r := e.run.report
	cpu, err := e.cpuTimes(c)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(cpu)) {
		r.add("track_cpu_"+strings.ToLower(name), "computing of "+name+" for a call, until it is written", "µs", float64((cpu[name]-computed[name]).Microseconds())/float64(all.requests))
	}
	r.add("track_calls", "the same by Sluice, durable", "1/s", float64(all.requests)/all.took.Seconds())
	r.add("track_p99", "answer to a call, p99", "s", percentile(all.latencies, 0.99))
	r.add("track_stored", "the same, from the first call to the last write", "1/s", float64(all.requests)/stored.Seconds())
	r.add("track_statements", "statements of the database in 1,000 calls", "", float64(after-before)*1000/float64(all.requests))
	if err := e.checkTracked(ctx, "SELECT SUM(JSON_VALUE(profile, '$.events.opened_article[0]')) FROM users", all.requests); err != nil {
		return err
	}
	empty := generator{address: strings.TrimPrefix(c.base, "http://"), conns: trackConns, span: pick(e.run, trackSpanQuick, time.Second), done: wantStatus(httpPingAnswer),
		next: func(dst []byte) ([]byte, int) { return append(dst, httpPingRequest...), 1 }}
	if all, err = empty.run(ctx); err != nil {
		return err
	}
	r.add("track_empty", "calls of nothing (204), as many connections", "1/s", float64(all.requests)/all.took.Seconds())
	return nil
}

// trackObjects measures calls of 75 objects. It sends as many as are answered
// (the rate of acceptance, whatever is pending then). Or it sends so many a
// second (the rate that the store keeps up with).
func (e *env) trackObjects(ctx context.Context, n int, rate int64) (err error) {
	c, err := e.startTracked(ctx, httpBacklog)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	name, what := "track", "objects accepted, 75 a call"
	if rate > 0 {
		name, what = "paced", "the same, 880 calls a second"
	}
	e.run.say("%s, %d connections, run %d", what, trackObjectConns, n+1)
	source := &trackSource{}
	g := generator{address: strings.TrimPrefix(c.base, "http://"), conns: trackObjectConns, span: pick(e.run, trackSpan, trackSpanQuick), done: wantStatus(trackAnswer), next: source.many, rate: rate}
	all, err := g.run(ctx)
	if err != nil {
		return errors.Join(err, c.dead())
	}
	ended := time.Now()
	if err := c.await(ctx, storedUpdates, trackUsers+all.items); err != nil {
		return err
	}
	r := e.run.report
	r.add(name+"_objects", what, "1/s", float64(all.items)/all.took.Seconds())
	r.add(name+"_objects_p99", what+", answer, p99", "s", percentile(all.latencies, 0.99))
	r.add(name+"_delay", what+", from the last answer to the last write", "s", time.Since(ended).Seconds())
	e.run.say("%s objects/s accepted, written %s s after the last answer", number(float64(all.items)/all.took.Seconds()), number(time.Since(ended).Seconds()))
	want := all.requests * trackObjects / 3
	return errors.Join(
		e.checkTracked(ctx, "SELECT SUM(JSON_VALUE(profile, '$.events.opened_article[0]')) FROM users", want),
		e.checkTracked(ctx, "SELECT SUM(JSON_VALUE(profile, '$.purchases.\"sku-1\"[0]')) FROM users", want),
		e.checkTracked(ctx, "SELECT SUM(JSON_VALUE(profile, '$.custom.visits')) - "+strconv.Itoa(trackVisits())+" FROM users", want))
}

// trackVisits is the sum of what the users have before.
func trackVisits() (sum int) {
	for i := range trackUsers {
		sum += i % 977
	}
	return sum
}

// checkTracked fails unless all was counted, once.
func (e *env) checkTracked(ctx context.Context, query string, want int64) error {
	var got float64
	if err := e.maria.handle().QueryRowContext(ctx, query).Scan(&got); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	if int64(got) != want {
		return fmt.Errorf("%s is %.0f, want %d", query, got, want)
	}
	return nil
}

// questions is how many statements clients have sent to the database.
func (s *mariaStore) questions(ctx context.Context) (n int64, err error) {
	var name string
	if err := s.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
		return 0, fmt.Errorf("count the database's statements: %w", err)
	}
	return n, nil
}

// serve serves a handler in this process.
func serve(ctx context.Context, h http.Handler) (address string, stop func() error, err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen for the old design: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: dialWithin}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }() // ends with Close
	return l.Addr().String(), func() error {
		err := server.Close()
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	}, nil
}
