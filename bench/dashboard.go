package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// dashboardName is the bench of what the dashboard costs browser and server.
const dashboardName = "dashboard"

// The parts of `bench dashboard`.
const (
	partOverview = "overview" // the first page, while events come in
	partScroll   = "scroll"   // the longest list
)

var dashboardParts = []string{partOverview, partScroll}

// `bench dashboard`, overview: the page stands open in a browser while events come in,
// and other viewers come and go.
const (
	viewedMinutes    = 10
	viewedQuick      = 24 * time.Second
	viewedRate       = 50_000 // events a second
	viewedPhase      = 10 * time.Second
	viewedPhaseQuick = 2 * time.Second
	viewedWarm       = 20 * time.Second // before the first sample: what is compiled and cached then stays
	viewedWarmQuick  = 4 * time.Second
	viewers          = 31 // an account has 32 streams at a time: these, and the page
	viewerName       = "bench@example.com"
	viewerPassword   = "bench password of a viewer"

	wantUpdateP99 = 1.5  // s between two updates of the page
	wantGrowth    = 1.02 // of the last quarter to the one before: what is compiled and cached at first stays
	wantRateKept  = 0.98

	wantViewerPercent = 2 // of a core
)

// runDashboard is `sluice-bench dashboard`.
func runDashboard(ctx context.Context, r *run) (err error) {
	if err := r.goOn(); err != nil {
		return err
	}
	e, err := openEnv(ctx, r, true)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	browser, err := e.openChromium(ctx)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func(context.Context, *chromium) error
	}{{partScroll, e.scrollList}, {partOverview, e.viewOverview}} {
		if !r.does(part.name) {
			continue
		}
		if err := part.run(ctx, browser); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	r.report.judge(target{ratio: "overview_rate", value: wantRateKept}, r.report.value("overview_rate")/viewedRate)
	r.report.limit("overview_update_p99_s", "overview_update_p99", wantUpdateP99)
	r.report.judge(target{ratio: "overview_heap_growth", below: true, value: wantGrowth}, r.report.growth("overview_heap"))
	r.report.judge(target{ratio: "overview_nodes_growth", below: true, value: wantGrowth}, r.report.growth("overview_nodes"))
	// In percent and ms: figures are kept to the thousandth.
	r.report.judge(target{ratio: "overview_viewer_percent", below: true, value: wantViewerPercent}, 100*r.report.value("overview_viewer"))
	r.report.judge(target{ratio: "scroll_wheel_p95_ms", below: true, value: wantFrameP95Millis}, 1000*r.report.value("scroll_wheel_p95"))
	return nil
}

// growth is the last quarter of a row's runs to the one before, NaN if there are too few.
func (r *report) growth(id string) float64 {
	for _, x := range r.Rows {
		if n := len(x.Runs); x.ID == id && n >= 4 {
			return median(x.Runs[n-n/4:]) / median(x.Runs[n-n/4*2:n-n/4])
		}
	}
	return math.NaN()
}

// startViewed starts the program with an account, and opens the dashboard signed in.
func (e *env) startViewed(ctx context.Context, browser *chromium) (c *child, p *page, cookie string, err error) {
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx), e.run.watchBusy(ctx)); err != nil {
		return nil, nil, "", err
	}
	if c, err = e.startSluice(ctx, e.maria, standard.settings, httpBacklog); err != nil {
		return nil, nil, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if _, err = c.post(ctx, "/v1/accounts", `{"name":"`+viewerName+`","role":"viewer","password":"`+viewerPassword+`"}`, "Authorization", "Bearer "+benchRootKey); err != nil {
		return nil, nil, "", err
	}
	const signIn = `{"name":"` + viewerName + `","password":"` + viewerPassword + `"}`
	answer, err := c.post(ctx, "/v1/session", signIn, "Origin", c.base)
	if err != nil {
		return nil, nil, "", err
	}
	cookie, _, _ = strings.Cut(answer.Get("Set-Cookie"), ";")
	if p, err = browser.open(ctx); err != nil {
		return nil, nil, "", err
	}
	name, value, _ := strings.Cut(cookie, "=")
	err = p.do(ctx, "Network.setCookie", map[string]any{"name": name, "value": value, "url": c.base, "httpOnly": true}, nil)
	return c, p, cookie, err
}

// post sends JSON, with a header, and returns that of a good answer.
func (c *child) post(ctx context.Context, path, body, header, value string) (http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(header, value)
	answer, err := http1.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("post %s: %s: %.200s", path, answer.Status, text)
	}
	return answer.Header, err
}

// watchUpdates notes in the page when the overview's counts change.
const watchUpdates = `(() => {
  const at = [...document.querySelectorAll("dt")].find((e) => e.textContent === "Items").parentElement;
  let last = at.textContent;
  globalThis.updates = [];
  new MutationObserver(() => {
    if (at.textContent === last) return;
    last = at.textContent;
    updates.push(performance.now());
  }).observe(at, { subtree: true, childList: true, characterData: true });
})()`

