package spool_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/logtest"
	"sluice/test/servers"
	"sluice/test/spooltest"
	"sluice/test/tables"
)

// The kit of the *_flow_test.go files: a real Redis, a real SQLite, and the
// parts of the program put together as cmd/sluice does it. The transport is
// made of a function, so that a test decides what becomes of each envelope.

const testPartitions = 4

var testRedis *servers.Redis

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sluice-spool-")
	if err != nil {
		panic(err)
	}
	testRedis, err = servers.StartRedis(context.Background(), servers.RedisOptions{Dir: dir, AppendFsync: "no"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = testRedis.Kill()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// bed is what a test works on: an emptied Redis and an empty database.
type bed struct {
	*testing.T
	database string
	redis    string        // its URL
	patience time.Duration // of the store with a locked database; 0: its own
	clock    sluice.Clock  // of its processes, compared with Redis's; nil: the machine's, alone
	log      *lockedBuffer

	taps []*flow.Log // what is tapped

	uncounted bool // sends were put into lanes or logs that no account has

	mu   sync.Mutex
	seen []mail.Outcome
	at   map[int]sluice.Position // how far it was read, by partition
}

func newBed(t *testing.T) *bed {
	t.Helper()
	return newBedOn(t, testRedis.URL())
}

// newBedOn is newBed with a Redis of its own.
func newBedOn(t *testing.T, redis string) *bed {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db")
	tables.Make(t, file)
	return newBedIn(t, redis, "sqlite:"+file)
}

// newBedIn is newBedOn with an empty database of its own.
func newBedIn(t *testing.T, redis, database string) *bed {
	t.Helper()
	b := &bed{T: t, redis: redis, database: database, log: &lockedBuffer{}, at: make(map[int]sluice.Position)}
	raw, err := rueidis.NewClient(plainOption(b.redis))
	b.must(err)
	defer raw.Close()
	b.must(raw.Do(t.Context(), raw.B().Flushall().Build()).Error())
	store, err := sqlstore.Open(t.Context(), b.database, sqlstore.Options{})
	b.must(err)
	b.must(store.Migrate(t.Context()))
	b.must(store.Close())
	b.tap()
	sluice.WriteNewForms() // what waits is counted
	t.Cleanup(b.checkOwed)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%.8000s", b.log.String())
		}
	})
	return b
}

// plainOption is for a client of a test's own.
func plainOption(url string) rueidis.ClientOption {
	option := must(rueidis.ParseURL(url))
	option.DisableCache = true
	return option
}

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bed) eventually(what string, ok func() bool) {
	b.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > 5*time.Minute {
			b.Fatalf("waited in vain until %s", what)
		}
		clocktest.Rest(began)
	}
}

// sqlite is a way of a test's own into the database. It waits for those who write.
func (b *bed) sqlite() *sql.DB {
	b.Helper()
	db := must(sql.Open("sqlite", "file:"+strings.TrimPrefix(b.database, "sqlite:")+"?_pragma=busy_timeout(60000)"))
	b.Cleanup(func() { _ = db.Close() })
	return db
}

type lockedBuffer = logtest.Buffer

// office is a process of the program that takes messages in and sends them.
type office struct {
	b      *bed
	redis  *flow.Redis
	store  *sqlstore.Store
	logs   []*flow.Log
	lanes  []*flow.Lanes
	writer *flow.Writer
	intake *spool.Intake
	leases *flow.Leases
	queuer *spool.Queuer
	sender *spool.Sender
	stored *ingest.StoreFollower

	stopFetch, stopWork, stopLeases context.CancelFunc
	running, leasing                sync.WaitGroup
	ended                           bool
	working                         context.Context
}

// nobody is a Suppressor of the addresses in it.
type nobody map[string]string

func (n nobody) Check(address string, _ mail.Class, _ string) (string, bool) {
	reason, ok := n[address]
	return reason, ok
}

