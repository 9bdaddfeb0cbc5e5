package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/bench/baseline"
	"sluice/flow"
	"sluice/ingest"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/store/sqlstore"
	"sluice/test/spooltest"
)

// `bench spool`: mails go into a spool and out of it, with nothing and with a
// million pending. Beside it is a spool in a table of the same MariaDB. Mails
// are accepted durably one by one, and taken by workers whose transport takes
// no time. So the spool is measured, its ledger in the database included.
const (
	spoolClients      = 32
	spoolTakers       = 8 // of the table; more are slower
	spoolWaiting      = 1_000_000
	spoolWaitingQuick = 50_000
	spoolSpan         = 10 * time.Second
	spoolSpanQuick    = 2 * time.Second
	spoolBodyBytes    = 500
	spoolPartitions   = 16
	spoolMargin       = 64 << 20 // bytes
	spoolUrgent       = 200      // high mails beside the backlog
	spoolUrgentEvery  = 40 * time.Millisecond

	wantVsTable  = 5
	wantFlat     = 0.8
	wantHighP99s = 1
)

// runSpool is `sluice-bench spool`.
func runSpool(ctx context.Context, r *run) (err error) {
	e, err := openEnv(ctx, r, true)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	waiting := pick(r, spoolWaiting, spoolWaitingQuick)
	r.report.Settings["spool"] = fmt.Sprintf("%d clients hand in mails of %d bytes one by one; 0 and %d waiting; table: %d takers; Sluice: %d partitions, windows of 16 in 10 workers",
		spoolClients, spoolBodyBytes, waiting, spoolTakers, spoolPartitions)
	if err := spoolTable(ctx, e, waiting); err != nil {
		return err
	}
	if err := spoolSluice(ctx, e, waiting); err != nil {
		return err
	}
	rep := r.report
	through := func(spool, fill string) float64 { // a mail goes in and comes out
		return 1 / (1/rep.value(spool+"_enqueue_"+fill) + 1/rep.value(spool+"_take_"+fill))
	}
	rep.judge(target{ratio: "vs_sql_spool", value: wantVsTable}, through("sluice", "full")/through("table", "full"))
	rep.judge(target{ratio: "flat", value: wantFlat}, through("sluice", "full")/through("sluice", "empty"))
	rep.limit("high_p99_s", "high_p99", wantHighP99s)
	return nil
}

