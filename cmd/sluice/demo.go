package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/api"
	"sluice/config"
	"sluice/engine"
	"sluice/flow"
	"sluice/lib/filelock"
)

const demoLong = `
Shows the whole product, with its own Redis and SQLite in a directory of its own: made-up
people, the three journeys of docs/journeys.md, and what these people do. They sign up,
fill carts and order: at --rate events a second, pushed into the Redis list shop_events, a
few of them broken. Mail goes into built-in mailboxes, whose owners open it, click in it,
complain of it, leave, and have it come back. Who clicks orders more often. The screen
shows people moving until Ctrl-C or the end of --for, then what became of every event that
was pushed.

What takes the journeys an hour takes a second here; their times of day are left out.

DIR is emptied at each start if an earlier demo made it; else it must be empty. The demo
ends by itself when its database has 4 GB, at the preset rate after two hours. Only the
flags below count: the demo reads neither sluice.yaml nor the environment, so that it
never pushes into a real server.
`

var demoFlags = []flagSpec{
	{name: "people", value: "N", preset: "100000", help: "how many people are made up", check: wholeNumber(100, 1_000_000)},
	{name: "seed", value: "N", preset: "1", help: "another number makes up other people", check: wholeNumber(1, 1_000_000)},
	{name: "rate", value: "N", preset: "500", help: "events a second", check: wholeNumber(1, 1_000_000)},
	{name: "for", value: "DURATION", help: "end by itself, such as 30s; without it at Ctrl-C", check: aDuration},
	{name: "data", value: "DIR", preset: "./sluice-demo", help: "where Redis and SQLite keep their files"},
	{name: "listen", value: "ADDRESS", preset: demoListen, help: "address of the API; port 0 takes a free one"},
}

// Bounds and times of the demo.
const (
	demoListen       = "127.0.0.1:8019"
	demoList         = "shop_events"
	demoTick         = 50 * time.Millisecond
	demoPushElements = 1000
	demoMaxWaiting   = 1_000_000 // the producer waits while the list is longer
	demoMaxBytes     = 4 << 30   // of the database: the demo ends beyond it
	demoDrainPoll    = 20 * time.Millisecond
	demoDrainLimit   = time.Minute
)

// demo is a run of the demo.
type demo struct {
	program  *engine.Engine
	cfg      *config.Config
	view     *demoView
	shop     *shop
	watched  *watchedMail
	journeys []demoJourney
	key      string // of the API
	link     string // to the dashboard
	rate     int
	pushed   atomic.Int64 // by the producer
	waiting  atomic.Int64 // in the list, as the view last saw it
	before   api.Stats    // the counters when the first event was pushed
	after    api.Stats    // and when the last was stored
}

func runDemo(ctx context.Context, c *call) error {
	cfg, err := c.demoConfig()
	if err != nil {
		return err
	}
	lock, err := takeDemoDirectory(cfg.Data)
	if err != nil {
		return err
	}
	defer lock.Close()
	// The log goes to a file: on the terminal it would tear the view.
	logPath := filepath.Join(cfg.Data, "demo.log")
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the demo's log: %w; choose another directory with --data", err)
	}
	defer logFile.Close()
	d := &demo{cfg: cfg, rate: c.given.number("rate"), shop: newShop(c.given.number("people"), uint64(c.given.number("seed")))}
	d.watched = newWatchedMail(d.shop)
	d.view = newDemoView(c.main.Stdout)
	err = c.serve(ctx, cfg, logFile, func(ctx context.Context, e *engine.Engine) error {
		d.program, d.link = e, c.setup
		return d.run(ctx, c)
	})
	if err != nil {
		return fmt.Errorf("%w; its log is %s", err, logPath)
	}
	if d.pushed.Load() == 0 {
		return nil // it was stopped before it began
	}
	return d.summary(c.main.Stdout, logPath)
}

// demoConfig is the configuration of the demo: the defaults, one list, and what the
// owners of mailboxes do.
func (c *call) demoConfig() (*config.Config, error) {
	return config.Load(config.Sources{
		SkipDefaultFile: true,
		Flags:           map[string]string{"data": c.given.text("data"), "listen": c.given.text("listen")},
		Defaults: func(cfg *config.Config) {
			cfg.Lists = []config.List{{Name: demoList, Take: config.TakeLeft, Dedupe: "event_id", AppID: "demo", Profile: true}}
			m := &cfg.Mailboxes
			m.Refuse, m.Bounce, m.Open, m.Click, m.Complain, m.Unsubscribe, m.WithinSeconds = 5, 10, 450, 150, 1, 10, 12
		},
	})
}

