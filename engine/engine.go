package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/api"
	"sluice/api/braze"
	"sluice/config"
	"sluice/flow"
	"sluice/ingest"
	"sluice/journey/desk"
	"sluice/journey/env"
	"sluice/journey/timeline"
	"sluice/lib/child"
	"sluice/lib/doctor"
	"sluice/mail"
	"sluice/mail/smtpd"
	"sluice/mail/suppress"
	"sluice/ops/account"
	"sluice/store/sqlstore"
	"sluice/track/hook"
	"sluice/track/land"
	"sluice/user"
)

// Options say what Open starts.
type Options struct {
	// Config is the configuration, which the engine changes: it fills in what the
	// database knows (partitions). It belongs to this engine alone.
	Config *config.Config

	// Log gets what the engine has to say; NewLogger makes one.
	Log *slog.Logger

	// Clock is this machine's; nil: the system's.
	Clock sluice.Clock

	// Version and Revision are what the metrics say that runs.
	Version, Revision string
}

// Engine is the whole program: Redis, the database, what runs between them
// (wire.go), and the servers for HTTP and SMTP before it. Every command that
// serves, and every test of the whole, starts it by Open.
//
// The HTTP server is started first and stopped last, so that /healthz answers
// while a long start reads Redis's file, and /readyz says why it is not ready.
type Engine struct {
	config *config.Config
	log    *slog.Logger
	clock  *flow.Clock
	server *api.Server

	// services is what requests are served with: replaced as a whole.
	services atomic.Pointer[api.Services]

	mu    sync.Mutex
	state state
	core  *core         // nil until it has been opened, and after it was closed
	smtp  *smtpd.Server // nil: there is none

	bounces *bounces     // nil: there is none
	landing *land.Server // of opens and clicks; nil: there is none
}

// state is what the engine is doing. It only moves down this list.
type state int

const (
	stateStarting state = iota
	stateRunning
	stateStopping
	stateStopped
)

