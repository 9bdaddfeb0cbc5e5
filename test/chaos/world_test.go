package chaos

import (
	"bytes"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/rueidis"

	"sluice/flow"
	"sluice/lib/faults"
	"sluice/test/proxy"
	"sluice/test/servers"
)

var (
	kills = flag.Int("kills", 4, "how many random kills TestRandomKills makes, and the tests like it")
	seed  = flag.Uint64("seed", 0, "seed of TestRandomKills; 0: a new one, printed")
	bound = flag.Duration("for", 25*time.Minute, "TestRandomKills makes no further kill after this long")
)

// binary is the program, built once.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	if binary = *onBinary; binary != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "sluice-chaos-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "sluice")
	build := exec.Command("go", "build", "-o", binary, "sluice/cmd/sluice")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

const (
	// settleWithin bounds every wait for the program to get over a fault, on a machine
	// that may be ten times slower than most.
	settleWithin = 3 * time.Minute

	// requestWithin bounds a request, which is made again then.
	requestWithin = 30 * time.Second

	// pushElements are pushed in one go, by each push. They are two pages of a list: how
	// often a step is met depends on the pushes, how much all compute on the elements.
	pushElements = 100

	// pushEvery is the pause between pushes. Elements that pile up while no
	// program is at work must be stored before a test goes on.
	pushEvery = 40 * time.Millisecond

	partitions = 4
)

// world is the servers, the program, and a producer that knows what it pushed.
type world struct {
	t     *testing.T
	dir   string
	redis *servers.Redis
	base  database
	db    *sql.DB   // of the database, past the proxy
	url   string    // of the database, by the proxy
	until time.Time // no random kill after

	// roles is what programs do from now on; empty: all. One that does not send
	// has nothing on the wire when it dies, so that nothing may be in doubt.
	roles string

	redisProxy, baseProxy *proxy.Proxy // between the program and its servers

	mu       sync.Mutex
	programs []*program

	pushing  sync.WaitGroup
	stopPush context.CancelFunc
	flood    bool  // push without a pause
	pushed   int64 // elements in each of the two lists; set when pushing ends
}

// program is one running sluice.
type program struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// The inputs of a program. The list q_table goes to a table without a unique
// key, the list q_events to the standard table, both without dedupe. So a
// double is seen, as it is in the counts of the hashes.
const (
	inputLists = `
lists:
  q_table: {table: target, columns: {id: id, event: event}}
  q_events: {}
`
	inputHashes = `
hashes:
  - {dirty: buffered, key: "{app_id}|{date}|{name}"}
`
)

// database is a server that can be killed.
type database interface {
	Kill() error
	Restart(ctx context.Context) error
}

// The databases that a world may be on.
const (
	onMariaDB  = "mariadb"
	onPostgres = "postgres"
)

// newWorld starts the servers, with MariaDB.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, onMariaDB)
}

func newWorldOn(t *testing.T, kind string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), until: time.Now().Add(*bound)}
	ctx := t.Context()
	var err error
	if w.redis, err = servers.StartRedis(ctx, servers.RedisOptions{Dir: filepath.Join(w.dir, "redis"), Listen: "tcp"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.redis.Kill() })
	if kind == onPostgres {
		w.startPostgres()
	} else {
		w.startMariaDB()
	}
	// The index is for passed, which asks again and again what was stored last.
	for _, statement := range []string{"CREATE TABLE target (id BIGINT, event VARCHAR(32))", "CREATE INDEX target_id ON target (id)"} {
		if _, err := w.db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	if w.redisProxy, err = proxy.New("tcp", w.redis.Addr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.redisProxy.Close() })
	w.writeConfig(inputLists + inputHashes)
	t.Cleanup(w.end)
	return w
}

func (w *world) startMariaDB() {
	w.t.Helper()
	m, err := servers.StartMariaDB(w.t.Context(), servers.MariaDBOptions{Dir: filepath.Join(w.dir, "maria")})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = m.Kill() })
	if err := m.CreateDatabase(w.t.Context(), "chaos"); err != nil {
		w.t.Fatal(err)
	}
	w.base = m
	w.reach("mysql", m.DSN("chaos"), m.Addr(), "mysql://root@%s/chaos")
}

func (w *world) startPostgres() {
	w.t.Helper()
	p, err := servers.StartPostgres(w.t.Context(), servers.PostgresOptions{Dir: filepath.Join(w.dir, "postgres")})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = p.Kill() })
	if err := p.CreateDatabase(w.t.Context(), "chaos"); err != nil {
		w.t.Fatal(err)
	}
	w.base = p
	w.reach("pgx", p.URL("chaos"), p.Addr(), "postgres://postgres@%s/chaos?sslmode=disable")
}

