package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/suppress"
	"sluice/mail/via/smtp"
	"sluice/store/sqlstore"
)

// `bench suppression`: is this recipient's domain one of 33,000 bad ones? A
// bulk sender asked Redis. Sluice's senders ask their list, which has
// 10,000,000 addresses besides.
const (
	badDomains    = 33_000
	badSet        = "sender_bad_domains"
	badEvery      = 10 // recipients, one of whom is suppressed
	badRecipients = 1 << 17
	badWindow     = smtp.DefaultWindow // mails of a connection are asked for together

	fetchChecks, fetchChecksQuick = 60, 10
	askChecks, askChecksQuick     = 20_000, 3_000
	listChecks, listChecksQuick   = 5_000_000, 2_000_000
	suppressRuns                  = 5

	listAddresses, listAddressesQuick   = 10_000_000, 1_000_000
	suppressedRows, suppressedRowsQuick = 500_000, 30_000
	changeRuns, changeRunsQuick         = 40, 10

	// What is promised.
	wantVsFetching    = 10_000
	wantVsAsking      = 50
	wantCheckNanos    = 200
	wantCheckBytes    = 0.01 // others in the process may allocate; one allocation in a check would be 8 or more
	wantListMegabytes = 200  // of 10,000,000 addresses
	wantInForce       = 1    // seconds
)

var suppressionParts = []string{"check", "store"}

// runSuppression is `sluice-bench suppression`.
func runSuppression(ctx context.Context, r *run) (err error) {
	e, err := openEnv(ctx, r, r.does("store"))
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	s := &suppressionBench{env: e, addresses: pick(r, listAddresses, listAddressesQuick)}
	if r.does("check") {
		if err := s.checks(ctx); err != nil {
			return err
		}
	}
	if r.does("store") {
		return s.stored(ctx)
	}
	return nil
}

type suppressionBench struct {
	*env
	addresses int // on the list
}

func badDomain(i int) string { return fmt.Sprintf("bad-%d.example", i) }

// recipients are the addresses asked about: of every ten, one is on the list,
// in turn by address and by domain.
func (s *suppressionBench) recipients() []string {
	all := make([]string, badRecipients)
	for i := range all {
		n := i * (s.addresses / badRecipients)
		switch {
		case i%(2*badEvery) == 0:
			all[i] = fmt.Sprintf("user.%d@example.com", n)
		case i%badEvery == 0:
			all[i] = fmt.Sprintf("user.%d@%s", n, badDomain(i%badDomains))
		default:
			all[i] = fmt.Sprintf("somebody.%d@mail%d.example.org", n, i%500)
		}
	}
	return all
}

// checks measures one check: the old designs, and the list.
func (s *suppressionBench) checks(ctx context.Context) error {
	r, recipients := s.run, s.recipients()
	domains := make([]string, badDomains)
	for i := range domains {
		domains[i] = badDomain(i)
	}
	if err := s.redis.AddMembers(ctx, badSet, domains); err != nil {
		return err
	}
	r.say("load a list of %d addresses and %d domains", s.addresses, badDomains)
	list, bytes, err := s.fill(ctx)
	if err != nil {
		return err
	}
	r.report.add("list_megabytes", "Sluice's list, 10,000,000 addresses", "MB", bytes/float64(s.addresses)*10_000_000/1e6)
	r.report.Settings["recipients"] = fmt.Sprintf("%d in turn, one of %d suppressed; %d domains, and on the list %d addresses", badRecipients, badEvery, badDomains, s.addresses)
	for n := range pick(r, suppressRuns, 3) {
		if err := r.watchBusy(ctx); err != nil {
			return err
		}
		r.say("checks, run %d", n+1)
		for _, old := range []struct {
			id, label string
			checks    int
			ask       func(ctx context.Context, set, domain string) (bool, error)
		}{{"fetching", "SMEMBERS for each check", pick(r, fetchChecks, fetchChecksQuick), s.redis.BadDomainFetching}, {"asking", "SISMEMBER for each check", pick(r, askChecks, askChecksQuick), s.redis.BadDomainAsking}} {
			began := time.Now()
			for i := range old.checks {
				_, domain, _ := strings.Cut(recipients[i*7%badRecipients], "@")
				bad, err := old.ask(ctx, badSet, domain)
				if err != nil || bad != strings.HasPrefix(domain, "bad-") {
					return errors.Join(err, fmt.Errorf("%s: %s is bad: %v", old.id, domain, bad))
				}
			}
			r.report.add(old.id, old.label, "ns", float64(time.Since(began).Nanoseconds())/float64(old.checks))
		}
		if err := errors.Join(
			s.ask(list, recipients, "list", "Sluice's list, as it is asked for the mails of a window", badWindow),
			s.ask(list, recipients, "alone", "the same, asked for one at a time", 1),
		); err != nil {
			return err
		}
	}
	runtime.KeepAlive(list)
	r.report.judge(target{ratio: "vs_smembers", value: wantVsFetching}, r.report.value("fetching")/r.report.value("list"))
	r.report.judge(target{ratio: "vs_sismember", value: wantVsAsking}, r.report.value("asking")/r.report.value("list"))
	r.report.limit("ns_per_check", "list_cpu", wantCheckNanos)
	r.report.limit("bytes_per_check", "list_bytes", wantCheckBytes)
	r.report.limit("megabytes_of_10m", "list_megabytes", wantListMegabytes)
	return nil
}

