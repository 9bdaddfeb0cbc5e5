package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/api"
	"sluice/braze"
	"sluice/config"
	"sluice/consent"
	"sluice/flow"
	"sluice/ingest"
	"sluice/segment"
	"sluice/smtpd"
	"sluice/sqlstore"
	"sluice/suppress"
)

// Program is the whole of it: the engine (wire.go) and the HTTP server before
// it. Every command that serves, and every test of the whole, starts this
// struct.
//
// The HTTP server is started first and stopped last, so that /healthz answers
// while a long start reads Redis's file, and /readyz says why it is not ready.
type Program struct {
	config *config.Config
	log    *slog.Logger
	clock  *flow.Clock
	server *api.Server

	mu     sync.Mutex
	state  state
	engine *engine // nil until it has been opened
	intake *ingest.Intake
	smtp   *smtpd.Server // nil: there is none
}

// state is what the program is doing. It only moves down this list.
type state int

const (
	stateStarting state = iota
	stateRunning
	stateStopping
	stateStopped
)

// NewProgram returns a program that is not started. own is this machine's clock.
func NewProgram(cfg *config.Config, log *slog.Logger, own sluice.Clock) *Program {
	p := &Program{config: cfg, log: log, clock: flow.NewClock(own)}
	p.server = api.New(cfg.Listen, p, log, api.Options{
		RootKey: cfg.RootKey.Reveal(), KeyItemsPerSecond: cfg.KeyRate, BrazeLimits: brazeLimits(&cfg.Braze), Proxies: cfg.ProxyPrefixes(),
		Proxied: cfg.PublicURL != "", Hosts: cfg.HostNames(), Version: version, Revision: revision(), Clock: p.clock,
	})
	return p
}

// brazeLimits are the bounds of Braze's API as they are configured.
func brazeLimits(b *config.Braze) braze.Limits {
	return braze.Limits{
		braze.LimitTrack: b.Track, braze.LimitSync: b.Sync, braze.LimitIdentity: b.Identity, braze.LimitExport: b.Export,
		braze.LimitGroups: b.Groups, braze.LimitLists: b.Lists, braze.LimitOther: b.Other,
	}
}

// Start starts everything and returns when it runs, or why it does not. ctx
// bounds the start only. After a failed Start everything is stopped again.
func (p *Program) Start(ctx context.Context) error {
	if err := os.MkdirAll(p.config.Data, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w; choose another with --data", err)
	}
	if err := p.server.Start(ctx); err != nil {
		return err
	}
	e, err := p.open(ctx)
	if err == nil {
		err = noteEmbedded(p.config, e)
	}
	if err != nil {
		if e != nil {
			err = errors.Join(err, e.stop(ctx))
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return errors.Join(err, p.server.Stop(closing))
	}
	p.warnOfServers(ctx)
	e.start()
	p.mu.Lock()
	p.engine, p.intake, p.state = e, e.intake(), stateRunning
	p.mu.Unlock()
	if err := p.startSMTP(ctx); err != nil {
		return errors.Join(err, p.Stop(ctx))
	}
	p.log.Info("sluice runs", "listen", p.server.Address(), "redis", p.config.Redis, "database", p.config.Database,
		"roles", p.config.Roles, "partitions", p.config.Partitions, "lists", len(p.config.Lists), "hashes", len(p.config.Hashes))
	return nil
}

// warnOfServers says at the start what doctor would say of the main Redis, the
// database, the ways to all servers and the disk: whoever reads the log and nothing
// else must learn what a power cut would cost. It refuses no start: a server that
// forgets is better than none, and may be somebody else's to set.
func (p *Program) warnOfServers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	clock := sluice.SystemClock{}
	all := []sluice.Examination{examineTransport(p.config), examineDisk(p.config.Data)}
	if p.config.Redis != config.RedisEmbedded { // an embedded one was started as it should be
		all = append(all, (&flow.Examiner{URL: p.config.Redis.Reveal(), Main: true, Clock: clock}).Examine(ctx))
	}
	if !strings.HasPrefix(string(p.config.Database), "sqlite:") { // so was that
		all = append(all, (&sqlstore.Examiner{URL: p.config.Database.Reveal(), Clock: clock, Brief: true}).Examine(ctx))
	}
	for _, e := range all[2:] {
		if e.Directory != "" && e.Directory != p.config.Data {
			all = append(all, examineDisk(e.Directory))
		}
	}
	for _, e := range all {
		for _, f := range e.Findings {
			level := slog.LevelWarn
			switch f.Severity {
			case sluice.SeverityWarning:
			case sluice.SeverityError:
				level = slog.LevelError
			default:
				continue
			}
			p.log.Log(ctx, level, "a server is not as it should be; `sluice doctor` says more", "check", f.Check, "server", f.Where, "found", f.Found, "remedy", f.Remedy)
		}
	}
}

