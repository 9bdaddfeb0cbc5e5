package main

import (
	"context"
	"fmt"
	"os"

	"sluice/store/sqlstore"
)

const migrateLong = `
Brings the database's schema to this program's version and prints the version before
and after. serve does it too when it starts; migrate is for doing it separately, as a
user with more rights, or before an upgrade. It only goes forward. It does not look at
processes: one that cannot use the new schema gives up its work within 5 seconds, and
/readyz says so; see "Upgrade" in docs/operate.md.
`

func runMigrate(ctx context.Context, c *call) error {
	cfg := c.config
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil { // of a SQLite file, by default
		return fmt.Errorf("make the data directory: %w; choose another with --data", err)
	}
	store, err := sqlstore.Open(ctx, cfg.Database.Reveal(), sqlstore.Options{})
	if err != nil {
		return err
	}
	c.later(store.Close)
	before, _, err := store.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	after, _, err := store.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	c.print("%s: the schema had version %d and has version %d now", safeText(cfg.Database.String()), before, after)
	return nil
}
