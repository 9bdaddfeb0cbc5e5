package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sluice"
	"sluice/config"
	"sluice/flow"
	"sluice/ingest"
	"sluice/mail"
	"sluice/mail/suppress"
)

// This file opens the inputs: what the program drains or follows where others keep it.
//
// The idea. Each may be on a server of its own, and one of twelve that is away must not keep
// the program from its work with the others. So the start asks all servers side by side,
// for inputWithin. An input whose server is silent is absent: its follower opens it first,
// by the same steps, and tries again until it stops. That is the goroutine which the input
// has anyway, with the same end. What else is wrong with an input refuses the start. If it
// is found later, it is an error of the log and of the follower, and is tried again.
//
// The invariants. An input has its place by the configuration, open or not (Leases.AddList):
// shares and stripes stay as they are. What others read of it changes under core.opening.
//
// What was dropped. A client of Redis that connects with its first command. Hashes have no
// name, and so no cursor, before their server has told it. Which keys one script may touch
// depends on whether it is a cluster. The checks of a start would come behind the work.

const (
	// inputWithin bounds how long a server is asked at the start. It is enough for the second
	// of several sentinels when the first hangs, and to find what is wrong with a server.
	inputWithin = 8 * time.Second

	// absentWithin is that of a later attempt. Nobody waits for it.
	absentWithin = 30 * time.Second

	// An input that is not open is tried again after inputAgain, and its server is asked once
	// for all that do so within askedAgain. What stays wrong is logged every inputTold.
	inputAgain = 2 * time.Second
	askedAgain = time.Second
	inputTold  = time.Minute
)

// input is a list, the hashes of one server, or a foreign set.
type input struct {
	kind, name string     // "list" and "clicks"
	source     string     // of its dead letters; of hashes without their id
	health     string     // the follower, while the input is not open
	url        config.URL // of its server
	place      int        // in ListRole; -1: it is a set

	// connect asks the server, and nothing else: its error is the server's. open makes the
	// follower of what was connected.
	connect func(ctx context.Context) error
	open    func(ctx context.Context) error

	list *flow.List                        // connected
	set  *flow.Set                         // the same of a set
	run  func(fetch, work context.Context) // nil: it is not open
	err  error                             // why it was not open when it was tried last
}

// String says what it is, for messages.
func (in *input) String() string { return in.kind + " " + in.name }

// openIntake opens what is drained: lists, hashes, sets.
func (e *core) openIntake(ctx context.Context, partitions []flow.Partition) error {
	if !e.config.HasRole(config.RoleIntake) {
		return nil
	}
	if err := e.listInputs(); err != nil {
		return err
	}
	e.connectAll(ctx)
	for _, in := range e.inputs {
		err := in.err
		if err == nil {
			err = in.open(ctx)
		}
		switch {
		case err == nil:
		case in.err != nil && in.url != e.config.Redis && flow.IsSilent(err):
			e.log.Warn("a server does not answer: the program starts without what it has there, and takes it in when it answers; start the server, or take it out of the configuration",
				"input", in.String(), "redis", in.url, "error", err)
		default:
			return fmt.Errorf("%s: %w", in, err)
		}
	}
	if len(e.lists) > 0 {
		e.leases.AddLists(ingest.ListRole, slices.Clone(e.lists))
	}
	if len(e.config.SuppressionSets) > 0 {
		e.leases.AddPartitions(suppress.SetsRole, e.redis, partitions[:1])
	}
	return nil
}

// listInputs names the inputs of the configuration. The hashes come after the lists.
func (e *core) listInputs() error {
	for _, cfg := range e.config.Lists {
		e.addList(cfg)
	}
	if err := e.addHashes(); err != nil {
		return err
	}
	e.lists = make([]*flow.List, len(e.inputs))
	for _, cfg := range e.config.SuppressionSets {
		e.addSet(cfg)
	}
	return nil
}

// connectAll asks the servers of all inputs side by side: one that hangs takes no time
// from the others. err of an input says how it went.
func (e *core) connectAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, inputWithin)
	defer cancel()
	var asking sync.WaitGroup
	for _, in := range e.inputs {
		asking.Go(func() { in.err = in.connect(ctx) })
	}
	asking.Wait()
}

// inputFollower returns the follower of an input, which opens it first if it is absent.
func (e *core) inputFollower(in *input) follower {
	run := in.run
	if run == nil {
		run = func(fetch, work context.Context) {
			if e.openAbsent(fetch, in) {
				in.run(fetch, work)
			}
		}
	}
	if in.place < 0 {
		return follower{config.RoleIntake, in.source, suppress.SetsRole, run}
	}
	return follower{config.RoleIntake, in.source, "", e.handsOver(ingest.ListRole, in.place, len(e.lists), run)}
}

// openAbsent opens an input whose server was silent at the start. It tries again until it
// can, or fetch ends; false: that has ended.
func (e *core) openAbsent(fetch context.Context, in *input) bool {
	log := e.log.With("input", in.String(), "redis", in.url)
	told := time.Now() // by the start
	for fetch.Err() == nil {
		err := e.tryAbsent(fetch, in)
		if err == nil {
			log.Info("the server answers, and what it has there is taken in from now on")
			e.stats.Forget(in.health)
			return true
		}
		if fetch.Err() != nil {
			break
		}
		e.stats.Failed(in.health, err, e.clock.Now())
		e.opening.Lock()
		changed := flow.IsSilent(in.err) != flow.IsSilent(err)
		in.err = err
		e.opening.Unlock()
		if changed || time.Since(told) >= inputTold {
			told = time.Now()
			level := slog.LevelError
			if flow.IsSilent(err) {
				level = slog.LevelWarn
			}
			log.Log(fetch, level, "what a server has is not taken in yet, trying again", "error", err)
		}
		_ = sluice.Pause(fetch, inputAgain)
	}
	return false
}