// Open starts an engine and returns when it runs, or why it does not: then nothing
// of it is left running. ctx bounds the start only.
func Open(ctx context.Context, o Options) (*Engine, error) {
	e, err := newEngine(o)
	if err != nil {
		return nil, err
	}
	if err := e.start(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

func newEngine(o Options) (*Engine, error) {
	if o.Clock == nil {
		o.Clock = sluice.SystemClock{}
	}
	cfg := o.Config
	e := &Engine{config: cfg, log: o.Log, clock: flow.NewClock(o.Clock)}
	sources, err := cfg.Sources()
	if err != nil {
		return nil, err
	}
	e.services.Store(api.NotRunning)
	e.server = api.New(cfg.Listen, e, o.Log, api.Options{
		RootKey: cfg.RootKey.Reveal(), KeyItemsPerSecond: cfg.KeyRate, BrazeLimits: brazeLimits(&cfg.Braze), Proxies: cfg.ProxyPrefixes(),
		Proxied: cfg.PublicURL != "", Hosts: cfg.HostNames(), Version: o.Version, Revision: o.Revision, Clock: e.clock,
		Hooks: hook.NewReceiver(sources, hook.Options{Log: o.Log, Clock: e.clock, PublicURL: cfg.PublicURL, FirstWith: e.firstWith}),
	})
	return e, nil
}

// firstWith is flow.Redis's, once the program runs.
func (e *Engine) firstWith(ctx context.Context, made time.Time, token, with string, ttl time.Duration) (first string, known bool, err error) {
	in := e.Services().Intake
	if in == nil {
		return "", false, flow.ErrClosed
	}
	return in.Redis.FirstWith(ctx, made, token, with, ttl)
}

// brazeLimits are the bounds of Braze's API as they are configured.
func brazeLimits(b *config.Braze) braze.Limits {
	return braze.Limits{
		braze.LimitTrack: b.Track, braze.LimitSync: b.Sync, braze.LimitIdentity: b.Identity, braze.LimitExport: b.Export,
		braze.LimitGroups: b.Groups, braze.LimitLists: b.Lists, braze.LimitOther: b.Other,
	}
}

func (e *Engine) start(ctx context.Context) error {
	if err := os.MkdirAll(e.config.Data, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w; choose another with --data", err)
	}
	if err := e.server.Start(ctx); err != nil {
		return err
	}
	c, err := e.open(ctx)
	if err == nil {
		err = noteEmbedded(e.config, c)
	}
	if err != nil {
		if c != nil {
			err = errors.Join(err, c.stop(ctx))
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), CloseTimeout)
		defer cancel()
		return errors.Join(err, e.server.Stop(closing))
	}
	e.warnOfServers(ctx, max(1, len(c.writers)))
	c.start()
	e.services.Store(c.services())
	e.mu.Lock()
	e.core, e.state = c, stateRunning
	e.mu.Unlock()
	if err := errors.Join(e.startSMTP(ctx), e.startBounces(ctx, c), e.startLanding(ctx, c)); err != nil {
		return errors.Join(err, e.Stop(ctx))
	}
	opened := opens(e.config)
	e.log.Info("sluice runs", "listen", e.server.Address(), "redis", e.config.Redis, "database", e.config.Database,
		"roles", e.config.Roles, "partitions", e.config.Partitions, "lists", len(opened.Lists), "hashes", len(opened.Hashes))
	return nil
}

// opens is the configuration without the lists and hashes of a process that opens none.
func opens(cfg *config.Config) *config.Config {
	opened := *cfg
	if !cfg.HasRole(config.RoleIntake) {
		opened.Lists, opened.Hashes = nil, nil
	}
	return &opened
}

// ExamineTimeout bounds the examination of a server.
const ExamineTimeout = 10 * time.Second

// warnOfServers says at the start what doctor would say of the main Redis, the
// database, the ways to all servers and the disk. A reader of the log alone must
// learn what a power cut would cost. It refuses no start: a server that
// forgets is better than none, and may be somebody else's to set.
func (e *Engine) warnOfServers(ctx context.Context, writers int) {
	ctx, cancel := context.WithTimeout(ctx, ExamineTimeout)
	defer cancel()
	clock := sluice.SystemClock{}
	all := []doctor.Examination{ExamineServerTLS(opens(e.config)), ExamineDisk(e.config.Data)}
	if e.config.Redis != config.RedisEmbedded { // an embedded one was started as it should be
		all = append(all, (&flow.Examiner{URL: e.config.Redis.Reveal(), Main: true, Clock: clock}).Examine(ctx))
	}
	if !strings.HasPrefix(string(e.config.Database), "sqlite:") { // so was that
		all = append(all, (&sqlstore.Examiner{URL: e.config.Database.Reveal(), Clock: clock, Brief: true, Writers: writers}).Examine(ctx))
	}
	for _, x := range all[2:] {
		if x.Directory != "" && x.Directory != e.config.Data {
			all = append(all, ExamineDisk(x.Directory))
		}
	}
	for _, x := range all {
		for _, f := range x.Findings {
			level := slog.LevelWarn
			switch f.Severity {
			case doctor.SeverityWarning:
			case doctor.SeverityError:
				level = slog.LevelError
			default:
				continue
			}
			e.log.Log(ctx, level, "a server is not as it should be; `sluice doctor` says more", "check", f.Check, "server", f.Where, "found", f.Found, "remedy", f.Remedy)
		}
	}
}

// Pauses between attempts to open the engine.
const (
	openSoonest = 100 * time.Millisecond
	openLatest  = 2 * time.Second
)

// open opens the core. While Redis or the database is away it tries again,
// for start_seconds: after a power cut all of them start together, and the
// servers have files to read first.
func (e *Engine) open(ctx context.Context) (*core, error) {
	patience := time.Duration(e.config.StartSeconds) * time.Second
	late := time.NewTimer(patience)
	defer late.Stop()
	pause := openSoonest
	for {
		c, err := openCore(ctx, e.config, e.log, e.clock)
		if err == nil || patience == 0 || !(flow.IsAway(err) || sqlstore.IsAway(err)) {
			return c, err
		}
		e.log.Warn("not started yet, trying again", "for at most", patience, "error", err)
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
// finished until ctx ends. It may be called twice.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	c, smtp, back, landing, before := e.core, e.smtp, e.bounces, e.landing, e.state
	e.state = max(e.state, stateStopping)
	e.mu.Unlock()
	if c == nil || before >= stateStopping {
		return nil
	}
	closing := *e.services.Load()
	closing.Intake = nil
	e.services.Store(&closing)
	e.log.Info("sluice stops: nothing more is taken in, what is in hand is finished", "at most", time.Duration(e.config.ShutdownSeconds)*time.Second)
	var listeners []func(context.Context) error
	if landing != nil {
		listeners = append(listeners, landing.Stop)
	}
	if smtp != nil {
		listeners = append(listeners, smtp.Stop)
	}
	if back != nil {
		listeners = append(listeners, back.smtp.Stop)
	}
	err := errors.Join(stopListeners(ctx, listeners), c.stop(ctx))
	e.services.Store(api.NotRunning)
	e.mu.Lock()
	e.state, e.core = stateStopped, nil
	e.mu.Unlock()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), CloseTimeout)
	defer cancel()
	err = errors.Join(err, e.server.Stop(ending))
	if err == nil {
		e.log.Info("sluice has stopped")
	}
	return err
}

