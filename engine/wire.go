package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/config"
	"sluice/flow"
	"sluice/ingest"
	"sluice/journey/run"
	"sluice/lib/child"
	"sluice/mail"
	"sluice/mail/domain"
	"sluice/mail/schedule"
	"sluice/mail/spool"
	"sluice/mail/suppress"
	"sluice/ops/alert"
	"sluice/ops/erasure"
	"sluice/ops/retention"
	"sluice/ops/series"
	"sluice/store/mongostore"
	"sluice/store/sqlstore"
	"sluice/track/feed"
	"sluice/track/land"
	"sluice/track/link"
	"sluice/track/verp"
	"sluice/track/webhook"
	"sluice/user/consent"
	"sluice/user/segment"
)

// This file builds the program out of its parts. followers below is the table of what
// works by itself. Beside it run the leases, the journeys of each partition and the
// servers (HTTP, SMTP, returned mail, links), which are started and stopped here, too.

// follower is one moving part: it works until fetch ends, and gives up when
// work ends.
type follower struct {
	role   string // "": in every process
	name   string
	leases string // the role of the leases to give back when it ends; "": it needs none, or gives its own back
	run    func(fetch, work context.Context)
}

// followers lists every follower of the program by its configuration.
func (e *core) followers() []follower {
	all := []follower{
		{config.RoleStore, "facts", "", e.factsPassed.Run},
		{config.RoleStore, "keep", retention.Role, e.keeper().Run},
		{config.RoleStore, "schedules", schedule.Role, e.releaser().Run},
		{config.RoleStore, "webhooks", webhook.Role, e.poster().Run},
		{"", "spill", "", e.spilled().Run},
		{"", "forms", "", func(fetch, _ context.Context) { e.forms.Run(fetch) }},
		{"", "suppressions", "", e.suppressions.Run},
		{"", "feedback", pausing, e.sending.feedback.Run},
	}
	stores := e.storeFollowers()
	for i, f := range stores {
		all = append(all, follower{config.RoleStore, f.Name(), "", e.handsOver(ingest.StoreRole, i, len(stores), f.Run)})
	}
	if e.recorder != nil {
		all = append(all, follower{"", "landing", "", e.recorder.Run}, follower{"", "choices", "", e.choices.Run})
	}
	if e.mirror != nil {
		all = append(all, follower{config.RoleStore, "mirror", series.MirrorRole, e.mirror.Run})
	}
	if e.watchesDomains() {
		all = append(all, follower{"", "domains", "", e.domains.Run})
	}
	if e.config.Alerts.On() {
		all = append(all, follower{"", "alerts", alert.Role, e.watcher().Run})
	}
	if e.sending.sender != nil {
		all = append(all, follower{config.RoleSend, spool.Role, "", e.sending.sender.Run},
			follower{config.RoleSend, "gate", "", func(fetch, _ context.Context) { e.gate.Run(fetch) }},
			follower{config.RoleSend, "routes", "", func(fetch, _ context.Context) { e.sending.router.Run(fetch, e.log) }},
			follower{config.RoleSend, config.SinkRoute, "", func(fetch, _ context.Context) { e.sending.box.Run(fetch) }})
	}
	for _, in := range e.inputs {
		all = append(all, e.inputFollower(in))
	}
	return slices.DeleteFunc(all, func(f follower) bool { return f.role != "" && !e.config.HasRole(f.role) })
}

// core is Redis, the database and what runs between them.
type core struct {
	config *config.Config
	log    *slog.Logger
	clock  *flow.Clock
	stats  *ingest.Stats

	child    *child.Redis // embedded; nil: the configuration names a server
	redis    *flow.Redis
	redisURL string // its own, also if it is embedded
	others   others // of lists on other servers
	store    *sqlstore.Store
	writers  []*sqlstore.Store // of the store's followers: store, and one for each more
	schema   int               // the version of the tables that this program knows
	fresh    bool              // there were no tables
	writer   *flow.Writer      // of the events of requests; nil: not open yet
	leases   *flow.Leases
	forms    *flow.Forms
	scanner  *segment.Scanner

	consent *consent.Service
	links   *link.Keys // of tracked mails; nil: nothing is tracked

	recorder *land.Recorder // of opens and clicks; nil: they do not come here
	landings *flow.Writer   // of the recorder
	choices  *land.Choices  // of people, on pages of mails; nil: as the recorder
	sending  *sending

	returnPaths *verp.Keys // nil: no route has any
	domains     *domain.Watcher

	hooks  *webhook.Service
	posted webhook.Stats
	feed   *feed.Heads

	suppressions *suppress.Follower // and the list that it keeps
	unlisters    []unlister

	factsPassed *run.Passed   // by journeys
	gate        *run.Gate     // asked before mail of journeys leaves
	moving      *run.Follower // of people through journeys; nil: not here

	mirror     *series.Mirror // nil: the series are not mirrored, or not here
	mongo      *mongostore.Mirror
	moved      time.Time // since when sends go to the partition of a person
	deployment string    // what Redis and the database are of
	logs       []*flow.Log
	names      *flow.OnceNames
	channels   []alert.Channel
	ledgerLook ledgerLook
	storedAll  storedAll
	lastLags   lastLags

	inputs  []*input
	opening sync.Mutex   // guards lists, and run and err of the inputs, once the program runs
	lists   []*flow.List // by place of its input; nil: it is not open yet

	stopMoving, stopFetch, stopWork, stopLeases context.CancelFunc

	running    sync.WaitGroup // followers
	journeying sync.WaitGroup // moving
	leasing    sync.WaitGroup
}

