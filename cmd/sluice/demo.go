package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"sluice/api"
	"sluice/config"
	"sluice/engine"
	"sluice/flow"
)

const demoLong = `
Runs the program with its own Redis and SQLite, and beside it a producer that pushes
made-up mail events into the Redis list pepi_queue, a few of them broken. Shows what
is taken in and stored, live, until Ctrl-C or the end of --for, then what became of
every event that was pushed.

Only the flags below count: the demo reads neither sluice.yaml nor the environment,
so that it never pushes into a real server.
`

var demoFlags = []flagSpec{
	{name: "rate", value: "N", preset: "2000", help: "events a second", check: wholeNumber(1, 1_000_000)},
	{name: "for", value: "DURATION", help: "end by itself, such as 30s; without it at Ctrl-C", check: aDuration},
	{name: "data", value: "DIR", preset: "./sluice-data", help: "where Redis and SQLite keep their files"},
	{name: "listen", value: "ADDRESS", preset: "127.0.0.1:0", help: "address for /metrics and /readyz; port 0 takes a free one"},
}

// Bounds and times of the demo.
const (
	demoList         = "pepi_queue"
	demoTick         = 50 * time.Millisecond
	demoPushElements = 1000
	demoMaxWaiting   = 1_000_000 // the producer waits while the list is longer
	demoDrainPoll    = 20 * time.Millisecond
	demoDrainLimit   = 15 * time.Second
)

// demo is a run of the demo.
type demo struct {
	program *engine.Engine
	view    *demoView
	rate    int
	pushed  atomic.Int64 // by the producer
	waiting atomic.Int64 // in the list, as the view last saw it
	before  api.Stats    // the counters when the first event was pushed
	after   api.Stats    // and when the last was stored
}

func runDemo(ctx context.Context, c *call) error {
	cfg, err := c.demoConfig()
	if err != nil {
		return err
	}
	// The log goes to a file: on the terminal it would tear the view.
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w; choose another with --data", err)
	}
	logPath := filepath.Join(cfg.Data, "demo.log")
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the demo's log: %w; choose another directory with --data", err)
	}
	defer logFile.Close()
	d := &demo{rate: c.given.number("rate")}
	d.view = newDemoView(c.main.Stdout, d.rate)
	err = c.serve(ctx, cfg, logFile, func(ctx context.Context, e *engine.Engine) error {
		d.program = e
		return d.run(ctx, c)
	})
	if err != nil {
		return fmt.Errorf("%w; its log is %s", err, logPath)
	}
	return d.summary(c.main.Stdout, cfg, logPath)
}

// demoConfig is the configuration of the demo: the defaults, and one list.
func (c *call) demoConfig() (*config.Config, error) {
	return config.Load(config.Sources{
		SkipDefaultFile: true,
		Flags:           map[string]string{"data": c.given.text("data"), "listen": c.given.text("listen")},
		Defaults: func(cfg *config.Config) {
			cfg.Lists = []config.List{{Name: demoList, Take: config.TakeLeft, Dedupe: "event_id", AppID: "demo", Profile: true}}
		},
	})
}

// run is the demo beside the program: it ends by itself only with --for.
func (d *demo) run(ctx context.Context, c *call) error {
	// What an earlier run left behind is not ours to count.
	if err := d.await(ctx, func(s api.Stats) bool { return drained(s) && d.program.Ready() == nil }); err != nil {
		return nil // stopped before it began
	}
	d.before = d.program.Stats()
	d.after = d.before
	produceCtx, stop := context.WithCancel(ctx)
	defer stop()
	if limit := c.given.duration("for"); limit > 0 {
		end := time.AfterFunc(limit, stop)
		defer end.Stop()
	}
	produced := make(chan error, 1)
	go func() { produced <- d.produce(produceCtx) }()
	failed := d.watch(produceCtx, produced)

	// The producer has stopped; what is under way is waited for.
	drainCtx, cancel := context.WithTimeout(c.kill, demoDrainLimit)
	defer cancel()
	err := d.await(drainCtx, func(s api.Stats) bool { return d.missing(s) <= 0 })
	if err != nil && c.kill.Err() != nil {
		failed = errors.Join(failed, errors.New("ended before what was under way was stored"))
	}
	d.after = d.program.Stats()
	d.view.show(d.moved(d.after), d.pushed.Load(), time.Now())
	return failed
}

