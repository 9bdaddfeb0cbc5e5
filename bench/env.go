package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/bench/baseline"
	"sluice/test/servers"
)

// env is what a bench runs on: a directory, a Redis, a database.
type env struct {
	run      *run
	dir      string // removed at the end
	redisURL string
	lists    string // where lists are, if not there
	redis    *baseline.Redis
	maria    *mariaStore // nil: not wanted
	closers  []func() error
	pids     map[string]func() int // of the servers that were started here, by name

	lastPeakMB float64 // of the last process of Sluice that drained a backlog
}

const (
	listName = "pepi_queue"
	nextName = "pepi_queue:next" // filled, then renamed into place

	redisServer = "Redis"
	mariaServer = "MariaDB"

	closeWithin     = 60 * time.Second
	rewriteInterval = 20 * time.Millisecond
)

// openEnv starts the servers, or connects to those that were named. The caller
// closes it, also after an error.
func openEnv(ctx context.Context, r *run, withMaria bool) (*env, error) {
	e := &env{run: r, pids: make(map[string]func() int)}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return e, fmt.Errorf("make a directory for the bench: %w", err)
	}
	e.dir = dir
	e.closers = append(e.closers, func() error { return os.RemoveAll(dir) })
	// The database's own user must reach the files it loads.
	if err := os.Chmod(dir, 0o711); err != nil {
		return e, fmt.Errorf("open the bench's directory to the database: %w", err)
	}
	if err := e.openRedis(ctx); err != nil {
		return e, err
	}
	if withMaria {
		err = e.openMaria(ctx)
	}
	return e, err
}

// close ends everything, last opened first.
func (e *env) close() error {
	var errs []error
	for i := len(e.closers) - 1; i >= 0; i-- {
		errs = append(errs, e.closers[i]())
	}
	return errors.Join(errs...)
}

func stopServer(stop func(context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		return stop(ctx)
	}
}

func (e *env) openRedis(ctx context.Context) error {
	e.redisURL = e.run.redis
	if e.redisURL == "" {
		e.run.say("start a private Redis, appendfsync always")
		server, err := servers.StartRedis(ctx, servers.RedisOptions{Dir: filepath.Join(e.dir, "redis"), Listen: "tcp"})
		if err != nil {
			return err
		}
		e.closers = append(e.closers, stopServer(server.Stop))
		e.redisURL = server.URL()
		e.pids[redisServer] = server.Pid
	}
	redis, err := baseline.Dial(e.redisURL)
	if err != nil {
		return err
	}
	e.redis = redis
	e.closers = append(e.closers, func() error { redis.Close(); return nil })
	n, err := redis.Keys(ctx)
	if err != nil {
		return err
	}
	if n > 0 {
		return fmt.Errorf("the redis database of --redis holds %d keys, and the bench empties it: name an empty one", n)
	}
	info, err := redis.Info(ctx, "server")
	if err != nil {
		return err
	}
	e.run.report.Versions["redis"] = info["redis_version"]
	settings, err := redis.Settings(ctx, "appendonly", "appendfsync")
	if err != nil {
		return err
	}
	e.run.report.Settings["redis"] = "appendonly " + settings["appendonly"] + ", appendfsync " + settings["appendfsync"]
	return nil
}

func (e *env) openMaria(ctx context.Context) error {
	url := e.run.database
	if url == "" {
		e.run.say("start a private MariaDB, default settings but for --database-memory")
		server, err := servers.StartMariaDB(ctx, servers.MariaDBOptions{Dir: filepath.Join(e.dir, "mariadb"), Extra: e.run.mariaMemory()})
		if err != nil {
			return err
		}
		e.closers = append(e.closers, stopServer(server.Stop))
		if err := server.CreateDatabase(ctx, "bench"); err != nil {
			return err
		}
		url = server.URL("bench")
		e.pids[mariaServer] = server.Pid
	}
	db, err := baseline.OpenMySQL(url)
	if err != nil {
		return err
	}
	e.closers = append(e.closers, db.Close)
	e.maria = &mariaStore{address: url, db: db, files: filepath.Join(e.dir, "files")}
	if err := os.Mkdir(e.maria.files, 0o755); err != nil {
		return fmt.Errorf("make a directory for the files to load: %w", err)
	}
	tables, err := e.maria.tables(ctx)
	if err != nil {
		return err
	}
	if len(tables) > 0 {
		return fmt.Errorf("the database of --database has tables (%s), and the bench drops them: name an empty one", strings.Join(tables, ", "))
	}
	var version, pool string
	err = db.QueryRowContext(ctx, "SELECT VERSION(), CONCAT('innodb_buffer_pool_size ', @@innodb_buffer_pool_size, ', innodb_flush_log_at_trx_commit ', @@innodb_flush_log_at_trx_commit, ', sync_binlog ', @@sync_binlog, ', log_bin ', @@log_bin)").Scan(&version, &pool)
	if err != nil {
		return fmt.Errorf("read the database's version: %w", err)
	}
	e.run.report.Versions["database"] = version
	e.run.report.Settings["database"] = pool
	return nil
}

// How the list is filled: elements a command, commands a round trip.
const (
	pushItems    = 1000
	pushCommands = 8
)

// fill pushes the elements to a list, in order.
func (e *env) fill(ctx context.Context, key string, elements elements) error {
	buf := make([]byte, 0, 256)
	for i := elements.first; i < elements.first+elements.count; {
		var groups [][]string
		for len(groups) < pushCommands && i < elements.first+elements.count {
			items := make([]string, 0, pushItems)
			for ; len(items) < pushItems && i < elements.first+elements.count; i++ {
				x := at(i)
				items = append(items, string(x.appendJSON(buf[:0])))
			}
			groups = append(groups, items)
		}
		if err := e.redis.Push(ctx, key, groups...); err != nil {
			return err
		}
	}
	return nil
}

// prefill empties Redis, fills the list under another name, and has Redis
// rewrite its append-only file now rather than in the middle of a run.
func (e *env) prefill(ctx context.Context, elements elements) error {
	if err := e.redis.Clear(ctx); err != nil {
		return err
	}
	if err := e.fill(ctx, nextName, elements); err != nil {
		return err
	}
	if err := e.redis.Rewrite(ctx); err != nil {
		return err
	}
	for {
		info, err := e.redis.Info(ctx, "persistence")
		if err != nil {
			return err
		}
		if info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0" {
			return nil
		}
		if err := pause(ctx, rewriteInterval); err != nil {
			return fmt.Errorf("wait for redis to rewrite its file: %w", err)
		}
	}
}

// release puts the filled list in its place, in one step.
func (e *env) release(ctx context.Context) error {
	return e.redis.Rename(ctx, nextName, listName)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// store is a database of a bench.
type database interface {
	url() string
	// fresh makes all tables anew, empty.
	fresh(ctx context.Context) error
	handle() *sql.DB
	// placeholder is the first one of a statement.
	placeholder() string
	// millis is a time as the standard table's column compares it.
	millis(ms int64) any
	// bulk loads the elements by the database's own bulk path.
	bulk(ctx context.Context, t *table, elements elements) (time.Duration, error)
}