// openCore connects to everything and brings the schema up. Nothing runs yet.
func openCore(ctx context.Context, cfg *config.Config, log *slog.Logger, clock *flow.Clock) (*core, error) {
	e := &core{
		config: cfg, log: log, clock: clock, stats: &ingest.Stats{},
	}
	if err := e.open(ctx); err != nil {
		return nil, errors.Join(err, e.close(ctx))
	}
	return e, nil
}

func (e *core) open(ctx context.Context) error {
	var err error
	if e.redis, err = e.openRedis(ctx); err != nil {
		return err
	}
	if err := e.openDatabase(ctx); err != nil {
		return err
	}
	e.scanner = segment.NewScanner(e.store, e.config.Partitions, e.clock)
	if e.deployment, err = flow.Identify(ctx, e.redis, e.store, e.config.Partitions, e.config.AcceptGaps); err != nil {
		return err
	}
	if err := e.openMoved(ctx); err != nil {
		return err
	}
	partitions := flow.Partitions(e.config.Partitions)
	e.logs = LogsOf(e.redis, e.config)
	e.factsPassed = &run.Passed{Store: e.store, Journeys: e.store, Partitions: e.config.Partitions, Clock: e.clock, Log: e.log}
	e.names = &flow.OnceNames{Redis: e.redis, Most: mostNames(e.config), Clock: e.clock}
	ingest.RaiseBy(e.redis, e.store, e.log)
	if err := ingest.RaiseAll(ctx, e.store, e.logs, e.log); err != nil { // before anybody writes
		return err
	}
	if err := e.openSuppressions(ctx); err != nil { // before anybody sends
		return err
	}
	if e.consent, err = e.openConsent(ctx); err != nil {
		return err
	}
	if e.links, err = e.openLinks(ctx); err != nil {
		return err
	}
	if err := e.openReturnPaths(ctx); err != nil {
		return err
	}
	e.openWebhooks()
	if err := e.openLeases(ctx); err != nil {
		return err
	}
	e.openLanding()
	if e.config.HasRole(config.RoleStore) {
		e.leases.AddPartitions(ingest.StoreRole, e.redis, partitions)
		if err := e.openWriters(ctx); err != nil {
			return err
		}
		e.leases.AddPartitions(retention.Role, e.redis, partitions[:1])
		e.leases.AddPartitions(webhook.Role, e.redis, partitions[:1])
		if err := e.keeper().MakeDays(ctx); err != nil { // before the store runs
			e.log.Warn("days of events could not be made; they will be, while the program runs", "error", err)
		}
	}
	if e.config.HasRole(config.RoleJourney) {
		e.leases.AddPartitions(run.Role, e.redis, partitions)
		e.moving = e.journeys()
	}
	if err := e.openSending(partitions); err != nil {
		return err
	}
	if err := e.openMirror(ctx); err != nil {
		return err
	}
	if e.config.Alerts.On() {
		e.leases.AddPartitions(alert.Role, e.redis, partitions[:1])
		if e.channels, err = AlertChannels(e.config); err != nil {
			return err
		}
	}
	return e.openIntake(ctx, partitions)
}

// openMoved finds out since when events and sends go to the partition of the person
// whom they name. What an older version has begun goes on as it was (ingest.Router,
// ingest.Import, spool.Intake).
func (e *core) openMoved(ctx context.Context) error {
	since, first, err := flow.Since(ctx, e.redis, e.store, flow.PartitionByPerson, e.clock.Later())
	if err != nil {
		return err
	}
	if first && !e.fresh {
		e.log.Info("events and mail go to the partition of the person whom they name from now on; what an older version has begun to write is finished where it was begun")
	}
	e.moved = since
	return nil
}

