package engine

import (
	"context"

	"sluice/api"
	"sluice/config"
	"sluice/flow"
	"sluice/ops/series"
	"sluice/store/mongostore"
)

// openMirror prepares the mirror of the series, before anything is counted. A
// process that stores and is not told of a mirror ends the one that was.
func (e *core) openMirror(ctx context.Context) error {
	if _, err := e.store.MirrorState(ctx); err != nil { // also makes its row
		return err
	}
	if !e.config.HasRole(config.RoleStore) {
		return nil
	}
	m := &series.Mirror{
		Store: e.store, Leases: e.leases, Clock: e.clock, Log: e.log, Stats: e.stats,
		Keep: Retention(e.config), OtherClock: e.redis.TimeMillis,
	}
	if e.config.TimeSeries == "" {
		return m.Off(ctx)
	}
	mongo, err := mongostore.Open(e.config.TimeSeries.Reveal(), e.config.TimeSeriesBulk)
	if err != nil {
		return err
	}
	e.leases.AddPartitions(series.MirrorRole, e.redis, flow.Partitions(e.config.Partitions)[:1])
	e.mongo, m.To, e.mirror = mongo, mongo, m
	return nil
}

// snapshotMirror adds what the mirror has done, and how far it is behind.
func (e *core) snapshotMirror(s *api.Stats) {
	if e.mirror == nil {
		return
	}
	s.Mirror = &api.Mirror{Took: e.mongo.Took.Snapshot(), Documents: e.mongo.Documents.Load(), Errors: e.mirror.Errors.Load()}
	if behind, held := e.mirror.Lag(); held {
		s.Followers = append(s.Followers, api.Follower{Name: series.MirrorRole, LagSeconds: behind.Seconds(), LagItems: -1, LogBatches: -1})
	}
}