func (nobody) Ready([]string) {}

func (nobody) Fresh(mail.Class) bool { return true }

// open builds a process; nothing runs yet.
func (b *bed) open(routes spool.Routes, suppress nobody) *office {
	b.Helper()
	return b.openBy(b.redis, routes, suppress)
}

// openBy is open by a way to Redis of its own.
func (b *bed) openBy(redis string, routes spool.Routes, suppress nobody) *office {
	b.Helper()
	o := &office{b: b}
	var err error
	o.redis, err = flow.Dial(b.Context(), redis)
	b.must(err)
	o.store, err = sqlstore.Open(b.Context(), b.database, sqlstore.Options{SessionTimeout: b.patience})
	b.must(err)
	log := slog.New(slog.NewTextHandler(b.log, nil))
	partitions := flow.Partitions(testPartitions)
	for _, p := range partitions {
		o.logs = append(o.logs, flow.NewLog(o.redis, p))
		o.lanes = append(o.lanes, o.logs[p.Number].Lanes())
	}
	o.leases = flow.NewLeases(o.redis, o.store, log)
	o.leases.Beat, o.leases.Timeout = 100*time.Millisecond, 500*time.Millisecond
	o.leases.AddPartitions(ingest.StoreRole, o.redis, partitions)
	o.leases.AddPartitions(spool.Role, o.redis, partitions)
	o.writer = flow.NewWriter(o.logs, "api:"+o.leases.ID(), 64<<20)
	clock := sluice.Clock(sluice.SystemClock{})
	if b.clock != nil {
		shared := flow.NewClock(b.clock)
		b.must(shared.Compare(b.Context(), o.redis))
		clock, o.leases.Clock = shared, shared
	}
	bodies := &spool.FreshBodies{Store: o.store}
	o.intake = &spool.Intake{Writer: o.writer, Bodies: &spool.BodyWriter{Store: bodies}, Partitions: testPartitions, Clock: clock}
	o.queuer = &spool.Queuer{Lanes: o.lanes, Logs: o.logs, Suppress: suppress, Clock: clock, Log: log}
	o.stored = &ingest.StoreFollower{Logs: o.logs, Leases: o.leases, Store: o.store, Users: o.store, Journeys: o.store, Clock: clock, Log: log, Stats: &ingest.Stats{}, Gaps: &flow.Gaps{Redis: o.redis}, MarginBytes: 16 << 20, Queue: o.queuer}
	o.sender = &spool.Sender{
		Process: o.leases.ID(), Lanes: o.lanes, Leases: o.leases, Bodies: bodies, Record: o.store, StoredBy: ingest.StoreRole, Suppress: suppress, Routes: routes,
		Maker: spool.Plain{}, Clock: clock, Log: log, Stats: &spool.Stats{}, DoubtAfter: 500 * time.Millisecond,
	}
	b.Cleanup(o.stop)
	return o
}

// start builds a process with one route and runs it.
func (b *bed) start(t mail.Transport, suppress nobody) *office {
	b.Helper()
	return b.startRoutes(&spooltest.OneRoute{Transport: t}, suppress)
}

func (b *bed) startRoutes(routes spool.Routes, suppress nobody) *office {
	b.Helper()
	o := b.open(routes, suppress)
	o.run()
	return o
}

func (o *office) run() {
	var leaseCtx, fetch, work context.Context
	leaseCtx, o.stopLeases = context.WithCancel(context.Background())
	fetch, o.stopFetch = context.WithCancel(context.Background())
	work, o.stopWork = context.WithCancel(context.Background())
	o.working = work
	o.leasing.Go(func() { _ = o.leases.Run(leaseCtx) })
	o.running.Go(func() { o.stored.Run(fetch, work) })
	o.running.Go(func() { o.sender.Run(fetch, work) })
}

// stop ends in two phases.
func (o *office) stop() { o.end(false) }

