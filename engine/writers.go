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
	many, err := e.store.Writers(ctx, e.config.StoreWriters)
	if err != nil {
		return err
	}
	if many > sqlstore.NearWriters {
		e.log.Info("logs are stored by several transactions at once: the database is far, or store_writers says so", "transactions", min(many, e.config.Partitions))
	}
	e.writers = []*sqlstore.Store{e.store}
	for len(e.writers) < min(many, e.config.Partitions) {
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
			Replicas: e.replicas(), Clock: e.clock, Log: e.log, Stats: e.stats, Gaps: &flow.Gaps{Redis: e.redis}, AcceptGaps: e.config.AcceptGaps,
			MarginBytes: e.config.LogMarginMB << 20, Queue: e.sending.queuer, Reported: e.sending.feedback.Reported, FactsUpTo: e.factsPassed.UpTo,
		})
	}
	return all
}
