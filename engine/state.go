package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/api"
	"sluice/config"
	"sluice/flow"
	"sluice/ingest"
	"sluice/lib/meter"
	"sluice/mail"
	"sluice/ops/series"
)

// LookTimeout bounds what one question about the engine's state may take.
const LookTimeout = time.Second

// ready returns nil, or why the engine cannot do its work now.
func (e *core) ready() error {
	errs := e.silent()
	if e.config.HasRole(config.RoleSend) {
		if err := e.suppressions.Stale(); err != nil {
			errs = append(errs, err)
		}
	}
	if err := e.clockApart(); err != nil {
		errs = append(errs, err)
	}
	status := e.leases.Status()
	if status.Err != nil {
		errs = append(errs, fmt.Errorf("leases: %w", status.Err))
	}
	for role, free := range status.Free {
		if free > 0 {
			errs = append(errs, fmt.Errorf("leases: %d of role %s are held by no living process; those of one that ended without giving its own back are taken within seconds", free, role))
		}
	}
	followers := e.stats.Followers(e.clock.Now())
	delete(followers, series.MirrorRole) // without it all is taken in and stored
	maps.DeleteFunc(followers, ofSet)    // without it what is known of it stays in force: setWarnings
	for _, name := range slices.Sorted(maps.Keys(followers)) {
		if err := followers[name]; err != nil {
			errs = append(errs, fmt.Errorf("follower %s: %s", name, oneLine(err)))
		}
	}
	return errors.Join(errs...)
}

// oneLine makes one reason of several, each of which is said once: all partitions may have
// the same.
func oneLine(err error) string {
	var reasons []string
	times := make(map[string]int)
	for reason := range strings.SplitSeq(err.Error(), "\n") {
		if times[reason]++; times[reason] == 1 {
			reasons = append(reasons, reason)
		}
	}
	for i, reason := range reasons {
		if n := times[reason]; n > 1 {
			reasons[i] = fmt.Sprintf("%s (%d times)", reason, n)
		}
	}
	return strings.Join(reasons, "; ")
}

// ofSet reports whether a follower is that of a suppression set.
func ofSet(follower string, _ error) bool { return strings.HasPrefix(follower, mail.SetSource) }

// setWarnings says which suppression sets cannot be read.
func (e *core) setWarnings() (all []string) {
	followers := e.stats.Followers(e.clock.Now())
	for _, name := range slices.Sorted(maps.Keys(followers)) {
		if err := followers[name]; err != nil && ofSet(name, err) {
			all = append(all, fmt.Sprintf("suppression set %s cannot be read, and its known members stay in force: %s", strings.TrimPrefix(name, mail.SetSource), oneLine(err)))
		}
	}
	return all
}

// silent returns which servers do not answer.
func (e *core) silent() []error {
	type server struct {
		kind string
		ping func(context.Context) error
	}
	all := []server{{"redis", func(ctx context.Context) error { return e.redis.PingLogs(ctx, e.logs) }}}
	lists := e.openLists()
	for _, r := range e.others.connected() {
		all = append(all, server{"redis", func(ctx context.Context) error { return r.PingLists(ctx, lists) }})
	}
	for _, err := range e.absentServers() {
		all = append(all, server{"redis", func(context.Context) error { return err }})
	}
	all = append(all, server{"database", e.store.Ping})
	errs := make([]error, len(all))
	askEach(len(all), func(ctx context.Context, i int) {
		if err := all[i].ping(ctx); err != nil {
			errs[i] = fmt.Errorf("%s: %w", all[i].kind, err)
		}
	})
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// askEach puts n questions side by side, each with a LookTimeout of its own: a server that
// hangs takes no time from the others.
func askEach(n int, question func(ctx context.Context, i int)) {
	var asking sync.WaitGroup
	for i := range n {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), LookTimeout)
			defer cancel()
			question(ctx, i)
		})
	}
	asking.Wait()
}