// abort ends in the middle of everything; only the leases are given back.
func (o *office) abort() { o.end(true) }

func (o *office) end(atOnce bool) {
	if o.ended {
		return
	}
	o.ended = true
	if o.stopFetch != nil {
		if atOnce {
			o.stopWork()
		}
		o.stopFetch()
		o.running.Wait()
		o.stopWork()
		o.stopLeases()
		o.leasing.Wait()
	}
	_ = o.store.Close()
	o.redis.Close()
}

// submit takes messages in and returns their ids.
func (o *office) submit(drafts ...mail.Draft) []string {
	o.b.Helper()
	ids, err := o.intake.Submit(o.b.Context(), "", drafts)
	o.b.must(err)
	return ids
}

// draft is a small message.
func draft(to string, p mail.Priority, c mail.Class) mail.Draft {
	return mail.Draft{Priority: p, Class: c, Form: mail.ContentMIME, From: "shop@example.com", To: []string{to},
		Content: []byte("From: shop@example.com\r\nTo: " + to + "\r\nSubject: hello\r\n\r\nhello\r\n")}
}

// pack puts a batch into a lane of a partition, past the queuer.
func (o *office) pack(partition int, lane string, sends int, batch []byte) {
	o.b.Helper()
	o.packAll(partition, []*flow.Packed{{Lane: lane, Size: sends, Data: batch}})
}

// packAll is pack for many batches, which may wait for a time.
func (o *office) packAll(partition int, batches []*flow.Packed) {
	o.b.Helper()
	o.b.uncounted = true
	o.leased(partition, func(lease *flow.Lease) {
		var at flow.Reached
		for piece := range slices.Chunk(batches, 1000) {
			commit := flow.Commit{Follower: "test", From: at, Operations: o.lanes[partition].Operations(piece)}
			at.Major++
			commit.To = at
			dead, err := o.logs[partition].Commit(o.b.Context(), lease, &commit, 0)
			o.b.must(err)
			if dead > 0 {
				o.b.Fatal("a batch was refused")
			}
		}
	})
}

// leased does something under a lease of a partition.
func (o *office) leased(partition int, do func(*flow.Lease)) {
	o.b.Helper()
	leases := flow.NewLeases(o.redis, o.store, slog.New(slog.DiscardHandler))
	leases.AddPartitions("test", o.redis, flow.Partitions(testPartitions)[partition:partition+1])
	ctx, stop := context.WithCancel(o.b.Context())
	var leasing sync.WaitGroup
	leasing.Go(func() { _ = leases.Run(ctx) })
	defer leasing.Wait()
	defer stop()
	var held map[int]*flow.Lease
	o.b.eventually("the lease is held", func() bool {
		held, _ = leases.Held("test")
		return len(held) == 1
	})
	do(held[partition])
}

// checkOwed checks that no more is counted than waits: an account is changed in the
// steps that change a lane.
func (b *bed) checkOwed() {
	r, err := flow.Dial(context.Background(), b.redis)
	if err != nil {
		return // the test has ended it
	}
	defer r.Close()
	for _, p := range flow.Partitions(testPartitions) {
		lanes := flow.NewLog(r, p).Lanes()
		owed, err := (&flow.Owing{Lanes: []*flow.Lanes{lanes}}).Read(context.Background(), time.Now().UnixMilli())
		if err != nil {
			return
		}
		counts, err := lanes.Waiting(context.Background())
		if err != nil {
			return
		}
		all, waiting := mail.Load{}, int64(0)
		for _, l := range owed {
			all.Add(l)
		}
		for _, n := range counts {
			waiting += n
		}
		if all.Sends < 0 || all.Bytes < 0 || all.Sends > waiting || all.Sends < waiting && !b.uncounted {
			b.Errorf("partition %d: %d sends wait, %+v are counted", p.Number, waiting, owed)
		}
	}
}