// rate runs a step by so many workers for a while, and returns how often a
// second it was done. A step that reports false has nothing left to do.
func rate(ctx context.Context, workers int, span time.Duration, step func(ctx context.Context, worker, n int) (bool, error)) (float64, error) {
	var done atomic.Int64
	started := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		group.Go(func() error {
			for n := 0; time.Since(started) < span; n++ {
				more, err := step(ctx, w, n)
				if err != nil || !more {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return float64(done.Load()) / time.Since(started).Seconds(), err
}

// spoolTable measures the table.
func spoolTable(ctx context.Context, e *env, waiting int) error {
	r := e.run
	table, err := baseline.NewMailTable(ctx, e.maria.db)
	if err != nil {
		return err
	}
	body := strings.Repeat("x", spoolBodyBytes)
	for _, fill := range []struct {
		name  string
		count int
	}{{"empty", 0}, {"full", waiting}} {
		r.say("table, %d waiting", fill.count)
		if err := table.Fill(ctx, fill.count, int(mail.PriorityLow), body); err != nil {
			return err
		}
		span := pick(r, spoolSpan, spoolSpanQuick)
		in, err := rate(ctx, spoolClients, span, func(ctx context.Context, w, n int) (bool, error) {
			return true, table.Enqueue(ctx, int(mail.PriorityLow), fmt.Sprintf("user%d-%d@example.com", w, n), body)
		})
		if err != nil {
			return err
		}
		out, err := rate(ctx, spoolTakers, span, func(ctx context.Context, _, _ int) (bool, error) { return table.Take(ctx) })
		if err != nil {
			return err
		}
		r.report.add("table_enqueue_"+fill.name, fmt.Sprintf("table, %d waiting: in", fill.count), "mails/s", in)
		r.report.add("table_take_"+fill.name, fmt.Sprintf("table, %d waiting: out", fill.count), "mails/s", out)
	}
	return nil
}

// spoolSluice measures Sluice's spool.
func spoolSluice(ctx context.Context, e *env, waiting int) (err error) {
	r := e.run
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx)); err != nil {
		return err
	}
	wire := &swallower{}
	s, err := openSpool(ctx, e, e.maria, wire, spool.Plain{}, spoolMargin)
	if err != nil {
		return err
	}
	s.wire = wire
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	body := []byte(strings.Repeat("x", spoolBodyBytes))
	for _, fill := range []struct {
		name  string
		count int
	}{{"empty", 0}, {"full", waiting}} {
		r.say("Sluice, %d waiting", fill.count)
		if err := s.fill(ctx, fill.count, body); err != nil {
			return err
		}
		in, err := rate(ctx, spoolClients, pick(r, spoolSpan, spoolSpanQuick), func(ctx context.Context, w, n int) (bool, error) {
			_, err := s.intake.Submit(ctx, "", []mail.Draft{spoolDraft(fmt.Sprintf("user%d-%d@example.com", w, n), mail.PriorityLow, body)})
			return true, err
		})
		if err != nil {
			return err
		}
		if err := s.settle(ctx); err != nil {
			return err
		}
		out, err := s.drain(ctx, pick(r, spoolSpan, spoolSpanQuick))
		if err != nil {
			return err
		}
		r.report.add("sluice_enqueue_"+fill.name, fmt.Sprintf("Sluice, %d waiting: in", fill.count), "mails/s", in)
		r.report.add("sluice_take_"+fill.name, fmt.Sprintf("Sluice, %d waiting: out", fill.count), "mails/s", out)
	}
	return s.urgent(ctx, r, body)
}

func spoolDraft(to string, p mail.Priority, body []byte) mail.Draft {
	return mail.Draft{Priority: p, Class: mail.ClassMarketing, Form: mail.ContentMIME, From: "shop@example.com", To: []string{to}, Content: body}
}

// spoolRig is the part of the program that takes mails in and sends them.
type spoolRig struct {
	redis  *flow.Redis
	store  *sqlstore.Store
	lanes  []*flow.Lanes
	leases *flow.Leases
	intake *spool.Intake
	sender *spool.Sender
	stats  *spool.Stats
	wire   *swallower // nil: another transport

	running   sync.WaitGroup
	stopStore []context.CancelFunc
}

// openSpool builds it around a transport. It takes mails in; send sends. The logs keep so
// many bytes of what is stored.
func openSpool(ctx context.Context, e *env, db database, t mail.Transport, maker spool.Maker, marginBytes int) (*spoolRig, error) {
	s := &spoolRig{stats: &spool.Stats{}}
	var err error
	if s.redis, err = flow.Dial(ctx, e.redisURL); err != nil {
		return nil, err
	}
	if s.store, err = sqlstore.Open(ctx, db.url(), sqlstore.Options{}); err != nil {
		return nil, err
	}
	if err := s.store.Migrate(ctx); err != nil {
		return nil, err
	}
	partitions := flow.Partitions(spoolPartitions)
	var logs []*flow.Log
	for _, p := range partitions {
		logs = append(logs, flow.NewLog(s.redis, p))
		s.lanes = append(s.lanes, logs[p.Number].Lanes())
	}
	log, clock := slog.New(slog.DiscardHandler), sluice.SystemClock{}
	s.leases = flow.NewLeases(s.redis, s.store, log)
	s.leases.AddPartitions(ingest.StoreRole, s.redis, partitions)
	s.leases.AddPartitions(spool.Role, s.redis, partitions)
	bodies := &spool.FreshBodies{Store: s.store}
	s.intake = &spool.Intake{Writer: flow.NewWriter(logs, "api:"+s.leases.ID(), 256<<20), Bodies: &spool.BodyWriter{Store: bodies}, Partitions: spoolPartitions, Clock: clock}
	queuer := &spool.Queuer{Lanes: s.lanes, Logs: logs, Suppress: everybody{}, Clock: clock, Log: slog.New(slog.DiscardHandler)}
	stored := &ingest.StoreFollower{Logs: logs, Leases: s.leases, Store: s.store, Users: s.store, Journeys: s.store, Clock: clock, Log: log, Stats: &ingest.Stats{}, MarginBytes: marginBytes, Queue: queuer}
	s.sender = &spool.Sender{
		Process: s.leases.ID(), Lanes: s.lanes, Leases: s.leases, Bodies: bodies, Suppress: everybody{}, Routes: &spooltest.OneRoute{Transport: t},
		Maker: maker, Clock: clock, Log: log, Stats: s.stats, DoubtAfter: time.Minute,
	}
	leasing, stopLeases := context.WithCancel(context.WithoutCancel(ctx))
	storing, stopStoring := context.WithCancel(context.WithoutCancel(ctx))
	s.stopStore = []context.CancelFunc{stopStoring, stopLeases}
	s.running.Go(func() { _ = s.leases.Run(leasing) }) // nothing waits for what it could not give back
	s.running.Go(func() { stored.Run(storing, leasing) })
	return s, nil
}

func (s *spoolRig) close(ctx context.Context) error {
	for _, stop := range s.stopStore {
		stop()
	}
	s.running.Wait()
	err := s.store.Close()
	s.redis.Close()
	return err
}

// everybody may be mailed.
type everybody struct{}

func (everybody) Check(string, mail.Class, string) (string, bool) { return "", false }

func (everybody) Ready([]string) {}

func (everybody) Fresh(mail.Class) bool { return true }

// swallower is a transport that takes everything at once.
type swallower struct {
	took   atomic.Int64
	urgent sync.Map      // address -> func(), of those that are waited for
	delay  time.Duration // of each window
}

func (w *swallower) Name() string { return "swallow" }
func (w *swallower) Window() int  { return 16 }
func (w *swallower) Workers() int { return 10 }
func (w *swallower) Close() error { return nil }

func (w *swallower) Deliver(ctx context.Context, envelopes []mail.Envelope, done func(i int, r mail.Result)) {
	if w.delay > 0 {
		_ = pause(ctx, w.delay) // it ends with the bench
	}
	for i := range envelopes {
		if came, ok := w.urgent.Load(envelopes[i].To); ok {
			came.(func())()
		}
		done(i, mail.Result{Kind: mail.ResultSent, Code: 250})
	}
	w.took.Add(int64(len(envelopes)))
}

// fill hands in so many mails, a thousand a request, and waits until they are in
// their lanes.
func (s *spoolRig) fill(ctx context.Context, count int, body []byte) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for n := 0; n < count; n += 1000 {
		drafts := make([]mail.Draft, 1000)
		for i := range drafts {
			drafts[i] = spoolDraft(fmt.Sprintf("user%d@example.com", n+i), mail.PriorityLow, body)
		}
		group.Go(func() error {
			for {
				_, err := s.intake.Submit(groupCtx, "", drafts)
				if !errors.Is(err, sluice.ErrFull) {
					return err
				}
				if err := pause(groupCtx, 20*time.Millisecond); err != nil { // the log is full until it is stored
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.settle(ctx)
}

// waiting is how many mails are in the lanes.
func (s *spoolRig) waiting(ctx context.Context) (n int64, err error) {
	for _, l := range s.lanes {
		counts, err := l.Waiting(ctx)
		if err != nil {
			return 0, err
		}
		for _, c := range counts {
			n += c
		}
	}
	return n, nil
}

// settle waits until nothing enters the lanes any more.
func (s *spoolRig) settle(ctx context.Context) error {
	for last := int64(-1); ; {
		n, err := s.waiting(ctx)
		if err != nil || n == last {
			return err
		}
		last = n
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// drain sends for a while, and returns how many mails a second.
func (s *spoolRig) drain(ctx context.Context, span time.Duration) (float64, error) {
	before, started := s.wire.took.Load(), time.Now()
	stop := s.send(ctx)
	for time.Since(started) < span {
		n, err := s.waiting(ctx)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
	took, sent := time.Since(started), s.wire.took.Load()-before
	stop()
	return float64(sent) / took.Seconds(), nil
}

// send runs the sender until stop is called.
func (s *spoolRig) send(ctx context.Context) (stop func()) {
	fetch, stopFetch := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { s.sender.Run(fetch, ctx) })
	return func() {
		stopFetch()
		running.Wait()
	}
}

// urgent hands in urgent mails while the sender works off pending mail, with a
// wire on which a window takes 50 ms. It measures how long each takes from the
// call that hands it in to the wire.
func (s *spoolRig) urgent(ctx context.Context, r *run, body []byte) error {
	n, err := s.waiting(ctx)
	if err != nil {
		return err
	}
	r.say("Sluice, %d waiting: urgent mails beside them", n)
	r.report.add("urgent_beside", "waiting beside the urgent ones", "mails", float64(n))
	s.wire.delay = 50 * time.Millisecond
	defer s.send(ctx)()
	var mu sync.Mutex
	var waits []latency
	var coming sync.WaitGroup
	for i := range pick(r, spoolUrgent, spoolUrgent/4) {
		to, started := fmt.Sprintf("urgent%d@example.com", i), time.Now()
		coming.Add(1)
		s.wire.urgent.Store(to, func() {
			defer coming.Done()
			mu.Lock()
			defer mu.Unlock()
			waits = append(waits, latency{seconds: time.Since(started).Seconds(), count: 1})
		})
		d := spoolDraft(to, mail.PriorityHigh, body)
		d.Class = mail.ClassTransactional
		if _, err := s.intake.Submit(ctx, "", []mail.Draft{d}); err != nil {
			return err
		}
		if err := pause(ctx, spoolUrgentEvery); err != nil {
			return err
		}
	}
	coming.Wait()
	r.report.add("high_p50", "urgent, from the call to the wire, p50", "s", percentile(waits, 0.5))
	r.report.add("high_p99", "urgent, from the call to the wire, p99", "s", percentile(waits, 0.99))
	return nil
}