// stopListeners stops them side by side, each within stopShare.
func stopListeners(ctx context.Context, all []func(context.Context) error) error {
	ctx, cancel := stopShare(ctx, 4, stopShareMost)
	defer cancel()
	errs := make([]error, len(all))
	var stopping sync.WaitGroup
	for i, stop := range all {
		stopping.Go(func() { errs[i] = stop(ctx) })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// Address returns where the HTTP server listens.
func (e *Engine) Address() string { return e.server.Address() }

// SetupLink returns a link that makes the first account of the dashboard, with a secret
// in its fragment, which browsers send to nobody; empty: there is an account.
func (e *Engine) SetupLink(ctx context.Context) (string, error) {
	c, _ := e.current()
	if c == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	token, err := account.New(c.store, e.clock).Setup(ctx)
	if err != nil || token == "" {
		return "", err
	}
	return e.DashboardURL() + "/setup#" + token, nil
}

// DashboardURL is where a browser finds the dashboard, without a final slash.
func (e *Engine) DashboardURL() string {
	if e.config.PublicURL != "" {
		return strings.TrimSuffix(e.config.PublicURL, "/")
	}
	host, port, err := net.SplitHostPort(e.Address())
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return "http://" + e.Address()
	}
	return "http://127.0.0.1:" + port // plain http is for this machine alone
}

// current returns the core, nil while there is none, and what the engine does.
func (e *Engine) current() (*core, state) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.core, e.state
}

// Services implements api.Program.
func (e *Engine) Services() *api.Services { return e.services.Load() }

// Ready returns nil if the program can do its work, or the reasons, joined.
func (e *Engine) Ready() error {
	c, s := e.current()
	switch {
	case s == stateStarting:
		return errors.New("program: it is starting")
	case s >= stateStopping || c == nil:
		return errors.New("program: it is stopping")
	}
	return c.ready()
}

// Warnings implements api.Warner.
func (e *Engine) Warnings() (all []string) {
	c, _ := e.current()
	if c == nil || c.sending == nil {
		return nil
	}
	all = slices.Concat(c.nearBounds(), c.setWarnings(), c.journeyWarnings())
	if c.sending.sender == nil {
		return all
	}
	if c.sending.router.ClassStopped(mail.ClassTransactional) && c.sending.router.ClassStopped(mail.ClassMarketing) {
		all = append(all, "all mail is stopped: `sluice sending show` says by what, and `sluice sending resume --all` lets it go on")
	}
	for _, r := range c.sending.router.Routes() {
		if why := r.Why.String(); why != "" {
			all = append(all, "route "+r.Name+" does not work: "+why)
		}
	}
	return append(all, c.sending.lost.warnings(c.store, c.clock)...)
}

// Margin returns how far back the logs that it stores keep what is stored, the
// least of all.
func (e *Engine) Margin() (covered time.Duration, known bool) {
	if c, _ := e.current(); c != nil {
		return least(maps.Values(c.stats.Margins()))
	}
	return 0, false
}

