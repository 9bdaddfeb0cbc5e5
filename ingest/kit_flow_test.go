package ingest_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/rueidis"
	_ "modernc.org/sqlite"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/logtest"
	"sluice/test/servers"
	"sluice/test/tables"
	"sluice/user"
)

// The kit of the *_flow_test.go files: real servers, and the parts of the
// program put together as cmd/sluice does it.

const (
	// settleWithin bounds every wait.
	settleWithin = 5 * time.Minute

	testPartitions = 4
)

var dialects = []string{"sqlite", "mariadb"}

// testServers are started when a test first needs them, and end with the binary.
var testServers struct {
	dir       string
	redis     map[string]func() (*servers.Redis, error) // by the dialect that is tested beside it
	maria     func() (*servers.MariaDB, error)
	databases atomic.Int64
}

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	s := &testServers
	var err error
	if s.dir, err = os.MkdirTemp("", "sluice-ingest-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(s.dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var started []interface{ Kill() error }
	var mu sync.Mutex // of started
	s.redis = map[string]func() (*servers.Redis, error){}
	for _, dialect := range dialects {
		s.redis[dialect] = sync.OnceValues(func() (*servers.Redis, error) {
			r, err := servers.StartRedis(ctx, servers.RedisOptions{Dir: filepath.Join(s.dir, "redis-"+dialect), AppendFsync: "no"})
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				started = append(started, r)
			}
			return r, err
		})
	}
	s.maria = sync.OnceValues(func() (*servers.MariaDB, error) {
		d, err := servers.StartMariaDB(ctx, servers.MariaDBOptions{Dir: filepath.Join(s.dir, "maria"), Extra: []string{"--innodb-flush-log-at-trx-commit=0", "--loose-debug-no-sync"}})
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			started = append(started, d)
		}
		return d, err
	})
	defer func() {
		for _, server := range started {
			_ = server.Kill()
		}
	}()
	return m.Run()
}

// bed is what a test works on: an emptied Redis and an empty database.
type bed struct {
	*testing.T
	dialect string // "sqlite" or "mariadb"
	raw     rueidis.Client
	url     string // of the database
	db      *sql.DB
}

// onEach runs a test on each kind of database.
func onEach(t *testing.T, test func(b *bed)) {
	t.Run("on", func(t *testing.T) { // ends when both have
		for _, dialect := range dialects {
			t.Run(dialect, func(t *testing.T) {
				t.Parallel()
				test(newBed(t, dialect))
			})
		}
	})
}

// onEachAlone is onEach for tests that arm failpoints, which are the process's.
func onEachAlone(t *testing.T, test func(b *bed)) {
	for _, dialect := range dialects {
		t.Run(dialect, func(t *testing.T) { test(newBed(t, dialect)) })
	}
}

// server is the bed's Redis. Nobody else uses it meanwhile.
func (b *bed) server() *servers.Redis {
	b.Helper()
	server, err := testServers.redis[b.dialect]()
	b.must(err)
	return server
}