// ask asks the list of so many recipients at once. Its time is also told as what
// the processor had to do, since others may use the machine.
func (s *suppressionBench) ask(list *suppress.List, recipients []string, id, label string, window int) error {
	r, checks, held := s.run, pick(s.run, listChecks, listChecksQuick), 0
	var before, after runtime.MemStats
	cpu, err := cpuTimeOf(os.Getpid())
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&before)
	began := time.Now()
	for i := range checks {
		at := i % badRecipients
		if window > 1 && at%window == 0 {
			list.Ready(recipients[at:][:window])
		}
		if _, suppressed := list.Check(recipients[at], mail.ClassMarketing, "shop"); suppressed {
			held++
		}
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	spent, err := cpuTimeOf(os.Getpid())
	if err != nil {
		return err
	}
	if want := checks / badEvery; held < want-badRecipients || held > want+badRecipients {
		return fmt.Errorf("%d of %d recipients are suppressed, not every %dth", held, checks, badEvery)
	}
	r.report.add(id, label, "ns", float64(took.Nanoseconds())/float64(checks))
	r.report.add(id+"_cpu", "its CPU", "ns", float64((spent-cpu).Nanoseconds())/float64(checks))
	r.report.add(id+"_bytes", "memory that it allocates", "bytes", float64(after.TotalAlloc-before.TotalAlloc)/float64(checks))
	return nil
}

// fill loads a list as a program does when it starts, out of no database, and
// returns how many bytes it takes.
func (s *suppressionBench) fill(ctx context.Context) (*suppress.List, float64, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f := &suppress.Follower{List: suppress.NewList(sluice.SystemClock{}), Store: &madeUp{addresses: s.addresses}, Clock: sluice.SystemClock{}, Log: slog.New(slog.DiscardHandler)}
	err := f.Load(ctx)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if want := s.addresses + badDomains; err == nil && f.List.Len() != want {
		err = fmt.Errorf("the list has %d entries, want %d", f.List.Len(), want)
	}
	return f.List, float64(after.HeapAlloc) - float64(before.HeapAlloc), err
}

// madeUp is a store of addresses and domains that are made up when they are read.
type madeUp struct {
	mail.SuppressionStore
	addresses, read int
}

func (m *madeUp) LastSuppression(context.Context) (int64, error) { return 1, nil }

func (m *madeUp) CountSuppressions(context.Context) (int64, error) {
	return int64(m.addresses + badDomains), nil
}

func (m *madeUp) HeldSuppressions(_ context.Context, _ mail.SuppressionKey, limit int, f func(*mail.Suppression)) (n int, err error) {
	s := mail.Suppression{Reason: mail.SuppressHardBounce}
	for ; n < limit && m.read < m.addresses+badDomains; n++ {
		if s.Entry = fmt.Sprintf("user.%d@example.com", m.read); m.read >= m.addresses {
			s.Entry = badDomain(m.read - m.addresses)
		}
		f(&s)
		m.read++
	}
	return n, nil
}

// stored measures the way through the database: adding, loading, and how long a
// change that one process commits takes to be in force in another.
func (s *suppressionBench) stored(ctx context.Context) (err error) {
	r := s.run
	var stores [2]*sqlstore.Store
	for i := range stores {
		if stores[i], err = sqlstore.Open(ctx, "mysql://"+strings.TrimPrefix(s.maria.url(), "mysql://"), sqlstore.Options{}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stores[i].Close()) }()
	}
	if err := stores[0].Migrate(ctx); err != nil {
		return err
	}
	rows := pick(r, suppressedRows, suppressedRowsQuick)
	r.say("store %d addresses in MariaDB", rows)
	began := time.Now()
	for i := 0; i < rows; {
		var changes []mail.Suppression
		for ; len(changes) < mail.MaxSuppressChanges && i < rows; i++ {
			changes = append(changes, mail.Suppression{Entry: fmt.Sprintf("user.%d@example.com", i*7919%rows), Reason: mail.SuppressHardBounce, Source: "bench", TimeMillis: 1})
		}
		if _, err := stores[0].Suppress(ctx, changes); err != nil {
			return err
		}
	}
	r.report.add("stored", "added to MariaDB", "rows/s", float64(rows)/time.Since(began).Seconds())
	f := &suppress.Follower{List: suppress.NewList(sluice.SystemClock{}), Store: stores[1], Clock: sluice.SystemClock{}, Log: slog.New(slog.DiscardHandler)}
	began = time.Now()
	if err := f.Load(ctx); err != nil {
		return err
	}
	r.report.add("loaded", "loaded from it at the start", "rows/s", float64(rows)/time.Since(began).Seconds())
	return s.inForce(ctx, stores[0], f)
}

// inForce measures how long after its commit a change is in force elsewhere.
func (s *suppressionBench) inForce(ctx context.Context, writer *sqlstore.Store, f *suppress.Follower) error {
	r := s.run
	runCtx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { f.Run(runCtx, runCtx) })
	defer running.Wait()
	defer stop()
	slowest := time.Duration(0)
	for i := range pick(r, changeRuns, changeRunsQuick) {
		address := fmt.Sprintf("late.%d@example.com", i)
		if _, err := writer.Suppress(ctx, []mail.Suppression{{Entry: address, Reason: mail.SuppressManual, TimeMillis: 1}}); err != nil {
			return err
		}
		began := time.Now()
		for {
			if _, suppressed := f.List.Check(address, mail.ClassTransactional, ""); suppressed {
				break
			}
			if err := pause(ctx, time.Millisecond); err != nil {
				return fmt.Errorf("wait for a change to be in force: %w", err)
			}
		}
		took := time.Since(began)
		r.report.add("in_force", "a change is in force in another process", "s", took.Seconds())
		slowest = max(slowest, took)
	}
	r.report.judge(target{ratio: "slowest_in_force_seconds", below: true, value: wantInForce}, slowest.Seconds())
	return nil
}