// openDatabase connects to the database and brings its schema up. The partitions
// are those that it was set up with, unless the configuration names a number.
func (e *core) openDatabase(ctx context.Context) error {
	store, err := sqlstore.Open(ctx, string(e.config.Database), sqlstore.Options{Exclusive: true, Clock: e.clock, SeriesNames: e.config.SeriesNames})
	if err != nil {
		return err
	}
	e.store = store
	if err := e.migrate(ctx); err != nil {
		return err
	}
	return AdoptPartitions(ctx, e.config, store)
}

// openRedis connects to the main server, starting it first if it is embedded.
func (e *core) openRedis(ctx context.Context) (*flow.Redis, error) {
	url := string(e.config.Redis)
	if e.config.Redis == config.RedisEmbedded {
		child, err := startEmbedded(ctx, e.config)
		if err != nil {
			return nil, err
		}
		e.child, url = child, child.URL()
	}
	e.redisURL = url
	redis, err := flow.Dial(ctx, url)
	if err == nil {
		err = redis.TakesWrites(ctx)
	}
	if err == nil {
		err = e.clock.Compare(ctx, redis) // before anything goes by it
	}
	return redis, err
}

// journeys returns what moves people through journeys.
func (e *core) journeys() *run.Follower {
	return &run.Follower{Logs: e.logs, Leases: e.leases, Store: e.store, Clock: e.clock, Log: e.log, Health: e.stats, StoredBy: ingest.StoreRole, QueuedBy: spool.QueueCursor,
		Loader: e.loader()}
}

// loader returns what reads the journeys that are published.
func (e *core) loader() *run.Loader {
	return &run.Loader{Journeys: e.store, Templates: e.store, Segments: e.store, Caps: e.config.JourneyCaps(), Control: e.config.GlobalControlPercent, Log: e.log}
}

// keeper returns what makes the days of events and removes what is too old.
func (e *core) keeper() *retention.Keeper {
	return &retention.Keeper{Store: e.store, Leases: e.leases, Clock: e.clock, OtherClock: e.redis.TimeMillis, Log: e.log, Retention: Retention(e.config), AddressDays: e.config.Track.KeepAddressesDays,
		ForgetImport: e.forgetImport,
		Erasure:      &erasure.Eraser{Store: e.store, Log: e.log, Cancel: e.cancelSends, TakeOut: e.takeOut, Settled: (&ingest.Applied{Store: e.store, Users: e.store, Logs: e.logs}).All}}
}

// cancelSends stops sends of who is erased. The keeper is made, and makes days,
// before there is what cancels.
func (e *core) cancelSends(ctx context.Context, sends []mail.SendRow) error {
	return e.sending.canceller.CancelSends(ctx, sends)
}

// takeOut takes what was cancelled of who is erased out of what waits for a time.
func (e *core) takeOut(ctx context.Context, sends []mail.SendRow) error {
	return e.sending.canceller.TakeOut(ctx, sends)
}

func Retention(cfg *config.Config) ingest.Retention {
	r := &cfg.Retention
	return ingest.Retention{
		Events: map[sluice.EventKind]int{
			sluice.KindMail: r.Events.Mail, sluice.KindCustom: r.Events.Custom,
			sluice.KindPurchase: r.Events.Purchase, sluice.KindSystem: r.Events.System,
		},
		SeriesHours: r.SeriesHours, SeriesDays: r.SeriesDays, DeadLetters: r.DeadLetters, Sends: r.Sends,
	}
}

// spilled returns what brings back the spill files of the data directory.
func (e *core) spilled() *ingest.Spilled {
	return &ingest.Spilled{Dir: SpillDir(e.config), Deployment: e.deployment, Logs: e.logs, Kept: Retention(e.config), Clock: e.clock, Log: e.log, BacklogBytes: e.config.BacklogMB << 20, Replicas: Replicas(e.config), Said: e.store}
}

// intake returns what takes in the events of requests.
func (e *core) intake() *ingest.Intake {
	return &ingest.Intake{Writer: e.writer, Redis: e.redis, Names: e.names, Partitions: len(e.logs), Clock: e.clock, Stats: e.stats, Bounds: e.timeBounds()}
}

func (e *core) timeBounds() ingest.TimeBounds {
	return ingest.TimeBounds{
		PastMillis:   (time.Duration(e.config.EventTime.PastDays) * 24 * time.Hour).Milliseconds(),
		FutureMillis: (time.Duration(e.config.EventTime.FutureMinutes) * time.Minute).Milliseconds(),
	}
}