// ListMargin is Margin of the lists, and hashes, that it stores in tables.
func (e *Engine) ListMargin() (covered time.Duration, known bool) {
	if c, _ := e.current(); c != nil {
		return least(maps.Values(c.stats.ListMargins()))
	}
	return 0, false
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

// Stats returns the counters; none while it does not run.
func (e *Engine) Stats() api.Stats {
	c, s := e.current()
	if c == nil || s != stateRunning {
		return api.Stats{}
	}
	stats := c.snapshot()
	stats.SMTP, stats.Returned, stats.Landing = e.smtpStats(), e.returnedStats(), e.landingStats()
	return stats
}

// Redis returns the main server of a running engine.
func (e *Engine) Redis() *flow.Redis {
	c, _ := e.current()
	return c.redis
}

// Failed is closed when the engine cannot go on: its
// embedded Redis is gone. Other servers may come back, and are waited for.
func (e *Engine) Failed() <-chan struct{} {
	c, _ := e.current()
	if c == nil || c.child == nil {
		return nil
	}
	return c.child.Exited()
}

// FailedWhy says what Failed means.
func (e *Engine) FailedWhy() error {
	file := filepath.Join(e.config.Data, "redis", "redis.log")
	return fmt.Errorf("the embedded redis has ended; the end of its log %s:\n%s", file, child.Tail(file))
}

// desk is where journeys are written and published.
func (e *core) desk() *desk.Desk {
	return &desk.Desk{
		Database: env.Database{Journeys: e.store, Templates: e.store, Segments: e.store}, Series: e.store, Clock: e.clock, SendsDays: e.config.Retention.Sends,
		Caps: e.config.JourneyCaps(), Control: e.config.GlobalControlPercent,
		Records: func(ctx context.Context, id user.ID, journey int64) (flow.Record, error) {
			if id.Partition < 0 || id.Partition >= len(e.logs) {
				return flow.Record{}, nil // nobody is there
			}
			return e.logs[id.Partition].RecordOf(ctx, int(journey), id.Number)
		},
		Ways: func(ctx context.Context, id user.ID, journey int64) ([]int, error) {
			if id.Partition < 0 || id.Partition >= len(e.logs) {
				return nil, nil
			}
			return e.logs[id.Partition].WaysOf(ctx, int(journey), id.Number)
		},
		Sends: e.store, History: e.store,
		Page: func(ctx context.Context, partition int, journey, after int64, f func(int64, *flow.Record) bool) (int64, error) {
			return e.logs[partition].PageOfRecords(ctx, int(journey), after, f)
		},
		Partitions: len(e.logs),
		Lanes: func(ctx context.Context, partition int) (map[string]int64, error) {
			return e.logs[partition].Lanes().Waiting(ctx)
		},
		Notes: func(ctx context.Context, partition int) (map[string]string, error) {
			return e.logs[partition].JourneyFields(ctx)
		},
	}
}

// services returns what requests are served with.
func (e *core) services() *api.Services {
	s := &api.Services{
		Intake: e.intake(), Keys: e.store, Accounts: account.New(e.store, e.clock), AccountStore: e.store, Consent: e.consent, Series: e.store, Reactions: e.store, Users: e.store, Segments: e.store, Scanner: e.scanner,
		Templates: e.store, Schedules: e.store, Journeys: e.desk(), Sends: e.store, Ledger: e.store, Domains: e.domains,
		Suppressions: &suppress.Service{Store: e.store, List: e.suppressions.List, Clock: e.clock},
		Submitter:    e.sending.intake, Canceller: e.sending.canceller, Decider: e.sending.decider, Operator: e.sending.operator,
		Applied: (&ingest.Applied{Store: e.store, Users: e.store, Logs: e.logs}).Await,
		Imports: e.imports(),
		Groups:  e.store, Webhooks: e.hooks, Feed: e.feed, DeadLetters: e.store, Replay: e.replay,
		Settings: e.config,
		Finder:   e.store, Timeline: &timeline.Reader{Events: e.store, Sends: e.store, Suppressions: e.store, Places: e.desk().PlacesOf, Partitions: e.config.Partitions},
		Unlist: e.unlist, SenderRefused: e.senderRefused, WaitsFor: e.waitsFor, Tracks: e.links != nil,
	}
	if e.requiresDomains() {
		s.Submitter = gate{e.sending.intake, e.domains}
	}
	if e.sending.box != nil {
		s.Mailboxes = e.sending.box
	}
	return s
}