// tryAbsent is one attempt to open an input, by the steps of the start.
func (e *core) tryAbsent(ctx context.Context, in *input) error {
	ctx, cancel := context.WithTimeout(ctx, absentWithin)
	defer cancel()
	if err := in.connect(ctx); err != nil {
		return err
	}
	if err := in.open(ctx); err != nil {
		return err
	}
	if in.place >= 0 {
		e.leases.AddList(ingest.ListRole, in.place, in.list)
	}
	return nil
}

// addList adds a list of the configuration.
func (e *core) addList(cfg config.List) {
	in := &input{kind: "list", name: cfg.Name, source: "list:" + cfg.Name, health: "route:" + cfg.Name, url: e.config.ListRedis(cfg), place: len(e.inputs)}
	if cfg.Table != "" {
		in.health = "table:" + cfg.Name
	}
	in.connect = func(ctx context.Context) error {
		redis, err := e.dial(ctx, in.url)
		if err == nil {
			in.list, err = flow.NewList(redis, cfg.Name, flow.Side(cfg.Take))
		}
		return err
	}
	in.open = func(ctx context.Context) error { return e.openList(ctx, in, cfg) }
	e.inputs = append(e.inputs, in)
}

// openList makes the follower of a list.
func (e *core) openList(ctx context.Context, in *input, cfg config.List) error {
	lister := e.lister(in, e.log.With("list", cfg.Name))
	if cfg.Table == "" {
		options := ingest.EventOptions{Dedupe: cfg.Dedupe, App: cfg.AppID, Apart: !cfg.Profile}
		if cfg.Consent {
			options.Origin = sluice.OriginTrusted
		}
		router := &ingest.Router{Lister: lister, Logs: e.logs, Options: options, Bounds: e.timeBounds(), BacklogBytes: e.config.BacklogMB << 20}
		return e.opened(in, router.Run)
	}
	table, mapper, err := e.openTable(ctx, cfg)
	if err != nil {
		return err
	}
	return e.opened(in, (&ingest.TableFollower{Lister: lister, Table: table, Mapper: mapper}).Run)
}

// lister takes a list, or hashes, over, and returns what all that follow one have.
func (e *core) lister(in *input, log *slog.Logger) ingest.Lister {
	in.list.BelongTo(e.deployment, e.config.AcceptGaps)
	return ingest.Lister{
		List: in.list, Place: in.place, Leases: e.leases, Store: e.store, Clock: e.clock, Log: log,
		Stats: e.stats, Gaps: &flow.Gaps{Redis: e.redis}, AcceptGaps: e.config.AcceptGaps, MarginBytes: e.listMargin(),
	}
}

// opened notes that an input is open, and how it is followed. Hashes that are those of
// another server are refused.
func (e *core) opened(in *input, run func(fetch, work context.Context)) error {
	e.opening.Lock()
	defer e.opening.Unlock()
	if in.place >= 0 {
		if slices.ContainsFunc(e.lists, func(l *flow.List) bool { return l != nil && l.Source() == in.list.Source() }) {
			return errors.New(in.url.String() + " has the same hashes as a server before it: two names of one server, or a copy of another? Name it once; on a copy, and there alone, delete all keys that begin with sluice:{" +
				in.name + "}:hashes:" + in.name + ": first: a chunk that stays there stops it later")
		}
		e.lists[in.place] = in.list
	}
	in.run, in.err = run, nil
	return nil
}

// absence is why an input is not open.
type absence struct {
	*input
	err error
}

// openLists are the lists and hashes that are open.
func (e *core) openLists() []*flow.List {
	e.opening.Lock()
	defer e.opening.Unlock()
	return slices.DeleteFunc(slices.Clone(e.lists), func(l *flow.List) bool { return l == nil })
}

// absent returns the inputs that are not open, and why.
func (e *core) absent() (all []absence) {
	e.opening.Lock()
	defer e.opening.Unlock()
	for _, in := range e.inputs {
		if in.err != nil {
			all = append(all, absence{in, fmt.Errorf("%s: %w", in, in.err)})
		}
	}
	return all
}

// absentServers says once of each server why what it has is not open.
func (e *core) absentServers() (all []error) {
	said := make(map[config.URL]bool)
	for _, a := range e.absent() {
		if !said[a.url] {
			said[a.url] = true
			all = append(all, a.err)
		}
	}
	return all
}

// addSet adds a foreign set of the configuration.
func (e *core) addSet(cfg config.SuppressionSet) {
	in := &input{kind: "suppression set", name: cfg.Name, source: mail.SetSource + cfg.Name, health: mail.SetSource + cfg.Name, url: cfg.Redis, place: -1}
	address := cfg.Redis.Reveal()
	if cfg.Redis == "" {
		in.url, address = e.config.Redis, e.redisURL
	}
	in.connect = func(ctx context.Context) (err error) {
		in.set, err = flow.OpenSet(ctx, address, cfg.Name)
		return err
	}
	in.open = func(context.Context) error {
		reason, _ := mail.ParseSuppressReason(cfg.Reason) // it was checked
		return e.opened(in, (&suppress.SetFollower{
			Set: in.set, Below: cfg.Subdomains, Reason: reason,
			Store: e.store, Leases: e.leases, Deployment: e.deployment, Clock: e.clock, Log: e.log, Health: e.stats,
		}).Run)
	}
	e.inputs = append(e.inputs, in)
}
