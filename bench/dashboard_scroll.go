package bench

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// `bench dashboard`, scroll: the list of mails with a hundred thousand rows, which no
// server gives at once: the browser is handed them in the place of the answer.
const (
	scrolledRows      = 100_000
	scrolledSpeed     = 4_000 // pixels a second, as a wheel that is turned fast
	scrolledSpan      = 10 * time.Second
	scrolledSpanQuick = 2 * time.Second
	leastFrames       = 20 // a second

	wantFrameP95Millis = 10 // of the main thread
)

// sendsOf are so many mails, as /v1/sends shows them.
func sendsOf(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"sends":[`)
	states := []string{"sent", "waiting", "failed", "suppressed", "in_doubt", "cancelled"}
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		x := at(int64(i))
		fmt.Fprintf(&b, `{"send":"0190f1d2-0000-7000-8000-%012x/0","message":"0190f1d2-0000-7000-8000-%012x","to":"%s","from":"shop@example.com","state":"%s","class":"marketing","priority":"normal","tags":"spring,week-%d","attempts":1,"accepted":"2026-01-31T10:%02d:%02d.000Z","updated":"2026-01-31T10:20:31.000Z","reply":"250 2.0.0 Ok: queued as %08X","life":[]}`,
			i, i, x.appendEmail(nil), states[mix(uint64(i))%uint64(len(states))], i%52, i/60%60, i%60, uint32(mix(uint64(i))))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// scrollList scrolls the list of mails, by a wheel and by jumps.
func (e *env) scrollList(ctx context.Context, browser *chromium) (err error) {
	r := e.run.report
	r.Settings["scroll"] = fmt.Sprintf("%d mails in the list of mails, by a wheel at %d pixels/s, and to another place in each frame", scrolledRows, scrolledSpeed)
	c, p, _, err := e.startViewed(ctx, browser)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := p.do(ctx, "Fetch.enable", map[string]any{"patterns": []any{map[string]any{"urlPattern": "*/v1/sends?*"}}}, nil); err != nil {
		return err
	}
	e.run.say("a list of %d rows", scrolledRows)
	if err := p.do(ctx, "Page.navigate", map[string]any{"url": c.base + "/messages"}, nil); err != nil {
		return err
	}
	var paused struct {
		RequestID string `json:"requestId"`
	}
	if err := p.event(ctx, "Fetch.requestPaused", &paused); err != nil {
		return err
	}
	err = p.do(ctx, "Fetch.fulfillRequest", map[string]any{
		"requestId": paused.RequestID, "responseCode": 200, "responseHeaders": []any{map[string]any{"name": "Content-Type", "value": "application/json"}},
		"body": base64.StdEncoding.EncodeToString(sendsOf(scrolledRows)),
	}, nil)
	if err != nil {
		return err
	}
	if err := p.await(ctx, fmt.Sprintf(`document.querySelector('table[aria-rowcount="%d"]')`, scrolledRows+1)); err != nil {
		return err
	}
	span := pick(e.run, scrolledSpan, scrolledSpanQuick)
	for _, way := range []struct {
		id, label string
		move      func() error
	}{
		{"wheel", "scrolled by a wheel", func() error {
			return p.do(ctx, "Input.synthesizeScrollGesture", map[string]any{"x": 600, "y": 600, "yDistance": -scrolledSpeed * span.Seconds(), "speed": scrolledSpeed, "gestureSourceType": "mouse"}, nil)
		}},
		{"jumps", "to another place in each frame", func() error {
			return p.evaluate(ctx, fmt.Sprintf(`new Promise((done) => {
  const list = document.querySelector(".table-wrap.tall"), end = performance.now() + %d;
  let n = 0;
  const step = () => { list.scrollTop = (n++ * 7919 %% 9973) / 9973 * list.scrollHeight; performance.now() < end ? requestAnimationFrame(step) : done(n); };
  requestAnimationFrame(step);
})`, span.Milliseconds()), nil)
		}},
	} {
		frames, err := p.frames(ctx, way.move)
		if err != nil {
			return fmt.Errorf("%s: %w", way.label, err)
		}
		if len(frames) < int(leastFrames*span.Seconds()) {
			return fmt.Errorf("the run is void: %d frames in %s", len(frames), span)
		}
		r.add("scroll_"+way.id+"_frames", "a list of 100,000 rows, "+way.label+", frames", "1/s", float64(len(frames))/span.Seconds())
		for _, share := range []float64{0.5, 0.95, 0.99} {
			r.add(fmt.Sprintf("scroll_%s_p%.0f", way.id, 100*share), fmt.Sprintf("%s, main thread of a frame, p%.0f", way.label, 100*share), "s", percentile(frames, share))
		}
		top := 0.0
		if err := p.evaluate(ctx, `document.querySelector(".table-wrap.tall").scrollTop`, &top); err != nil || top == 0 {
			return fmt.Errorf("the run is void: the list was not scrolled: %w", err)
		}
	}
	return nil
}

// traced is an event of a trace; times in microseconds.
type traced struct {
	Name string  `json:"name"`
	TS   float64 `json:"ts"`
	Dur  float64 `json:"dur"`
	PID  int     `json:"pid"`
	TID  int     `json:"tid"`
	Args struct {
		Name string `json:"name"`
	} `json:"args"`
}

// frames traces the browser while something moves, and returns how long the page's main
// thread worked in each frame: all of its tasks from one begin of a frame to the next.
func (p *page) frames(ctx context.Context, move func() error) ([]latency, error) {
	browser := &page{p.chromium, ""}
	err := browser.do(ctx, "Tracing.start", map[string]any{"transferMode": "ReportEvents", "traceConfig": map[string]any{
		"includedCategories": []string{"devtools.timeline", "disabled-by-default-devtools.timeline", "devtools.timeline.frame", "disabled-by-default-devtools.timeline.frame"},
	}}, nil)
	if err != nil {
		return nil, err
	}
	if err = errors.Join(move(), browser.do(ctx, "Tracing.end", nil, nil)); err != nil {
		return nil, err
	}
	var all []traced
	for done := false; !done; {
		select {
		case m := <-p.events:
			var piece struct{ Value []traced }
			switch m.Method {
			case "Tracing.dataCollected":
				err = json.Unmarshal(m.Params, &piece)
				all = append(all, piece.Value...)
			case "Tracing.tracingComplete":
				done = true
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	return framesOf(all), nil
}

// framesOf sums the tasks of the busiest main thread of a page, frame by frame.
func framesOf(all []traced) []latency {
	type thread struct{ pid, tid int }
	mains, busy := make(map[thread]bool), make(map[thread]float64)
	for _, x := range all {
		if t := (thread{x.PID, x.TID}); x.Name == "thread_name" && x.Args.Name == "CrRendererMain" {
			mains[t] = true
		} else if x.Name == "RunTask" {
			busy[t] += x.Dur
		}
	}
	var page thread
	for t := range mains {
		if busy[t] >= busy[page] {
			page = t
		}
	}
	slices.SortStableFunc(all, func(a, b traced) int { return int(a.TS - b.TS) })
	var frames []latency
	for _, x := range all {
		switch {
		case thread{x.PID, x.TID} != page:
		case x.Name == "BeginMainThreadFrame":
			frames = append(frames, latency{0, 1})
		case x.Name == "RunTask" && len(frames) > 0:
			frames[len(frames)-1].seconds += x.Dur / 1e6
		}
	}
	return frames
}