// takeDemoDirectory makes a directory, or empties one that a demo has made. It is the
// caller's until the file is closed.
func takeDemoDirectory(dir string) (lock *os.File, err error) {
	const mark = "this-is-a-demo"
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, mark)); err != nil {
			return nil, fmt.Errorf("demo: %s has files, and no demo has made it; choose another directory with --data", dir)
		}
	}
	if err = os.MkdirAll(dir, 0o700); err == nil {
		lock, err = os.OpenFile(filepath.Join(dir, mark), os.O_CREATE|os.O_RDWR, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("make the demo's directory: %w; choose another with --data", err)
	}
	if err = filelock.Take(lock); errors.Is(err, filelock.ErrHeld) {
		err = fmt.Errorf("demo: another one runs in %s; end it, or choose another directory with --data", dir)
	}
	for _, e := range entries {
		if err == nil && e.Name() != mark {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// run is the demo beside the program: it ends by itself only with --for.
func (d *demo) run(ctx context.Context, c *call) error {
	if err := d.prepare(ctx, c.progress()); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it began
		}
		return err
	}
	d.before = d.program.Stats()
	d.after = d.before
	produceCtx, stop := context.WithCancel(ctx)
	defer stop()
	if limit := c.given.duration("for"); limit > 0 {
		end := time.AfterFunc(limit, stop)
		defer end.Stop()
	}
	working := make(chan error, 2)
	go func() { working <- d.watched.follow(produceCtx, engine.LogsOf(d.program.Redis(), d.cfg)) }()
	go func() { working <- d.produce(produceCtx) }()
	failed := d.watch(produceCtx, working)
	stop()
	failed = errors.Join(failed, <-working)

	// The producer has stopped; what is under way is waited for.
	drainCtx, cancel := context.WithTimeout(c.kill, demoDrainLimit)
	defer cancel()
	err := d.await(drainCtx, func(s api.Stats) bool { return d.missing(s) <= 0 })
	if err != nil && c.kill.Err() != nil {
		failed = errors.Join(failed, errors.New("ended before what was under way was stored"))
	}
	d.after = d.program.Stats()
	d.show(drainCtx, d.after, time.Now())
	return failed
}

// watch draws until one of two that work has ended, and returns its error.
func (d *demo) watch(ctx context.Context, working <-chan error) error {
	ticker := time.NewTicker(d.view.period())
	defer ticker.Stop()
	for {
		select {
		case err := <-working:
			return err
		case now := <-ticker.C:
			s := d.program.Stats()
			for _, l := range s.Lists {
				d.waiting.Store(l.Waiting)
			}
			d.show(ctx, s, now)
		}
	}
}

// produce pushes events at the rate until ctx ends. A push that has begun is
// finished: cut off, nobody knew whether its events are in the list.
func (d *demo) produce(ctx context.Context) error {
	redis := d.program.Redis()
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
			if err := push(redis, d.shop.next(time.Now(), n)); err != nil {
				return err
			}
			d.pushed.Add(int64(n))
			owed -= float64(n)
		}
		if err := d.track(); err != nil {
			return err
		}
		if info, err := os.Stat(filepath.Join(d.cfg.Data, "sluice.db")); err == nil && info.Size() > demoMaxBytes {
			return fmt.Errorf("the demo's database has reached %d MB: it ends here; the next start begins anew", demoMaxBytes>>20)
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

// stored is how many events of the list have been stored since the first push: those of
// mail, and purchases, are counted under other names.
func (d *demo) stored(s api.Stats) int64 {
	custom := sluice.KindCustom.String()
	return s.Names[custom] - d.before.Names[custom]
}

// dead is how many events are dead letters since the first push. One that was replayed is
// in its list again, to be stored or to become a dead letter once more.
func (d *demo) dead(s api.Stats) int64 {
	return s.Dead - d.before.Dead - (s.Replayed - d.before.Replayed)
}

// missing is how many pushed events are neither stored nor dead yet.
func (d *demo) missing(s api.Stats) int64 { return d.pushed.Load() - d.stored(s) - d.dead(s) }

// summary says what became of every event. That the sum comes out is the point
// of the program, so a sum that does not is a failure.
func (d *demo) summary(w io.Writer, logPath string) error {
	missing := d.missing(d.after)
	fmt.Fprintf(w, "\npushed %s = stored %s + dead %s + waiting %s\n\n", grouped(d.pushed.Load()), grouped(d.stored(d.after)), grouped(d.dead(d.after)), grouped(max(0, missing)))
	fmt.Fprintf(w, "To look further, before the next demo begins anew:\n\n"+
		"  %[1]s dead list --data %[2]s\n"+
		"  sqlite3 %[3]s 'SELECT name, COUNT(*) FROM events GROUP BY name'\n"+
		"  less %[4]s\n", program(), d.cfg.Data, filepath.Join(d.cfg.Data, "sluice.db"), logPath)
	if missing < 0 || (missing > 0 && drained(d.after)) {
		return fmt.Errorf("the sum is off by %d events: please report this with %s", missing, logPath)
	}
	return nil
}

// program is how this program was called, for lines that are copied.
func program() string {
	if filepath.Base(os.Args[0]) == "sluice" {
		return os.Args[0]
	}
	return "sluice"
}