// reach opens the ways to the database: ours, and the program's by a proxy.
func (w *world) reach(driver, dsn, address, url string) {
	w.t.Helper()
	var err error
	if w.db, err = sql.Open(driver, dsn); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = w.db.Close() })
	if w.baseProxy, err = proxy.New("tcp", address); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = w.baseProxy.Close() })
	w.url = fmt.Sprintf(url, w.baseProxy.Addr())
}

func (w *world) writeConfig(input string) {
	text := fmt.Sprintf(`
listen: 127.0.0.1:0
redis: redis://%s
database: %s
data: %s
partitions: %d
event_time: {past_days: 0}
%s`, w.redisProxy.Addr(), w.url, filepath.Join(w.dir, "data"), partitions, input)
	if err := os.WriteFile(filepath.Join(w.dir, "sluice.yaml"), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// start starts a program, with failpoints armed if any are named.
func (w *world) start(failpoints string) *program {
	w.t.Helper()
	p := startBinary(w.t, binary, w.dir, filepath.Join(w.dir, "sluice.yaml"), w.environ(failpoints), failpoints)
	w.mu.Lock()
	w.programs = append(w.programs, p)
	w.mu.Unlock()
	return p
}

// startBinary starts a program. If the test fails, the end of its log is printed.
func startBinary(t *testing.T, binary, dir, config string, environ []string, what string) *program {
	t.Helper()
	p := &program{exited: make(chan struct{})}
	p.cmd = exec.Command(binary, "serve", "--config", config)
	p.cmd.Dir = dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Env = environ
	file, err := os.CreateTemp(dir, "log")
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the program
		_ = p.cmd.Wait()
		_ = file.Close()
		close(p.exited)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the program started with %q:\n%s", what, lastBytes(p.logged(t), 6000))
		}
	})
	return p
}