// Pauses between attempts to open the engine.
const (
	openSoonest = 100 * time.Millisecond
	openLatest  = 2 * time.Second
)

// open opens the engine. While Redis or the database is away it tries again,
// for start_seconds: after a power cut all of them start together, and the
// servers have files to read first.
func (p *Program) open(ctx context.Context) (*engine, error) {
	patience := time.Duration(p.config.StartSeconds) * time.Second
	late := time.NewTimer(patience)
	defer late.Stop()
	pause := openSoonest
	for {
		e, err := openEngine(ctx, p.config, p.log, p.clock)
		if err == nil || patience == 0 || !(flow.IsAway(err) || sqlstore.IsAway(err)) {
			return e, err
		}
		p.log.Warn("not started yet, trying again", "for at most", patience, "error", err)
		select {
		case <-time.After(pause):
		case <-late.C:
			return nil, err
		case <-ctx.Done():
			return nil, err
		}
		pause = min(2*pause, openLatest)
	}
}

// Stop stops in two phases: nothing more is taken in, and what is in hand is
// finished until ctx ends. It may be called twice, and after a failed Start.
func (p *Program) Stop(ctx context.Context) error {
	p.mu.Lock()
	e, smtp, before := p.engine, p.smtp, p.state
	p.state, p.intake = max(p.state, stateStopping), nil
	p.mu.Unlock()
	if e == nil || before >= stateStopping {
		return nil
	}
	p.log.Info("sluice stops: nothing more is taken in, what is in hand is finished", "at most", time.Duration(p.config.ShutdownSeconds)*time.Second)
	var err error
	if smtp != nil {
		err = smtp.Stop(ctx)
	}
	err = errors.Join(err, e.stop(ctx))
	p.mu.Lock()
	p.state, p.engine = stateStopped, nil
	p.mu.Unlock()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err = errors.Join(err, p.server.Stop(closing))
	if err == nil {
		p.log.Info("sluice has stopped")
	}
	return err
}

// Address returns where the HTTP server listens.
func (p *Program) Address() string { return p.server.Address() }

// Ready returns nil if the program can do its work, or the reasons, joined.
func (p *Program) Ready() error {
	p.mu.Lock()
	e, s := p.engine, p.state
	p.mu.Unlock()
	switch {
	case s == stateStarting:
		return errors.New("program: it is starting")
	case s >= stateStopping || e == nil:
		return errors.New("program: it is stopping")
	}
	return e.ready()
}

// Warnings implements api.Warner.
func (p *Program) Warnings() (all []string) {
	p.mu.Lock()
	e := p.engine
	p.mu.Unlock()
	if e == nil || e.sending == nil {
		return nil
	}
	all = e.nearBounds()
	if e.sending.sender == nil {
		return all
	}
	for _, r := range e.sending.router.Routes() {
		if why := r.Why.String(); why != "" {
			all = append(all, "route "+r.Name+" does not work: "+why)
		}
	}
	return append(all, e.sending.lost.warnings(e.store, e.clock)...)
}

// Margin returns how far back the logs that it stores keep what is stored, the
// least of all.
func (p *Program) Margin() (covered time.Duration, known bool) {
	if e := p.current(); e != nil {
		return least(maps.Values(e.stats.Margins()))
	}
	return 0, false
}

// ListMargin is Margin of the lists, and hashes, that it stores in tables.
func (p *Program) ListMargin() (covered time.Duration, known bool) {
	if e := p.current(); e != nil {
		return least(maps.Values(e.stats.ListMargins()))
	}
	return 0, false
}

