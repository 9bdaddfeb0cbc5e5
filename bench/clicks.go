package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sluice/mail"
	"sluice/track/link"
)

const (
	clicksConns     = 256
	clicksSends     = 1000
	clicksSpan      = 5 * time.Second
	clicksSpanQuick = 2 * time.Second
	clicksRuns      = 3
	clicksLoad      = 0.8 // of what is answered at most, for the p99
	clicksBase      = "https://t.example.com"
	clicksTarget    = "https://shop.example.com/spring?utm_source=newsletter&utm_medium=email"
	clicksAgent     = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"
	clicksSecret    = "bench-secret-of-links-0123456789abcdef"
)

// What is promised.
const (
	wantVsStatic        = 0.6
	wantVsStaticStoring = 0.45
	wantClicksP99       = 0.025 // s
)

// runClicks is `sluice-bench clicks`.
func runClicks(ctx context.Context, r *run) (err error) {
	e, err := openEnv(ctx, r, true)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	r.report.Settings["connections"] = fmt.Sprintf("%d, kept open", clicksConns)
	r.report.Settings["static"] = "a handler of net/http that answers the same GIF and keeps nothing"
	for n := range pick(r, clicksRuns, 1) {
		if err := e.clicksStatic(ctx, n); err != nil {
			return fmt.Errorf("a static image: %w", err)
		}
		for _, storing := range []bool{false, true} {
			if err := e.clicksTaken(ctx, n, storing); err != nil {
				return fmt.Errorf("opens and clicks: %w", err)
			}
		}
	}
	r.report.divide("vs_static", "clicks_pixel", "clicks_static", wantVsStatic)
	r.report.divide("click_vs_static", "clicks_click", "clicks_static", wantVsStatic)
	r.report.divide("vs_static_storing", "clicks_storing", "clicks_static", wantVsStaticStoring)
	r.report.limit("p99_at_80_percent_s", "clicks_pixel_p99", wantClicksP99)
	return nil
}

// clicksStatic measures what answers and keeps nothing.
func (e *env) clicksStatic(ctx context.Context, n int) (err error) {
	pixel := []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")
	address, stop, err := serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/gif")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(pixel)
	}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := e.run.watchBusy(ctx); err != nil {
		return err
	}
	e.run.say("a static image over %d connections, run %d", clicksConns, n+1)
	request := visitRequest("/t/o/" + strings.Repeat("A", link.TokenBytes) + ".gif")
	g := e.clicksGenerator(address, 200, func(dst []byte) ([]byte, int) { return append(dst, request...), 1 })
	all, err := g.run(ctx)
	if err != nil {
		return err
	}
	e.run.report.add("clicks_static", "a static image", "1/s", float64(all.requests)/all.took.Seconds())
	_, err = e.clicksPaced(ctx, g, "clicks_static", "a static image")
	return err
}

// clicksPaced runs a generator at a part of what it reached, and notes the p99.
func (e *env) clicksPaced(ctx context.Context, g *generator, reached, label string) (answered int64, err error) {
	g.rate = int64(clicksLoad * e.run.report.last(reached))
	all, err := g.run(ctx)
	if err != nil {
		return 0, err
	}
	e.run.report.add(reached+"_p99", label+" at 80 % of that, p99", "s", percentile(all.latencies, 0.99))
	return all.requests, nil
}

func (e *env) clicksGenerator(address string, status int, next func([]byte) ([]byte, int)) *generator {
	return &generator{address: address, conns: clicksConns, span: pick(e.run, clicksSpan, clicksSpanQuick), next: next, done: wantStatus(status)}
}

