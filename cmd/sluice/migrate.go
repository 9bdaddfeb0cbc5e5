package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"sluice/flow"
	"sluice/ingest"
	"sluice/spool"
	"sluice/sqlstore"
)

const migrateLong = `
Brings the database's schema to this program's version and prints the version before
and after. serve does it too when it starts; migrate is for doing it by itself, as a
user with more rights, or before an upgrade. It only goes forward, and may run beside
a program that serves.
`

func runMigrate(ctx context.Context, c *call) (err error) {
	if len(c.given.args) > 0 {
		return usagef("migrate: takes no arguments, but %q is one", c.given.args[0])
	}
	cfg, err := c.load(nil)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil { // of a SQLite file, by default
		return fmt.Errorf("make the data directory: %w; choose another with --data", err)
	}
	store, err := sqlstore.Open(ctx, cfg.Database.Reveal(), sqlstore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
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

// migrate brings the schema up, and says so first: a large table takes minutes,
// for which the program seems to stand still.
func (e *engine) migrate(ctx context.Context) error {
	have, want, from, err := e.store.Pending(ctx)
	if err != nil {
		return err
	}
	e.schema = want
	if have < want {
		if err := e.leaveNobodyBehind(ctx, have, want, from); err != nil {
			return err
		}
		e.log.Info("the tables are brought up; large ones take minutes", "from", have, "to", want)
	}
	return e.store.Migrate(ctx)
}

// leaveNobodyBehind refuses a migration behind which a process that lives could not
// go on.
func (e *engine) leaveNobodyBehind(ctx context.Context, have, want, from int) error {
	if have == 0 {
		return nil // there are no tables yet
	}
	living, err := flow.Words(ctx, e.redis, flow.SchemaWord)
	if err != nil {
		return err
	}
	behind := 0
	for _, said := range living {
		if knows, err := strconv.Atoi(said); err != nil || knows < from {
			behind++
		}
	}
	if behind > 0 {
		return fmt.Errorf("migrate the database from version %d to %d: %d older processes run that could not use it after that (they would have to know version %d): stop them first", have, want, behind, from)
	}
	return nil
}

// saySchema is up to which version this process knows the schema.
func (e *engine) saySchema() string { return strconv.Itoa(e.schema) }

// openLeases makes what shares out the work, and what writes to the logs. The process
// says what it reads and knows; if it does not read all that is in use it is refused.
func (e *engine) openLeases(ctx context.Context) error {
	e.leases = flow.NewLeases(e.redis, e.store, e.log)
	e.leases.Reach(e.store.Reach, ingest.StoreRole, spool.Role)
	e.leases.Say(flow.SchemaWord, e.saySchema)
	e.forms = &flow.Forms{Redis: e.redis, Leases: e.leases, Schema: e.store.Ping, Standings: e.store.Standings, Log: e.log}
	e.writer = flow.NewWriter(e.logs, "api:"+e.leases.ID(), e.config.BacklogMB<<20)
	return e.forms.Begin(ctx)
}