// logged is what the program has written.
func (p *program) logged(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(p.cmd.Stderr.(*os.File).Name())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// environ is what a program is started with.
func (w *world) environ(failpoints string) []string {
	all := os.Environ()
	if failpoints != "" {
		all = append(all, faults.EnvFailpoint+"="+failpoints)
	}
	if w.roles != "" {
		all = append(all, "SLUICE_ROLES="+w.roles)
	}
	return all
}

func lastBytes(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

func (p *program) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// kill is kill -9, and waits for the end.
func (p *program) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// stopped reports whether every thread of the program is stopped.
func (p *program) stopped() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return len(fields) > 0 && fields[0] == "T"
}

// end kills every program.
func (w *world) end() {
	if w.stopPush != nil {
		w.stopPush()
		w.pushing.Wait()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.programs {
		p.signal(syscall.SIGCONT)
		p.kill()
	}
}

// startPushing begins to push elements to both lists until stopPushing. It
// survives the death of Redis, and knows how much it has pushed all the same:
// the count moves in the transaction that pushes.
func (w *world) startPushing() {
	ctx, cancel := context.WithCancel(context.Background())
	w.stopPush = cancel
	w.pushing.Go(func() {
		var client rueidis.Client
		for ctx.Err() == nil {
			if client == nil {
				option, err := rueidis.ParseURL(w.redis.URL())
				if err != nil {
					panic(err)
				}
				option.DisableCache, option.DisableRetry = true, true
				if client, err = rueidis.NewClient(option); err != nil {
					pause(ctx, 20*time.Millisecond)
					continue
				}
			}
			if err := push(ctx, client); err != nil {
				client.Close()
				client = nil
			}
			if !w.flood {
				pause(ctx, pushEvery)
			}
		}
		if client != nil {
			client.Close()
		}
	})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// push pushes the next elements; which are next is read from Redis, so a lost
// answer does no harm.
func push(ctx context.Context, c rueidis.Client) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	n, err := c.Do(ctx, c.B().Get().Key("pushed").Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	words := []string{`
redis.call('RPUSH', 'q_table', unpack(ARGV))
redis.call('RPUSH', 'q_events', unpack(ARGV))
local pushed = redis.call('INCRBY', 'pushed', #ARGV)
local key = 'app|2026-01-31|name ' .. pushed % 7
redis.call('HINCRBY', key, pushed % 24, #ARGV)
redis.call('SADD', 'buffered', key)
return pushed`, "0"}
	for i := n; i < n+pushElements; i++ {
		words = append(words, fmt.Sprintf(`{"id": %d, "event": "open", "email": "user%d@example.com", "message_id": "%d", "ts": %d}`, i, i%1000, i, 1760000000+i))
	}
	return c.Do(ctx, c.B().Arbitrary("EVAL").Args(words...).Build()).Error()
}

// stopPushing ends the producer and reads how much it has pushed.
func (w *world) stopPushing() {
	w.t.Helper()
	w.stopPush()
	w.pushing.Wait()
	w.stopPush = nil
	w.pushed = w.readPushed()
	if w.pushed == 0 {
		w.t.Fatal("nothing was pushed: this test shows nothing")
	}
}

func (w *world) readPushed() int64 {
	w.t.Helper()
	r, err := flow.Dial(w.t.Context(), w.redis.URL())
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	text, err := flow.Ask(w.t.Context(), r, "read a count", r.B().Get().Key("pushed").Build(), flow.Text)
	if err != nil {
		w.t.Fatal(err)
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// sumCounts is what the series has of the hashes.
const sumCounts = "SELECT COALESCE(SUM(count), 0) FROM series_hours WHERE kind = 'counter'"

// counted is passed for the hashes, which are drained once a second.
func (w *world) counted() {
	w.t.Helper()
	before := w.readPushed()
	w.eventually("what is counted from now on is stored", func() bool { return w.highest(sumCounts) > before })
}

// checkCounts waits until all counts are stored, and compares.
func (w *world) checkCounts() {
	w.t.Helper()
	w.eventually("the series has everything that was counted", func() bool { return w.highest(sumCounts) >= w.pushed })
	if total := w.highest(sumCounts); total != w.pushed {
		w.t.Fatalf("%d counted, %d in the series", w.pushed, total)
	}
}

// passed waits until something that is pushed from now on has been stored by
// both ways: the program is at work again.
func (w *world) passed() {
	w.t.Helper()
	before := w.readPushed()
	w.eventually("what is pushed from now on is stored", func() bool {
		return w.highest("SELECT COALESCE(MAX(id), -1) FROM target") >= before &&
			w.highest(newestEvent) >= before
	})
}

// newestEvent looks at the end of each log only: there are millions of events
// after 200 kills.
const newestEvent = `SELECT COALESCE(MAX(CAST(e.message_ref AS SIGNED)), -1) FROM cursors c
	JOIN events e ON e.part = c.part AND e.pos_major >= c.pos_major - 2000 WHERE c.follower = 'store'`

// highest returns the number that a query finds, -1 if the database does not
// answer. Counting millions of rows takes its time.
func (w *world) highest(query string) int64 {
	if w.db == nil {
		return -1 // a world without a database
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*settleWithin)
	defer cancel()
	var n int64
	if err := w.db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return -1
	}
	return n
}

// check waits until all is drained and counts: every element once, in both, and
// in the counts.
func (w *world) check() {
	w.t.Helper()
	w.checkElements()
	w.checkCounts()
}

// checkElements is check without the counts.
func (w *world) checkElements() {
	w.t.Helper()
	for _, q := range []struct{ what, total, distinct string }{
		{"target", "SELECT COUNT(*) FROM target", "SELECT COUNT(DISTINCT id) FROM target WHERE id >= 0"},
		{"events", "SELECT COUNT(*) FROM events", "SELECT COUNT(DISTINCT message_ref) FROM events"},
	} {
		w.eventually(q.what+" has everything that was pushed", func() bool { return w.highest(q.total) >= w.pushed })
		total, distinct := w.highest(q.total), w.highest(q.distinct)
		if total != w.pushed || distinct != w.pushed {
			w.t.Fatalf("%s: %d elements pushed, %d rows, %d distinct", q.what, w.pushed, total, distinct)
		}
	}
	if n := w.highest("SELECT COUNT(*) FROM dead_letters"); n != 0 {
		w.t.Fatalf("%d dead letters, want none", n)
	}
}

// eventually waits for a condition: for settleWithin since a cursor has moved.
// How much there is to do grows with the number of kills.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	const cursors = "SELECT COALESCE(SUM(pos_major % 1000000007), 0) + COALESCE(SUM(pos_minor), 0) FROM cursors"
	began, moved, stand := time.Now(), time.Now(), int64(-1)
	for {
		asked := time.Now()
		if ok() {
			return
		}
		if now := w.highest(cursors); now != stand && now != -1 {
			moved, stand = time.Now(), now
		}
		if time.Since(moved) > settleWithin {
			w.t.Fatalf("waited %s in vain until %s; pushed %d, target %d, events %d", settleWithin, what, w.readPushed(),
				w.highest("SELECT COUNT(*) FROM target"), w.highest("SELECT COUNT(*) FROM events"))
		}
		seldom := min(100*time.Millisecond, time.Since(began)/20)
		<-time.After(max(20*time.Millisecond, seldom, time.Since(asked))) // looking must not be what keeps it from getting there
	}
}

// exits waits until a program has ended.
func (w *world) exits(p *program, what string) {
	w.t.Helper()
	w.eventually(what, func() bool {
		select {
		case <-p.exited:
			return true
		default:
			return false
		}
	})
}