// start runs the leases and the followers of this process's roles.
func (e *core) start() {
	e.leases.Clock = e.clock
	leaseCtx, stopLeases := context.WithCancel(context.Background())
	e.stopLeases = stopLeases
	e.leasing.Go(func() {
		if err := e.leases.Run(leaseCtx); err != nil {
			e.log.Warn("leases could not be given back; their successor waits for them to run out", "error", err)
		}
	})
	fetch, stopFetch := context.WithCancel(context.Background())
	work, stopWork := context.WithCancel(context.Background())
	moving, stopMoving := context.WithCancel(fetch)
	e.stopMoving, e.stopFetch, e.stopWork = stopMoving, stopFetch, stopWork
	if e.moving != nil {
		e.journeying.Go(func() { e.moving.Run(moving, work) })
	}
	all, sharing := e.followers(), make(map[string]*atomic.Int64)
	for _, f := range all {
		if sharing[f.leases] == nil {
			sharing[f.leases] = new(atomic.Int64)
		}
		sharing[f.leases].Add(1)
	}
	for _, f := range all {
		e.running.Go(func() {
			f.run(fetch, work)
			if sharing[f.leases].Add(-1) == 0 && f.leases != "" {
				e.giveBack(f.leases, flow.Share{Leases: e.leases})
			}
		})
	}
}

// handsOver returns the run of a follower that works by a share of its own of a role's
// leases. It gives them back at its end: a successor need not wait for the others.
func (e *core) handsOver(role string, index, of int, run func(fetch, work context.Context)) func(fetch, work context.Context) {
	return func(fetch, work context.Context) {
		run(fetch, work)
		e.giveBack(role, flow.Share{Leases: e.leases, Index: index, Of: of})
	}
}

// giveBack hands over a share of the leases of a role, whose followers have ended.
func (e *core) giveBack(role string, share flow.Share) {
	if err := share.GiveBack(role); err != nil {
		e.log.Warn("leases could not be given back; it is tried again with every beat", "role", role, "error", err)
	}
}

// stop ends the engine in two phases: nothing new is read and what is in hand
// is applied; when ctx ends, everything ends. Then all is closed.
func (e *core) stop(ctx context.Context) error {
	if e.stopFetch != nil {
		e.leases.Announce(ctx) // all followers go on until the others look out for what is given back
	}
	e.endRequests(ctx)
	if e.stopFetch != nil {
		e.stopMoving() // first: its last checkpoint waits for the store
		moved := make(chan struct{})
		go func() {
			e.journeying.Wait()
			e.giveBack(run.Role, flow.Share{Leases: e.leases})
			close(moved)
		}()
		moving, cancel := stopShare(ctx, 2, stopMovingMost) // a database that hangs holds it up
		select {
		case <-moved:
		case <-moving.Done():
		}
		cancel()
		e.stopFetch()
		done := make(chan struct{})
		go func() { <-moved; e.running.Wait(); close(done) }()
		select {
		case <-done:
		case <-ctx.Done():
			e.log.Warn("not finished in time: ending in the middle; the next start goes on from the cursors")
			e.stopWork()
			<-done
		}
		e.stopWork()
		e.stopLeases()
		e.leasing.Wait()
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), CloseTimeout)
	defer cancel()
	return e.close(closing)
}

// endRequests ends what writes to the logs for requests. A Redis that hangs holds it up.
func (e *core) endRequests(ctx context.Context) {
	ctx, cancel := stopShare(ctx, 4, stopShareMost)
	defer cancel()
	var closing sync.WaitGroup
	for _, w := range []*flow.Writer{e.writer, e.landings} {
		if w == nil {
			continue
		}
		closing.Go(func() {
			if err := w.Close(ctx); err != nil {
				e.log.Warn("requests were not finished in time, their callers do not know whether they are in", "error", err)
			}
		})
	}
	closing.Wait()
}

const (
	// stopShareMost bounds what one step of a stop takes of the time for all of them.
	stopShareMost = 5 * time.Second

	// stopMovingMost is that of moving people: a second more than their last checkpoint may
	// take, which waits for the store.
	stopMovingMost = 6 * time.Second
)

// stopShare bounds a step of a stop that others may hold up: a part of the time that is
// left, most at most. What comes behind it, such as the results of mail on the wire, has
// the rest.
func stopShare(ctx context.Context, part int, most time.Duration) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)/time.Duration(part))
	}
	return context.WithTimeout(ctx, most)
}

// CloseTimeout bounds what remains after the followers have ended.
const CloseTimeout = 10 * time.Second

// close ends the connections, then the embedded Redis.
func (e *core) close(ctx context.Context) error {
	errs := []error{e.closeRoutes(), e.closeUnlisters()}
	if e.mongo != nil {
		errs = append(errs, e.mongo.Close(ctx))
	}
	for _, in := range e.inputs {
		if in.set != nil {
			in.set.Close()
		}
	}
	e.others.close()
	if e.redis != nil {
		e.redis.Close()
	}
	errs = append(errs, e.closeWriters())
	if e.store != nil {
		errs = append(errs, e.store.Close())
	}
	if e.child != nil {
		errs = append(errs, e.child.Stop(ctx))
	}
	return errors.Join(errs...)
}
