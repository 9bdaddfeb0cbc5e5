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
	ctx, cancel := context.WithTimeout(context.Background(), LookTimeout)
	defer cancel()
	var errs []error
	if err := e.redis.PingLogs(ctx, e.logs); err != nil {
		errs = append(errs, fmt.Errorf("redis: %w", err))
	}
	for _, r := range e.others {
		if err := r.PingLists(ctx, e.lists); err != nil {
			errs = append(errs, fmt.Errorf("redis: %w", err))
		}
	}
	if err := e.store.Ping(ctx); err != nil {
		errs = append(errs, fmt.Errorf("database: %w", err))
	}
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
	for _, name := range slices.Sorted(maps.Keys(followers)) {
		if err := followers[name]; err != nil {
			// One line: several reasons of one follower are one of ours.
			errs = append(errs, fmt.Errorf("follower %s: %s", name, strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
	}
	return errors.Join(errs...)
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
	s.Followers = append(s.Followers, e.logLags(ctx, lags)...)
	lists, _ := e.leases.Held(ingest.ListRole)
	for i, l := range e.lists {
		list := api.List{Name: l.Name(), Waiting: orUnknown(l.Waiting(ctx)), Held: orUnknown(l.Remaining(ctx))}
		s.Lists = append(s.Lists, list)
		follower := ingest.LagKey{Follower: l.Source()}
		if applied, ok := lags[follower]; ok && lists[i] != nil {
			s.Followers = append(s.Followers, e.listLag(follower, applied, list.Held))
		}
	}
	return s
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
	for _, r := range append([]*flow.Redis{e.redis}, slices.Collect(maps.Values(e.others))...) {
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
// grows until the next commit.
func (e *core) listLag(key ingest.LagKey, applied ingest.Lag, held int64) api.Follower {
	f := api.Follower{Name: key.Follower, Partition: key.Partition, LagSeconds: applied.Seconds, LagItems: held, LogBatches: -1}
	if held != 0 { // -1: Redis does not tell
		f.LagSeconds = max(f.LagSeconds, e.clock.Now().Sub(applied.Since).Seconds())
	}
	return f
}

// logLags says how far the logs that this process stores are behind now (storedAll). It
// keeps growing while the follower of a log stands still.
func (e *core) logLags(ctx context.Context, lags map[ingest.LagKey]ingest.Lag) (all []api.Follower) {
	held, _ := e.leases.Held(ingest.StoreRole)
	var keys []ingest.LagKey
	var logs []*flow.Log
	for key := range lags {
		if key.Follower == ingest.StoreRole && held[key.Partition] != nil { // else another process follows it now
			keys, logs = append(keys, key), append(logs, e.logs[key.Partition])
		}
	}
	asked := e.clock.Now()
	for i, state := range flow.LogStates(ctx, logs) {
		applied := lags[keys[i]]
		f := api.Follower{Name: keys[i].Follower, Partition: keys[i].Partition, LagSeconds: applied.Seconds, LagItems: -1, LogBatches: int64(state.Entries)}
		if state.Known {
			behind := applied.Position.Before(state.Last)
			f.LagSeconds = max(f.LagSeconds, e.storedAll.look(f.Partition, time.UnixMilli(int64(applied.Position.Major)), behind, asked).Seconds())
			if !behind {
				f.LagItems = 0
			}
		}
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