func newBed(t *testing.T, dialect string) *bed {
	t.Helper()
	b := &bed{T: t, dialect: dialect}
	server := b.server()
	option, err := rueidis.ParseURL(server.URL())
	b.must(err)
	option.DisableCache = true
	b.raw, err = rueidis.NewClient(option)
	b.must(err)
	t.Cleanup(b.raw.Close)
	b.do("FLUSHALL")
	if dialect == "sqlite" {
		file := filepath.Join(t.TempDir(), "test.db")
		tables.Make(t, file)
		b.open("sqlite:"+file, "sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
		return b
	}
	maria, err := testServers.maria()
	b.must(err)
	name := fmt.Sprintf("test_%d", testServers.databases.Add(1))
	tables.MakeMariaDB(t, maria, name)
	b.use(maria, name)
	return b
}

// use makes an empty database of a MariaDB the one that b works on.
func (b *bed) use(maria *servers.MariaDB, name string) {
	b.Helper()
	b.open(maria.SocketURL(name), "mysql", maria.DSN(name))
}

func (b *bed) open(url, driver, dsn string) {
	b.Helper()
	db, err := sql.Open(driver, dsn)
	b.must(err)
	b.Cleanup(func() { _ = db.Close() })
	b.url, b.db = url, db
	store, err := sqlstore.Open(b.Context(), url, calm)
	b.must(err)
	b.must(store.Migrate(b.Context()))
	b.must(store.Close())
}

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// do runs a Redis command.
func (b *bed) do(words ...string) any {
	b.Helper()
	v, err := b.raw.Do(b.Context(), b.raw.B().Arbitrary(words...).Build()).ToAny()
	if err != nil && !rueidis.IsRedisNil(err) {
		b.Fatalf("%.200q: %v", words, err)
	}
	return v
}

func (b *bed) doInt(words ...string) int64 {
	b.Helper()
	n, ok := b.do(words...).(int64)
	if !ok {
		b.Fatalf("%q did not answer with a number", words)
	}
	return n
}

// push pushes elements as a foreign program does, a few hundred at a time.
func (b *bed) push(list string, elements ...string) {
	b.Helper()
	b.pushBy("RPUSH", list, elements...)
}

func (b *bed) pushBy(command, list string, elements ...string) {
	b.Helper()
	for len(elements) > 0 {
		n := min(len(elements), 500)
		b.do(append([]string{command, list}, elements[:n]...)...)
		elements = elements[n:]
	}
}

// logKey is the key of a partition's log, which must exist.
func (b *bed) logKey(partition int) string {
	b.Helper()
	keys, _ := b.do("KEYS", fmt.Sprintf("sluice:{p%d.*}:log", partition)).([]any)
	if len(keys) != 1 {
		b.Fatalf("keys of the log of partition %d: %v", partition, keys)
	}
	return keys[0].(string)
}

// exec runs a statement; forSQLite stands for it on SQLite unless it is "".
func (b *bed) exec(statement, forSQLite string) {
	b.Helper()
	if b.dialect == "sqlite" && forSQLite != "" {
		statement = forSQLite
	}
	if _, err := b.db.ExecContext(b.Context(), statement); err != nil {
		b.Fatalf("%s: %v", statement, err)
	}
}

// query returns what a query finds: cells joined by "|", NULL as <null>.
func (b *bed) query(statement string, args ...any) []string {
	b.Helper()
	rows, err := b.db.QueryContext(b.Context(), statement, args...)
	if err != nil {
		b.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	b.must(err)
	var all []string
	for rows.Next() {
		cells, to := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range cells {
			to[i] = &cells[i]
		}
		b.must(rows.Scan(to...))
		texts := make([]string, len(names))
		for i, c := range cells {
			if texts[i] = c.String; !c.Valid {
				texts[i] = "<null>"
			}
		}
		all = append(all, strings.Join(texts, "|"))
	}
	b.must(rows.Err())
	return all
}

func (b *bed) count(table string) int {
	b.Helper()
	var n int
	if err := b.db.QueryRowContext(b.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
		b.Fatalf("count %s: %v", table, err)
	}
	return n
}

// eventually waits for a condition, which is all that is asked of time here.
func (b *bed) eventually(what string, ok func() bool) {
	b.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > settleWithin {
			b.Fatalf("waited in vain until %s", what)
		}
		clocktest.Rest(began)
	}
}

// awaitSum waits until rows of a table and dead letters are so many together.
func (b *bed) awaitSum(table string, want int) {
	b.Helper()
	b.eventually(fmt.Sprintf("%s and dead letters are %d together", table, want), func() bool {
		return b.count(table)+b.count("dead_letters") >= want
	})
}

// checkCounts fails unless the counts are exact.
func (b *bed) checkCounts(table string, rows, dead int) {
	b.Helper()
	if r, d := b.count(table), b.count("dead_letters"); r != rows || d != dead {
		for _, line := range b.query("SELECT source, form, reason FROM dead_letters LIMIT 20") {
			b.Logf("dead: %.200s", line)
		}
		b.Fatalf("%d rows in %s and %d dead letters, want %d and %d", r, table, d, rows, dead)
	}
}

// letters returns all dead letters with their payloads, by payload.
func (b *bed) letters(store store.Store) map[string]sluice.DeadLetter {
	b.Helper()
	all := make(map[string]sluice.DeadLetter)
	after := int64(0)
	for {
		some, err := store.DeadLetters(b.Context(), after, 500)
		b.must(err)
		if len(some) == 0 {
			return all
		}
		for _, l := range some {
			d, err := store.DeadLetter(b.Context(), l.ID)
			b.must(err)
			all[string(d.Payload)], after = d, l.ID
		}
	}
}

// calm is for stores that no fault meets: a busy machine may rest in the midst of a
// transaction for longer than a process that works may.
var calm = sqlstore.Options{SessionTimeout: 30 * time.Second}

// setup says what an engine runs.
type setup struct {
	lists      []listSetup
	hashes     []string // URLs of servers; nil: none
	noStore    bool     // another process stores
	noIntake   bool
	calm       bool // no fault meets its store
	acceptGaps bool
	partitions int                           // 0: testPartitions
	listBytes  int                           // that a list to a table keeps; 0: 16 MiB
	clock      sluice.Clock                  // of lists; nil: the system's
	store      func(store.Store) store.Store // wraps it; nil: as it is
	factsUpTo  func(partition int) (sluice.Place, bool)
	queue      ingest.Queue
	writers    int    // of the store; 0: one
	redis      string // the URL of a Redis; "": the bed's
	replicas   flow.Replicas
}

func (s *setup) options() sqlstore.Options {
	if s.calm {
		return calm
	}
	return sqlstore.Options{}
}

func (s *setup) listMargin() int {
	if s.listBytes == 0 {
		return 16 << 20
	}
	return s.listBytes
}

type listSetup struct {
	name    string
	table   string
	columns []ingest.RowColumn
	dedupe  string
	app     string
	apart   bool      // its events count for no profile
	side    flow.Side // "": left
}

// engine is a process of the program, as cmd/sluice/wire.go builds it.
type engine struct {
	b         *bed
	log       *logBuffer
	redis     *flow.Redis
	others    []*flow.Redis
	store     store.Store
	stats     *ingest.Stats
	leases    *flow.Leases
	logs      []*flow.Log
	lists     []*flow.List
	followers []func(fetch, work context.Context)

	stopFetch, stopWork, stopLeases context.CancelFunc
	running, leasing                sync.WaitGroup
	closed                          bool
}

// newEngine builds one; nothing runs yet.
func newEngine(b *bed, s setup) *engine {
	b.Helper()
	e := &engine{b: b, log: &logBuffer{}, stats: &ingest.Stats{}}
	var err error
	e.redis, err = flow.Dial(b.Context(), cmp.Or(s.redis, b.server().URL()))
	b.must(err)
	e.store, err = sqlstore.Open(b.Context(), b.url, s.options())
	b.must(err)
	if s.store != nil {
		e.store = s.store(e.store)
	}
	log := slog.New(slog.NewTextHandler(e.log, nil))
	if s.partitions == 0 {
		s.partitions = testPartitions
	}
	if s.clock == nil {
		s.clock = sluice.SystemClock{}
	}
	partitions := flow.Partitions(s.partitions)
	for _, p := range partitions {
		e.logs = append(e.logs, flow.NewLog(e.redis, p))
	}
	e.leases = flow.NewLeases(e.redis, e.store, log)
	e.leases.Beat, e.leases.Timeout = 200*time.Millisecond, time.Second // successors of killed ones need not wait
	if !s.noStore {
		e.leases.AddPartitions(ingest.StoreRole, e.redis, partitions)
		for i, db := range e.writers(&s) {
			f := &ingest.StoreFollower{Logs: e.logs, Leases: e.leases, Writer: i, Writers: s.writers, TakeTurns: strings.HasPrefix(b.url, "sqlite:"), Store: db, Users: db.(user.Store), Journeys: db.(store.JourneyStore), FactsUpTo: s.factsUpTo, Replicas: s.replicas, Clock: sluice.SystemClock{}, Log: log, Stats: e.stats, Gaps: &flow.Gaps{Redis: e.redis}, AcceptGaps: s.acceptGaps, MarginBytes: 16 << 20, Queue: s.queue}
			e.followers = append(e.followers, f.Run)
		}
	}
	for i, l := range s.lists {
		e.addList(i, l, s, log)
	}
	e.addHashes(s, log)
	if len(e.lists) > 0 && !s.noIntake {
		e.leases.AddLists(ingest.ListRole, e.lists)
	}
	b.Cleanup(func() {
		e.stop()
		if b.Failed() {
			b.Logf("log of the engine:\n%.8000s", e.log)
		}
	})
	return e
}

// writers returns what the followers of the store write by: a store each, or the one of a
// file that has one writer.
func (e *engine) writers(s *setup) []store.Store {
	all := []store.Store{e.store}
	if s.store != nil {
		s.writers = 1
	}
	for len(all) < s.writers {
		if strings.HasPrefix(e.b.url, "sqlite:") {
			all = append(all, e.store)
			continue
		}
		db, err := sqlstore.Open(e.b.Context(), e.b.url, s.options())
		e.b.must(err)
		e.b.Cleanup(func() { _ = db.Close() })
		all = append(all, db)
	}
	return all
}

func (e *engine) addList(i int, l listSetup, s setup, log *slog.Logger) {
	e.b.Helper()
	if l.side == "" {
		l.side = flow.Left
	}
	list, err := flow.NewList(e.redis, l.name, l.side)
	e.b.must(err)
	e.lists = append(e.lists, list)
	if s.noIntake {
		return
	}
	lister := ingest.Lister{List: list, Place: i, Leases: e.leases, Store: e.store, Clock: s.clock, Log: log, Stats: e.stats, Gaps: &flow.Gaps{Redis: e.redis}, AcceptGaps: s.acceptGaps, MarginBytes: s.listMargin()}
	if l.table == "" {
		r := &ingest.Router{Lister: lister, Logs: e.logs, Options: ingest.EventOptions{Dedupe: l.dedupe, App: l.app, Apart: l.apart}}
		e.followers = append(e.followers, r.Run)
		return
	}
	mapper, err := ingest.NewRowMapper(l.columns, l.dedupe)
	e.b.must(err)
	spec := store.TableSpec{Table: l.table}
	for _, c := range l.columns {
		spec.Columns = append(spec.Columns, c.Column)
		if c.Field == l.dedupe {
			spec.Dedupe = c.Column
		}
	}
	table, err := e.store.OpenTable(e.b.Context(), spec)
	e.b.must(err)
	f := &ingest.TableFollower{Lister: lister, Table: table, Mapper: mapper}
	e.followers = append(e.followers, f.Run)
}

// start runs an engine built from s.
func start(b *bed, s setup) *engine {
	b.Helper()
	e := newEngine(b, s)
	e.run()
	return e
}

func (e *engine) run() {
	var leaseCtx, fetch, work context.Context
	leaseCtx, e.stopLeases = context.WithCancel(context.Background())
	fetch, e.stopFetch = context.WithCancel(context.Background())
	work, e.stopWork = context.WithCancel(context.Background())
	e.leasing.Go(func() { _ = e.leases.Run(leaseCtx) })
	for _, f := range e.followers {
		e.running.Go(func() { f(fetch, work) })
	}
}

// stop ends the engine in two phases: what is in hand is applied.
func (e *engine) stop() { e.end(false) }

// abort ends the engine in the middle of its work, but it gives its leases
// back, so that nobody has to wait for them.
func (e *engine) abort() { e.end(true) }

func (e *engine) end(atOnce bool) {
	if e.closed {
		return
	}
	e.closed = true
	if e.stopFetch != nil {
		if atOnce {
			e.stopWork()
		}
		e.stopFetch()
		e.running.Wait()
		e.stopWork()
		e.stopLeases()
		e.leasing.Wait()
	}
	e.redis.Close()
	for _, r := range e.others {
		r.Close()
	}
	if err := e.store.Close(); err != nil && !errors.Is(err, context.Canceled) {
		e.b.Error(err)
	}
}

// logBuffer keeps what an engine logs.
type logBuffer struct{ logtest.Buffer }

// speaksOfAGap looks for the word: the random name of a process may have its letters.
func (l *logBuffer) speaksOfAGap() bool { return l.has(" gap") || l.has(`"gap`) }

func (l *logBuffer) has(parts ...string) bool {
	for line := range strings.Lines(l.String()) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return true
		}
	}
	return false
}

func columns(pairs ...string) []ingest.RowColumn {
	var all []ingest.RowColumn
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, ingest.RowColumn{Column: pairs[i], Field: pairs[i+1]})
	}
	return all
}
