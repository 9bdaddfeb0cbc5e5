package engine

import (
	"context"
	"fmt"

	"sluice/config"
	"sluice/flow"
	"sluice/store/sqlstore"
)

// AdoptPartitions takes the number of partitions that a database was set up with,
// unless the configuration names one: its default is for new deployments.
func AdoptPartitions(ctx context.Context, cfg *config.Config, store *sqlstore.Store) error {
	if cfg.Named("partitions") {
		return nil
	}
	have, _, err := store.SchemaVersion(ctx)
	if err != nil || have == 0 {
		return err
	}
	cursors, err := store.AllCursors(ctx)
	if err != nil {
		return fmt.Errorf("look how many partitions the database has: %w", err)
	}
	if n := flow.PartitionsOf(cursors); n != 0 {
		cfg.Partitions = n
	}
	return nil
}

// LookUpPartitions is AdoptPartitions for a command that needs no database for
// anything else.
func LookUpPartitions(ctx context.Context, cfg *config.Config) error {
	if cfg.Named("partitions") {
		return nil
	}
	store, err := OpenStore(ctx, cfg)
	if err != nil {
		return fmt.Errorf("look how many partitions the database has: %w; name them (partitions) to do without it", err)
	}
	return store.Close()
}
