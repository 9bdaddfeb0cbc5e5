package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice"
	"sluice/config"
	"sluice/flow"
	"sluice/ingest"
	"sluice/lib/child"
	"sluice/store"
	"sluice/store/sqlstore"
)

// This file connects the commands that work beside a running program.

// EmbeddedNote is the file that says where a data directory's embedded Redis
// listens: its socket may lie elsewhere, if the directory's path is too long
// for one.
func EmbeddedNote(cfg *config.Config) string { return filepath.Join(cfg.Data, "redis", "url") }

// noteEmbedded writes EmbeddedNote for an engine with an embedded Redis.
func noteEmbedded(cfg *config.Config, e *core) error {
	if e.child == nil {
		return nil
	}
	if err := os.WriteFile(EmbeddedNote(cfg), []byte(e.child.URL()), 0o600); err != nil {
		return fmt.Errorf("note where the embedded redis listens: %w", err)
	}
	return nil
}

// OpenStore connects to the database of a configuration, beside processes that
// serve.
func OpenStore(ctx context.Context, cfg *config.Config) (*sqlstore.Store, error) {
	if file, ok := strings.CutPrefix(string(cfg.Database), "sqlite:"); ok {
		file, _, _ = strings.Cut(file, "?")
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("open database: %w; is --data or --database right? `sluice migrate` makes a new one", err)
		}
	}
	store, err := sqlstore.Open(ctx, cfg.Database.Reveal(), sqlstore.Options{})
	if err != nil {
		return nil, fmt.Errorf("%w; does it run, and is --database right?", err)
	}
	if err := AdoptPartitions(ctx, cfg, store); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// DialRunning connects to the main Redis. An embedded one is there only while
// a program runs on the data directory.
func DialRunning(ctx context.Context, cfg *config.Config) (*flow.Redis, error) {
	if cfg.Redis != config.RedisEmbedded {
		return flow.Dial(ctx, cfg.Redis.Reveal())
	}
	url, err := os.ReadFile(EmbeddedNote(cfg))
	if err != nil {
		return nil, fmt.Errorf("find the embedded redis: no sluice has run on the data directory %s; start one, or name the right one with --data", cfg.Data)
	}
	r, err := flow.Dial(ctx, string(url))
	if err != nil {
		return nil, fmt.Errorf("find the embedded redis of the data directory %s (start sluice on it): %w", cfg.Data, err)
	}
	return r, nil
}

// DialOrStart is DialRunning that starts the embedded Redis if none runs. The
// returned function ends the connection, and the server if it was started.
func DialOrStart(ctx context.Context, cfg *config.Config) (*flow.Redis, func() error, error) {
	r, err := DialRunning(ctx, cfg)
	if err == nil {
		return r, func() error { r.Close(); return nil }, nil
	}
	if cfg.Redis != config.RedisEmbedded {
		return nil, nil, err
	}
	child, err := startEmbedded(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	stop := func() error {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CloseTimeout)
		defer cancel()
		return child.Stop(stopCtx)
	}
	if r, err = flow.Dial(ctx, child.URL()); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return r, func() error { r.Close(); return stop() }, nil
}

// startEmbedded starts the embedded Redis of a data directory.
func startEmbedded(ctx context.Context, cfg *config.Config) (*child.Redis, error) {
	dir := filepath.Join(cfg.Data, "redis")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the embedded redis's directory: %w", err)
	}
	return child.StartRedis(ctx, child.RedisOptions{Dir: dir, MaxMemory: embeddedLimit(cfg)})
}

// LogsOf returns the logs of all partitions.
func LogsOf(r *flow.Redis, cfg *config.Config) []*flow.Log {
	var logs []*flow.Log
	for _, p := range flow.Partitions(cfg.Partitions) {
		logs = append(logs, flow.NewLog(r, p))
	}
	return logs
}

// errNotDrained is why a process cannot replay dead letters of lists and hashes that it has
// not opened.
var errNotDrained = sluice.Refuse(sluice.CodeConflict, "this process cannot replay dead letters of lists and hashes, since it does not drain them (`roles`); ask one with the role %s, or run `sluice dead replay`", config.RoleIntake)

// replay does again what has become a dead letter (ingest.Replayer).
func (e *core) replay(ctx context.Context, id int64) error {
	replayer := &ingest.Replayer{Store: e.store, Lists: make(map[string]*flow.List), Missing: make(map[string]error), Logs: e.logs, Replicas: Replicas(e.config)}
	if !e.config.HasRole(config.RoleIntake) {
		for _, l := range e.config.Lists {
			replayer.Missing["list:"+l.Name] = errNotDrained
		}
		for _, h := range e.config.Hashes {
			replayer.Missing["hashes:"+h.Dirty] = errNotDrained
		}
	}
	for _, a := range e.absent() {
		replayer.Missing[a.source] = a.err
	}
	for _, l := range e.openLists() {
		replayer.Lists[l.Source()] = l
	}
	err := replayer.Replay(ctx, id)
	if err == nil {
		e.stats.Replayed.Add(1)
	}
	return err
}

// OpenReplayer connects what a replay needs: the logs, and the lists of the
// configuration on their servers, as far as these answer. A Redis of another deployment
// is refused: what goes to its logs leaves the database, and nobody stores it there. The
// returned function ends the connections.
func OpenReplayer(ctx context.Context, cfg *config.Config, store store.Store) (*ingest.Replayer, func() error, error) {
	main, lists, missing, stop, err := openAnswering(ctx, cfg, true)
	if err != nil {
		return nil, nil, err
	}
	if _, err := flow.SameDeployment(ctx, main, store); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("replay dead letters: %w", err), stop())
	}
	ingest.RaiseBy(main, store, slog.Default())
	replayer := &ingest.Replayer{Store: store, Lists: map[string]*flow.List{}, Missing: missing, Logs: LogsOf(main, cfg), Replicas: Replicas(cfg)}
	for _, l := range lists {
		replayer.Lists[l.Source()] = l
	}
	return replayer, stop, nil
}