// watch draws until the producer has ended, and returns its error.
func (d *demo) watch(ctx context.Context, produced <-chan error) error {
	ticker := time.NewTicker(d.view.period())
	defer ticker.Stop()
	for {
		select {
		case err := <-produced:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case now := <-ticker.C:
			s := d.program.Stats()
			for _, l := range s.Lists {
				d.waiting.Store(l.Waiting)
			}
			d.view.show(d.moved(s), d.pushed.Load(), now)
		}
	}
}

// produce pushes events at the rate until ctx ends. A push that has begun is
// finished: cut off, nobody knew whether its events are in the list.
func (d *demo) produce(ctx context.Context) error {
	redis := d.program.Redis()
	var token [4]byte
	if _, err := rand.Read(token[:]); err != nil {
		return fmt.Errorf("draw a name for the run: %w", err)
	}
	g := newGenerator(uint64(time.Now().UnixNano()), hex.EncodeToString(token[:]))
	ticker := time.NewTicker(demoTick)
	defer ticker.Stop()
	owed, last := 0.0, time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			owed = min(owed+now.Sub(last).Seconds()*float64(d.rate), float64(d.rate))
			last = now
		}
		for owed >= 1 && ctx.Err() == nil && d.waiting.Load() < demoMaxWaiting {
			n := min(int(owed), demoPushElements)
			if err := push(redis, g.next(time.Now(), n)); err != nil {
				return err
			}
			d.pushed.Add(int64(n))
			owed -= float64(n)
		}
	}
}

func push(redis *flow.Redis, elements []string) error {
	return redis.Push(context.Background(), demoList, elements) // Push bounds itself
}

// await polls the counters until a condition holds or ctx ends.
func (d *demo) await(ctx context.Context, holds func(api.Stats) bool) error {
	ticker := time.NewTicker(demoDrainPoll)
	defer ticker.Stop()
	for {
		if holds(d.program.Stats()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// drained reports whether nothing waits in the lists or the logs.
func drained(s api.Stats) bool {
	for _, l := range s.Lists {
		if l.Waiting != 0 {
			return false
		}
	}
	for _, f := range s.Followers {
		if f.LagItems > 0 || (f.LagItems < 0 && f.Name == config.RoleStore) {
			return false
		}
	}
	return true
}

// moved returns how far the counters have moved since the first push.
func (d *demo) moved(s api.Stats) api.Stats {
	s.Accepted -= d.before.Accepted
	s.Stored -= d.before.Stored
	s.Duplicates -= d.before.Duplicates
	s.Dead -= d.before.Dead
	return s
}

// missing is how many pushed events are neither stored nor dead yet.
func (d *demo) missing(s api.Stats) int64 {
	m := d.moved(s)
	return d.pushed.Load() - m.Stored - m.Dead - m.Duplicates
}

// summary says what became of every event. That the sum comes out is the point
// of the program, so a sum that does not is a failure.
func (d *demo) summary(w io.Writer, cfg *config.Config, logPath string) error {
	m, missing := d.moved(d.after), d.missing(d.after)
	data := cfg.Data
	fmt.Fprintf(w, "\npushed %s = stored %s + dead %s + waiting %s\n\n", grouped(d.pushed.Load()), grouped(m.Stored), grouped(m.Dead), grouped(max(0, missing)))
	fmt.Fprintf(w, "What waits is stored by the next start on the same data. To look further:\n\n"+
		"  sluice dead list --data %[1]s\n"+
		"  sqlite3 %[2]s 'SELECT name, COUNT(*) FROM events GROUP BY name'\n"+
		"  less %[3]s\n", data, filepath.Join(data, "sluice.db"), logPath)
	if m.Duplicates > 0 {
		return fmt.Errorf("%d events were taken for repeats, and none was pushed twice: please report this with %s", m.Duplicates, logPath)
	}
	if missing < 0 || (missing > 0 && drained(d.after)) {
		return fmt.Errorf("the sum is off by %d events: please report this with %s", missing, logPath)
	}
	return nil
}
