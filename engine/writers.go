package engine

import (
	"context"
	"errors"

	"sluice/flow"
	"sluice/ingest"
	"sluice/store/sqlstore"
)

// openWriters connects what the followers of the store write by. Each has a store of
// its own: to the database they are what as many processes are, so all that guards
// processes from each other guards them (docs/decisions/70-writers.md). Those of SQLite
// share one, and take turns at its connection (docs/decisions/82-writers-of-sqlite.md).
func (e *core) openWriters(ctx context.Context) error {
	many, short, err := e.store.Writers(ctx, e.config.StoreWriters, e.config.Partitions, e.processes)
	if err != nil {
		return err
	}
	switch {
	case short != "":
		e.log.Warn("logs are stored by fewer transactions at once than would be fast; raise the bound on connections, or set store_writers", "transactions", many, "because", short)
	case many > sqlstore.NearWriters:
		e.log.Info("logs are stored by several transactions at once: the database is far, or store_writers says so", "transactions", many)
	}
	e.writers = []*sqlstore.Store{e.store}
	for len(e.writers) < many {
		if e.store.TakesTurns() {
			e.writers = append(e.writers, e.store)
			continue
		}
		s, err := sqlstore.Open(ctx, string(e.config.Database), sqlstore.Options{Clock: e.clock, Beside: e.store})
		if err != nil {
			return err
		}
		e.writers = append(e.writers, s)
	}
	return nil
}

// processes counts the processes that live. Those that have ended without a word are known
// for some seconds, so that they have ended is found out only if it matters.
func (e *core) processes(ctx context.Context, enough int) (int, error) {
	known, err := flow.Known(ctx, e.redis)
	if err == nil && known >= enough {
		known, err = flow.Living(ctx, e.redis, false)
	}
	return known + 1, err
}

// closeWriters closes the stores of the writers but that of the process.
func (e *core) closeWriters() error {
	var errs []error
	for _, s := range e.writers {
		if s != e.store {
			errs = append(errs, s.Close())
		}
	}
	e.writers = nil
	return errors.Join(errs...)
}

// storeFollowers returns what stores the logs.
func (e *core) storeFollowers() (all []*ingest.StoreFollower) {
	for i, s := range e.writers {
		all = append(all, &ingest.StoreFollower{
			Logs: e.logs, Leases: e.leases, Writer: i, Writers: len(e.writers), TakeTurns: e.store.TakesTurns(), Store: s, Users: s, Journeys: s,
			Replicas: Replicas(e.config), Clock: e.clock, Log: e.log, Stats: e.stats, Gaps: &flow.Gaps{Redis: e.redis}, AcceptGaps: e.config.AcceptGaps,
			MarginBytes: e.config.LogMarginMB << 20, Queue: e.sending.queuer, Reported: e.sending.feedback.Reported, FactsUpTo: e.factsPassed.UpTo,
		})
	}
	return all
}