func visitRequest(path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: t.example.com\r\nUser-Agent: " + clicksAgent + "\r\nAccept: image/*\r\n\r\n"
}

// clicksTaken measures opens and clicks. The process that is compared takes in
// alone, and the rows are written after the clock has stopped, as in httpSingle;
// storing: both at once.
func (e *env) clicksTaken(ctx context.Context, n int, storing bool) (err error) {
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx)); err != nil {
		return err
	}
	var answered int64
	if !storing {
		// It lives until all is stored: what went to a file while Redis was slow, it
		// brings back itself.
		alone, address, err := e.startTracking(ctx, "roles: [intake]")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, alone.stop()) }()
		if answered, err = e.clicksAlone(ctx, alone, address, n); err != nil {
			return err
		}
	}
	c, address, err := e.startTracking(ctx, "roles: [intake, store, send]")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if storing {
		requests, err := e.visits(ctx, c)
		if err != nil {
			return err
		}
		e.run.say("opens with the store at work, run %d", n+1)
		all, err := e.clicksGenerator(address, 200, inTurn(requests.pixels)).run(ctx)
		if err != nil {
			return errors.Join(err, c.dead())
		}
		answered = all.requests
		e.run.report.add("clicks_storing", "opens, the store at work on the same cores", "1/s", float64(all.requests)/all.took.Seconds())
	}
	return e.clicksStored(ctx, c, answered)
}

// clicksAlone measures a process that takes in alone: opens, clicks, and opens at
// a part of that load.
func (e *env) clicksAlone(ctx context.Context, c *child, address string, n int) (answered int64, err error) {
	requests, err := e.visits(ctx, c)
	if err != nil {
		return 0, err
	}
	steps := []struct {
		id, label string
		status    int
		requests  []string
	}{{"clicks_pixel", "opens", 200, requests.pixels}, {"clicks_click", "clicks", 302, requests.clicks}}
	if n%2 == 1 {
		slices.Reverse(steps)
	}
	for _, s := range steps {
		e.run.say("%s over %d connections, run %d", s.label, clicksConns, n+1)
		before, err := c.cpuTime()
		if err != nil {
			return 0, err
		}
		all, err := e.clicksGenerator(address, s.status, inTurn(s.requests)).run(ctx)
		if err != nil {
			return 0, errors.Join(err, c.dead())
		}
		after, err := c.cpuTime()
		if err != nil {
			return 0, err
		}
		answered += all.requests
		e.run.report.add(s.id, s.label+", durable before the answer", "1/s", float64(all.requests)/all.took.Seconds())
		e.run.report.add(s.id+"_cpu", s.label+", Sluice's computing", "µs", float64((after-before).Microseconds())/float64(all.requests))
	}
	paced, err := e.clicksPaced(ctx, e.clicksGenerator(address, 200, inTurn(requests.pixels)), "clicks_pixel", "opens")
	if err != nil {
		return 0, errors.Join(err, c.dead())
	}
	return answered + paced, nil
}

// clicksStored waits until all that was answered is in the database, and counts it
// there: each once.
func (e *env) clicksStored(ctx context.Context, c *child, want int64) error {
	for last, moved := int64(-1), time.Now(); ; {
		var rows, ids int64
		err := e.maria.handle().QueryRowContext(ctx, "SELECT COUNT(*), COUNT(DISTINCT event_id) FROM events WHERE name IN ('opened', 'clicked')").Scan(&rows, &ids)
		if err != nil {
			return fmt.Errorf("count opens and clicks: %w", err)
		}
		if rows != ids || rows > want {
			return fmt.Errorf("the run is void: %d opens and clicks with %d ids are stored, %d were answered", rows, ids, want)
		}
		if rows == want {
			return nil
		}
		if rows != last {
			last, moved = rows, time.Now()
		}
		if time.Since(moved) > stallWithin {
			return errors.Join(fmt.Errorf("the run is void: %d of %d opens and clicks that were answered are stored, and no more for %s", rows, want, stallWithin), c.dead())
		}
		if err := pause(ctx, countSlowly); err != nil {
			return err
		}
	}
}

// startTracking starts the program with a listener for opens and clicks.
func (e *env) startTracking(ctx context.Context, roles string) (*child, string, error) {
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	c, err := e.startSluice(ctx, e.maria, standard.settings, roles, httpBacklog, "secret: "+clicksSecret,
		fmt.Sprintf("track: {url: %q, listen: %q}", clicksBase, address))
	return c, address, err
}

// visited are the requests that people make who got a mail.
type visited struct{ pixels, clicks []string }

// visits hands in a message to many people, and makes the requests of its links.
func (e *env) visits(ctx context.Context, c *child) (v visited, err error) {
	to := make([]string, clicksSends)
	for i := range to {
		to[i] = fmt.Sprintf("p%d@example.com", i)
	}
	body, err := json.Marshal(map[string]any{"from": "us@example.org", "to": to, "subject": "News", "text": "Hello"})
	if err != nil {
		return v, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return v, err
	}
	request.Header.Set("Authorization", "Bearer "+benchRootKey)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http1.Do(request)
	if err != nil {
		return v, fmt.Errorf("hand in a message: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	var done struct{ Messages []struct{ ID string } }
	if err == nil {
		err = json.Unmarshal(text, &done)
	}
	if err != nil || len(done.Messages) != 1 {
		return v, fmt.Errorf("hand in a message: %s: %s: %w", answer.Status, text, err)
	}
	keys, err := link.NewKeys(clicksBase, []byte(clicksSecret))
	if err != nil {
		return v, err
	}
	for i, address := range to {
		place := link.Place{Partition: mail.SendPartition(address, e.run.partitions), Message: done.Messages[0].ID, Send: i, Link: 1}
		pixel, pixelErr := keys.Pixel(place)
		click, clickErr := keys.Click(place, clicksTarget)
		if err := errors.Join(pixelErr, clickErr); err != nil {
			return v, err
		}
		v.pixels = append(v.pixels, visitRequest(strings.TrimPrefix(pixel, clicksBase)))
		v.clicks = append(v.clicks, visitRequest(strings.TrimPrefix(click, clicksBase)))
	}
	return v, nil
}

// inTurn returns a next of a generator that takes requests in turn.
func inTurn(requests []string) func(dst []byte) ([]byte, int) {
	var taken atomic.Uint64
	return func(dst []byte) ([]byte, int) {
		return append(dst, requests[taken.Add(1)%uint64(len(requests))]...), 1
	}
}