// viewOverview has events come in at viewedRate, looks at the page, and has further
// viewers come and go.
func (e *env) viewOverview(ctx context.Context, browser *chromium) (err error) {
	span := pick(e.run, viewedMinutes*time.Minute, viewedQuick)
	if e.run.minutes > 0 {
		span = time.Duration(e.run.minutes) * time.Minute
	}
	r := e.run.report
	r.Settings["overview"] = fmt.Sprintf("%s at %d events/s; %d further viewers in every other %s", span, viewedRate, viewers, pick(e.run, viewedPhase, viewedPhaseQuick))
	c, p, cookie, err := e.startViewed(ctx, browser)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	source := &eventSource{each: httpBatchItems}
	g := generator{address: strings.TrimPrefix(c.base, "http://"), conns: httpBatchConns, span: span, rate: viewedRate / httpBatchItems, next: source.next, done: wantStatus(httpEventsAnswer)}
	e.run.say("the overview for %s at %d events/s", span, viewedRate)
	group, groupCtx := errgroup.WithContext(ctx)
	var all generated
	group.Go(func() (err error) {
		all, err = g.run(groupCtx)
		return err
	})
	group.Go(func() error { return e.lookOn(groupCtx, c, p, cookie, time.Now().Add(span)) })
	if err := group.Wait(); err != nil {
		return errors.Join(err, c.dead())
	}
	r.add("overview_rate", "events accepted meanwhile", "events/s", float64(all.items)/all.took.Seconds())
	if err := c.awaitStored(ctx, source.elements().count); err != nil {
		return err
	}
	var times []float64
	if err := p.evaluate(ctx, "updates", &times); err != nil {
		return err
	}
	var gaps []latency
	for i := 1; i < len(times); i++ {
		gaps = append(gaps, latency{(times[i] - times[i-1]) / 1000, 1})
	}
	if len(gaps) == 0 {
		return errors.New("the run is void: the overview did not change")
	}
	r.add("overview_update_p50", "between two updates of the overview, median", "s", percentile(gaps, 0.5))
	r.add("overview_update_p99", "between two updates of the overview, p99", "s", percentile(gaps, 0.99))
	return nil
}

// lookOn opens the overview and samples, until a time: the page's memory after a garbage
// collection, and the server's computing with and without further viewers, in turns.
func (e *env) lookOn(ctx context.Context, c *child, p *page, cookie string, until time.Time) error {
	if err := p.do(ctx, "Page.navigate", map[string]any{"url": c.base + "/"}, nil); err != nil {
		return err
	}
	if err := p.await(ctx, `[...document.querySelectorAll("dt")].some((e) => e.textContent === "Items")`); err != nil {
		return err
	}
	if err := pause(ctx, pick(e.run, viewedWarm, viewedWarmQuick)); err != nil {
		return err
	}
	if err := p.evaluate(ctx, watchUpdates, nil); err != nil {
		return err
	}
	phase := pick(e.run, viewedPhase, viewedPhaseQuick)
	for time.Until(until) > 2*phase {
		alone, err := e.cores(ctx, c, "", phase)
		if err != nil {
			return err
		}
		watched, err := e.cores(ctx, c, cookie, phase)
		if err != nil {
			return err
		}
		megabytes, elements, err := p.memory(ctx)
		if err != nil {
			return err
		}
		r := e.run.report
		r.add("overview_cores_alone", "Sluice's computing, one viewer", "cores", alone)
		r.add("overview_cores_watched", fmt.Sprintf("Sluice's computing, %d viewers", viewers+1), "cores", watched)
		r.add("overview_viewer", "Sluice's computing for a viewer", "cores", (watched-alone)/viewers)
		r.add("overview_heap", "the page's heap after a garbage collection", "MB", megabytes)
		r.add("overview_nodes", "the page's nodes", "1", elements)
	}
	return nil
}

// cores is how much the server computes within a time, with further viewers if there is
// a cookie for them.
func (e *env) cores(ctx context.Context, c *child, cookie string, within time.Duration) (float64, error) {
	viewing, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	counts := make([]int, viewers)
	if cookie != "" {
		for i := range counts {
			group.Go(func() (err error) {
				counts[i], err = c.view(viewing, cookie)
				return err
			})
		}
	}
	before, err := c.cpuTime()
	started := time.Now()
	err = errors.Join(err, pause(ctx, within))
	after, cpuErr := c.cpuTime()
	took := time.Since(started)
	stop()
	if err = errors.Join(err, cpuErr, group.Wait()); err != nil {
		return math.NaN(), err
	}
	for _, n := range counts {
		if cookie != "" && n < int(within/time.Second) {
			return math.NaN(), fmt.Errorf("the run is void: a viewer got %d overviews in %s", n, within)
		}
	}
	return (after - before).Seconds() / took.Seconds(), nil
}

// view reads the overview as the page does, until ctx ends, and counts.
func (c *child) view(ctx context.Context, cookie string) (n int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/v1/overview/stream", nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Cookie", cookie)
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("view the overview: %s", answer.Status)
	}
	for in := bufio.NewScanner(answer.Body); in.Scan(); {
		if text, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			var overview struct{ Accepted int64 }
			if err := json.Unmarshal([]byte(text), &overview); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

// memory is what the page holds after a garbage collection.
func (p *page) memory(ctx context.Context) (megabytes, nodes float64, err error) {
	var heap struct {
		UsedSize float64 `json:"usedSize"`
	}
	var dom struct {
		Nodes float64 `json:"nodes"`
	}
	err = errors.Join(
		p.do(ctx, "HeapProfiler.collectGarbage", nil, nil),
		p.do(ctx, "Runtime.getHeapUsage", nil, &heap),
		p.do(ctx, "Memory.getDOMCounters", nil, &dom))
	return heap.UsedSize / 1e6, dom.Nodes, err
}