// snapshot returns the engine's counters and where its followers stand.
func (e *core) snapshot() api.Stats {
	status := e.leases.Status()
	s := api.Stats{
		Accepted:   e.stats.Accepted.Load(),
		Stored:     e.stats.Stored.Load(),
		Duplicates: e.stats.Duplicates.Load(),
		Dead:       e.stats.Dead.Load(),
		Replayed:   e.stats.Replayed.Load(),
		Conflicts:  e.stats.Conflicts.Load(),
		Refused:    e.stats.Refused.Load(),
		Updates:    e.stats.Updates.Load(),
		Ignored:    e.stats.Ignored.Load(),
		Users:      e.stats.UsersWritten.Load(),
		Names:      e.stats.Names(),
		Leases:     status.Held,
		Processes:  status.Live,
		Margins:    e.stats.Margins(),
		ListMargin: e.stats.ListMargins(),

		LeaseChanges: status.Changes,
	}
	e.snapshotTimes(&s)
	e.snapshotLedger(&s)
	e.snapshotMirror(&s)
	e.snapshotDomains(&s)
	e.snapshotJourneys(&s)
	e.snapshotWebhooks(&s)
	s.Suppressed, s.SuppressionsAge = e.suppressions.List.Len(), e.suppressions.Status().Age.Seconds()
	if e.config.HasRole(config.RoleSend) {
		s.SuppressionsStale = make(map[mail.Class]bool)
		for _, class := range []mail.Class{mail.ClassMarketing, mail.ClassTransactional} {
			s.SuppressionsStale[class] = !e.suppressions.Fresh(class)
		}
	}
	s.ClockAhead = e.clock.Ahead().Seconds()
	// Without an answer the metrics are missing, and an alert can ask for that.
	s.DiskFreeBytes, s.DiskSizeBytes, _ = FreeBytes(e.config.Data)
	ctx, cancel := context.WithTimeout(context.Background(), LookTimeout)
	defer cancel()
	e.snapshotSending(ctx, &s)
	s.Failing = make(map[string]bool)
	for name, err := range e.stats.Followers(e.clock.Now()) {
		s.Failing[name] = err != nil
	}
	lags := e.stats.Lags()
	s.Followers = append(s.Followers, e.logLags(lags)...)
	e.snapshotLists(&s, lags)
	return s
}

// snapshotLists adds what is in the lists, and how far those that it drains are behind.
func (e *core) snapshotLists(s *api.Stats, lags map[ingest.LagKey]ingest.Lag) {
	e.opening.Lock()
	lists := slices.Clone(e.lists)
	e.opening.Unlock()
	s.Lists = make([]api.List, len(lists))
	askEach(len(lists), func(ctx context.Context, i int) {
		if l := lists[i]; l != nil {
			s.Lists[i] = api.List{Name: l.Name(), Waiting: orUnknown(l.Waiting(ctx)), Held: orUnknown(l.Remaining(ctx))}
		} else {
			s.Lists[i] = api.List{Name: e.inputs[i].name, Waiting: -1, Held: -1}
		}
	})
	leases, _ := e.leases.Held(ingest.ListRole)
	for i, l := range lists {
		if l == nil {
			continue
		}
		follower := ingest.LagKey{Follower: l.Source()}
		if applied, ok := lags[follower]; ok && leases[i] != nil {
			s.Followers = append(s.Followers, e.listLag(follower, applied, s.Lists[i].Held))
		}
	}
}

// snapshotTimes adds the histograms.
func (e *core) snapshotTimes(s *api.Stats) {
	s.MailPauses, s.FeedbackDropped = e.sending.feedback.Stats()
	s.CommitSeconds, s.CommitRows = e.stats.Commit.Snapshot(), e.stats.CommitRows.Snapshot()
	s.Stages = map[string]meter.Snapshot{
		"read": e.stats.Read.Snapshot(), "encode": e.stats.Encode.Snapshot(), "users": e.stats.Resolve.Snapshot(), "trim": e.stats.Trim.Snapshot(),
	}
	s.AppendItems = e.writer.Sizes()
	calls := make(map[string]api.RedisCalls) // two databases of one server are two connections
	for _, r := range append([]*flow.Redis{e.redis}, e.others.connected()...) {
		took, failed := r.Calls()
		c := calls[r.Host()]
		calls[r.Host()] = api.RedisCalls{Server: r.Host(), Took: c.Took.Add(took), Failed: c.Failed + failed}
	}
	s.Redis = slices.Collect(maps.Values(calls))
}