// OpenRedis is DialOrStart, and connects the lists and hashes of the configuration, on the
// main server and others. The returned function undoes both.
func OpenRedis(ctx context.Context, cfg *config.Config) (main *flow.Redis, lists []*flow.List, closeAll func() error, err error) {
	main, lists, missing, closeAll, err := openAnswering(ctx, cfg, true)
	if err != nil {
		return nil, nil, nil, err
	}
	var errs []error
	for _, source := range slices.Sorted(maps.Keys(missing)) {
		kind, name, _ := strings.Cut(source, ":")
		errs = append(errs, fmt.Errorf("%s %s: %w", kind, name, missing[source]))
	}
	if len(errs) > 0 {
		return nil, nil, nil, errors.Join(append(errs, closeAll())...)
	}
	return main, lists, closeAll, nil
}

// OpenForBackup is OpenRedis without what a backup goes on without: hashes, of which none
// has a copy, and lists whose server does not answer. missing says why, by their names.
func OpenForBackup(ctx context.Context, cfg *config.Config) (main *flow.Redis, lists []*flow.List, missing map[string]error, closeAll func() error, err error) {
	main, lists, silent, closeAll, err := openAnswering(ctx, cfg, false)
	missing = make(map[string]error)
	for source, why := range silent {
		missing[strings.TrimPrefix(source, "list:")] = why
	}
	return main, lists, missing, closeAll, err
}

// openAnswering is DialOrStart, and connects lists, and hashes if they are wanted. missing
// says why it could not, by the source of a list, and by that of hashes without their id.
func openAnswering(ctx context.Context, cfg *config.Config, hashes bool) (main *flow.Redis, lists []*flow.List, missing map[string]error, closeAll func() error, err error) {
	main, stop, err := DialOrStart(ctx, cfg)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	e := &core{config: cfg, redis: main}
	closeAll = func() error { e.others.close(); return stop() }
	missing = make(map[string]error)
	silent := make(map[config.URL]error) // asked once: it may take seconds
	dial := func(url config.URL) (r *flow.Redis, err error) {
		if silent[url] == nil {
			r, silent[url] = e.dial(ctx, url)
		}
		return r, silent[url]
	}
	for _, l := range cfg.Lists {
		r, err := dial(cfg.ListRedis(l))
		if err != nil {
			missing["list:"+l.Name] = err
			continue
		}
		list, err := flow.NewList(r, l.Name, flow.Side(l.Take))
		if err != nil {
			return nil, nil, nil, nil, errors.Join(err, closeAll())
		}
		lists = append(lists, list)
	}
	for _, h := range cfg.Hashes {
		for _, url := range h.Redis {
			if !hashes {
				continue
			}
			r, err := dial(url)
			var named *flow.List
			if err == nil {
				named, err = flow.NewHashes(ctx, r, h.Dirty)
			}
			if err != nil {
				missing["hashes:"+h.Dirty] = err
				continue
			}
			lists = append(lists, named)
		}
	}
	return main, lists, missing, closeAll, nil
}

// Running is what a command shares with the engines that run.
type Running struct {
	Config *config.Config
	Store  *sqlstore.Store
	Redis  *flow.Redis
}

// Join connects to what a configuration names, and makes sure that an engine is at
// work on it: logs that nobody stores fill up. The caller closes it.
func Join(ctx context.Context, cfg *config.Config) (*Running, error) {
	r := &Running{Config: cfg}
	var err error
	if r.Store, err = OpenStore(ctx, cfg); err != nil {
		return nil, err
	}
	if r.Redis, err = DialRunning(ctx, cfg); err == nil {
		err = CheckRunning(ctx, cfg, r.Store, r.Redis)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	ingest.RaiseBy(r.Redis, r.Store, slog.Default())
	return r, nil
}

// Close ends the connections.
func (r *Running) Close() error {
	if r.Redis != nil {
		r.Redis.Close()
	}
	return r.Store.Close()
}

// CheckRunning wants a program at work on what the configuration names: logs
// that nobody stores fill up, and those of other partitions nobody reads.
func CheckRunning(ctx context.Context, cfg *config.Config, store *sqlstore.Store, redis *flow.Redis) error {
	d, err := flow.SameDeployment(ctx, redis, store)
	if err != nil {
		return err
	}
	living, err := flow.Living(ctx, redis, false)
	switch {
	case err != nil:
		return err
	case d.Partitions != cfg.Partitions:
		return fmt.Errorf("the database has %d partitions, the configuration says %d", d.Partitions, cfg.Partitions)
	case living == 0:
		return fmt.Errorf("no program runs on redis %s that would store the events: start `sluice serve`", redis)
	}
	return nil
}

// SpillDir is where a process spills to.
func SpillDir(cfg *config.Config) string { return filepath.Join(cfg.Data, "spill") }

// RedisURLs returns every Redis of a configuration once, the main one first.
func RedisURLs(cfg *config.Config) []config.URL {
	urls := []config.URL{cfg.Redis}
	seen := map[config.URL]bool{cfg.Redis: true}
	add := func(url config.URL) {
		if !seen[url] {
			seen[url] = true
			urls = append(urls, url)
		}
	}
	for _, l := range cfg.Lists {
		add(cfg.ListRedis(l))
	}
	for _, h := range cfg.Hashes {
		for _, url := range h.Redis {
			add(url)
		}
	}
	return urls
}