func (p *Program) current() *engine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine
}

// least returns the least of some durations; known: there is one.
func least(all iter.Seq[time.Duration]) (least time.Duration, known bool) {
	for d := range all {
		if !known || d < least {
			least, known = d, true
		}
	}
	return least, known
}

// Stats returns the engine's counters; none while it does not run.
func (p *Program) Stats() api.Stats {
	p.mu.Lock()
	e, s := p.engine, p.state
	p.mu.Unlock()
	if e == nil || s != stateRunning {
		return api.Stats{}
	}
	stats := e.snapshot()
	stats.SMTP = p.smtpStats()
	return stats
}

// Intake returns where the events of requests go, nil while there is nowhere.
func (p *Program) Intake() *ingest.Intake {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.intake
}

// Keys returns where the API's keys are, nil while the program does not run.
func (p *Program) Keys() sluice.KeyStore {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.store
}

// Consent returns what knows the forms of double opt-in, nil while the program
// does not run.
func (p *Program) Consent() *consent.Service {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.consent
}

// Series returns where the series are, nil while the program does not run.
func (p *Program) Series() sluice.SeriesStore {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.store
}

// Users returns where the users are, nil while the program does not run.
func (p *Program) Users() sluice.UserStore {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.store
}

// Segments returns where the segments are, nil while the program does not run.
func (p *Program) Segments() sluice.SegmentStore {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.store
}

// Templates returns where the templates are, nil while the program does not run.
func (p *Program) Templates() sluice.TemplateStore {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.store
}

// Schedules returns where mail for a time to come is, nil while the program does
// not run.
func (p *Program) Schedules() sluice.ScheduleStore {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.store
}

// Scanner finds who is in a segment, nil while the program does not run.
func (p *Program) Scanner() *segment.Scanner {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.scanner
}

// Suppressions returns who is not mailed, nil while the program does not run.
func (p *Program) Suppressions() *suppress.Service {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return &suppress.Service{Store: p.engine.store, List: p.engine.suppressions.List, Clock: p.engine.clock}
}

// Applied returns when what was written for these keys before is applied.
func (p *Program) Applied(ctx context.Context, keys []sluice.UserKey) error {
	p.mu.Lock()
	e := p.engine
	p.mu.Unlock()
	if e == nil {
		return errors.New("the program does not run")
	}
	applied := ingest.Applied{Store: e.store, Users: e.store, Logs: e.logs}
	return applied.Await(ctx, keys)
}

// Redis returns the main server of a running program.
func (p *Program) Redis() *flow.Redis {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine.redis
}

// Failed is closed when the program cannot go on: its embedded Redis is gone.
// Other servers may come back, and are waited for.
func (p *Program) Failed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil || p.engine.child == nil {
		return nil
	}
	return p.engine.child.Exited()
}

// serve runs a program until its context ends or it fails, with something
// beside it: `beside`, if any, is run in a goroutine, its end is the
// program's, and its context ends when the program begins to stop.
func (c *call) serve(ctx context.Context, p *Program, beside func(context.Context) error) error {
	if err := p.Start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	besideCtx, stopBeside := context.WithCancel(ctx)
	defer stopBeside()
	besideDone := make(chan error, 1)
	if beside != nil {
		go func() { besideDone <- beside(besideCtx) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-besideDone:
		beside = nil
	case <-p.Failed():
		err = fmt.Errorf("the embedded redis has ended; its log is %s", filepath.Join(p.config.Data, "redis", "redis.log"))
	}
	stopBeside()
	if beside != nil {
		err = errors.Join(err, <-besideDone)
	}
	stopCtx, cancel := context.WithTimeout(c.kill, time.Duration(p.config.ShutdownSeconds)*time.Second)
	defer cancel()
	if stopErr := p.Stop(stopCtx); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("stop: %w", stopErr))
	}
	return err
}

// newLogger returns the program's log as the configuration wants it.
func newLogger(cfg *config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		level = slog.LevelInfo // the configuration was checked
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: maskAttr}
	if cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