func orUnknown(n int64, err error) int64 {
	if err != nil {
		return -1
	}
	return n
}

// listLag says how far a list is behind now: while something of it is held, it
// grows until the next commit. held -1: Redis does not tell.
func (e *core) listLag(key ingest.LagKey, applied ingest.Lag, held int64) api.Follower {
	behind := 0.0
	if held > 0 {
		behind = e.clock.Now().Sub(applied.Since).Seconds()
	}
	return api.Follower{Name: key.Follower, Partition: key.Partition, LagSeconds: e.lastLags.look(key, applied, behind, held >= 0), LagItems: held, LogBatches: -1}
}

// logLags says how far the logs that this process stores are behind now (storedAll). It
// keeps growing while the follower of a log stands still.
func (e *core) logLags(lags map[ingest.LagKey]ingest.Lag) (all []api.Follower) {
	held, _ := e.leases.Held(ingest.StoreRole)
	var keys []ingest.LagKey
	var logs []*flow.Log
	for key := range lags {
		if key.Follower == ingest.StoreRole && held[key.Partition] != nil { // else another process follows it now
			keys, logs = append(keys, key), append(logs, e.logs[key.Partition])
		}
	}
	asked := e.clock.Now()
	ctx, cancel := context.WithTimeout(context.Background(), LookTimeout)
	defer cancel()
	for i, state := range flow.LogStates(ctx, logs) {
		applied := lags[keys[i]]
		f := api.Follower{Name: keys[i].Follower, Partition: keys[i].Partition, LagItems: -1, LogBatches: int64(state.Entries)}
		waits := 0.0
		if state.Known {
			behind := applied.Position.Before(state.Last)
			waits = e.storedAll.look(f.Partition, time.UnixMilli(int64(applied.Position.Major)), behind, asked).Seconds()
			if !behind {
				f.LagItems = 0
			}
		}
		f.LagSeconds = e.lastLags.look(keys[i], applied, waits, state.Known)
		all = append(all, f)
	}
	return all
}

// storedAll knows when the logs were last seen with all applied. A log that has more than
// was applied is behind by the time since then, or by the age of what was applied last if
// that is newer. The age alone was an hour for the first event behind a quiet hour.
type storedAll struct {
	mu sync.Mutex
	at map[int]time.Time // by partition
}

// look says how long what a log has may have waited, by what was asked then.
func (s *storedAll) look(partition int, applied time.Time, behind bool, asked time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !behind {
		if s.at == nil {
			s.at = make(map[int]time.Time)
		}
		s.at[partition] = asked
		return 0
	}
	if s.at[partition].After(applied) {
		applied = s.at[partition]
	}
	return max(0, asked.Sub(applied))
}

// lastLags are lags as they were known last. While a server does not tell, a lag is neither
// over nor does it grow: it stays until something is applied.
type lastLags struct {
	mu sync.Mutex
	at map[ingest.LagKey]lastLag
}

type lastLag struct {
	applied sluice.Position
	seconds float64
}

// look returns how many seconds a follower is behind. known: the server has told for how
// long what is not applied has waited.
func (l *lastLags) look(key ingest.LagKey, applied ingest.Lag, waited float64, known bool) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.at[key]; !known && last.applied == applied.Position {
		waited = last.seconds
	}
	waited = max(waited, applied.Seconds)
	if known {
		if l.at == nil {
			l.at = make(map[ingest.LagKey]lastLag)
		}
		l.at[key] = lastLag{applied.Position, waited}
	}
	return waited
}