// waiting is how many sends are in Redis.
func (o *office) waiting() (n int64) {
	o.b.Helper()
	for _, l := range o.lanes {
		counts, err := l.Waiting(o.b.Context())
		o.b.must(err)
		for _, c := range counts {
			n += c
		}
	}
	return n
}

// tap reads all that goes through the logs, as a backup does: nothing is trimmed
// that it has not seen.
func (b *bed) tap() {
	b.Helper()
	r, err := flow.Dial(b.Context(), b.redis)
	b.must(err)
	for _, p := range flow.Partitions(testPartitions) {
		b.taps = append(b.taps, flow.NewLog(r, p))
	}
	logs := flow.NewLogCopy(r, testPartitions)
	_, err = logs.Begin(b.Context())
	b.must(err)
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() { _ = logs.Run(ctx, b.tapped) })
	b.Cleanup(func() {
		stop()
		reading.Wait()
		r.Close()
	})
}

func (b *bed) tapped(batches []flow.Batch) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, batch := range batches {
		b.at[batch.Partition] = batch.Position
		r, err := sluice.ReadBatch(batch.Data)
		if err != nil {
			return err
		}
		for r.Next() {
			if r.Item.Kind == sluice.ItemOutcome {
				var out mail.Outcome
				if err := mail.DecodeOutcome(r.Item.Payload, &out); err != nil {
					return err
				}
				b.seen = append(b.seen, out)
			}
		}
	}
	return nil
}

// outcomes are those that went through the logs until it was called, in their
// order in each partition.
func (b *bed) outcomes() []mail.Outcome {
	b.Helper()
	for _, l := range b.taps {
		last, err := l.Last(b.Context())
		b.must(err)
		b.eventually("what is in the logs has been read", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return !b.at[l.Partition()].Before(last)
		})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.seen)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// wire is a transport made of a function, which decides on each envelope, and
// what it has been given.
type wire struct {
	window, workers int
	judge           func(e *mail.Envelope, nth int) mail.Result // nth: how often it came, from 1

	mu    sync.Mutex
	seen  map[string]int // by Envelope.Send
	order []string       // recipients, as they came
}

func newWire(judge func(e *mail.Envelope, nth int) mail.Result) *wire {
	if judge == nil {
		judge = func(*mail.Envelope, int) mail.Result { return mail.Result{Kind: mail.ResultSent, Code: 250} }
	}
	return &wire{window: 8, workers: 3, judge: judge, seen: make(map[string]int)}
}

func (w *wire) Name() string { return "wire" }
func (w *wire) Window() int  { return w.window }
func (w *wire) Workers() int { return w.workers }
func (w *wire) Close() error { return nil }

func (w *wire) Deliver(ctx context.Context, envelopes []mail.Envelope, done func(i int, r mail.Result)) {
	for i := range envelopes {
		e := &envelopes[i]
		if ctx.Err() != nil {
			done(i, mail.Result{Kind: mail.ResultUntried})
			continue
		}
		w.mu.Lock()
		w.seen[e.Send]++
		nth := w.seen[e.Send]
		w.order = append(w.order, e.To)
		w.mu.Unlock()
		done(i, w.judge(e, nth))
	}
}

// times is how often each send came.
func (w *wire) times() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[string]int, len(w.seen))
	for send, n := range w.seen {
		all[send] = n
	}
	return all
}

func (w *wire) came() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.order)
}

// totals is what the ledger has added up, in words, and fails if its rows say
// something else.
func (o *office) totals() string {
	o.b.Helper()
	all, err := o.store.SendTotals(o.b.Context())
	o.b.must(err)
	counts := make(map[mail.SendState]int64)
	for _, t := range all {
		counts[t.State] += t.Count
	}
	var words []string
	for _, state := range mail.SendStates {
		if counts[state] != 0 {
			words = append(words, fmt.Sprintf("%s %d", state, counts[state]))
		}
	}
	return strings.Join(words, ", ")
}
