package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"sluice"
	"sluice/engine"
	"sluice/flow"
	"sluice/ingest"
	"sluice/journey/desk"
	"sluice/lib/jsonscan"
	"sluice/store"
	"sluice/user"
)

// journeyEnter lets somebody into a journey, as a call of the API does.
func (c *call) journeyEnter(ctx context.Context, d *desk.Desk, id string) error {
	u := user.Update{Op: user.OpEnter, Key: user.Key{Kind: user.KeyExternal, Name: c.given.text("user")}, ExistingOnly: true, Name: id, Body: c.given.text("context")}
	if u.Key.Name == "" || len(u.Key.Name) > user.MaxExternalIDBytes {
		return usagef("journey enter: want --user U, the external id of the person")
	}
	if v, err := jsonscan.Scan(u.Body); u.Body != "" && (err != nil || v.Kind != jsonscan.Object || len(u.Body) > desk.MaxContextBytes) {
		return usagef("journey enter: --context: want a JSON object of at most %d bytes", desk.MaxContextBytes)
	}
	if err := d.TakesCalls(ctx, id); err != nil {
		return err
	}
	db, err := c.store(ctx)
	if err != nil {
		return err
	}
	found, err := db.Users(ctx, user.Query{Keys: []user.Key{u.Key}})
	if err != nil {
		return err
	}
	if len(found.ByKey[u.Key]) == 0 {
		return fmt.Errorf("journey enter: there is no user %.64q", u.Key.Name)
	}
	redis, err := c.redis(ctx)
	if err == nil {
		err = engine.CheckRunning(ctx, c.config, db, redis)
	}
	if err == nil {
		err = redis.CheckForms(ctx)
	}
	if err != nil {
		return err
	}
	clock := c.clockOf(ctx, redis)
	u.TimeMillis = clock.Now().UnixMilli()
	ingest.RaiseBy(redis, store.Store(db), slog.Default())
	writer := flow.NewWriter(engine.LogsOf(redis, c.config), "command:"+sluice.NewMessageID(u.TimeMillis), c.config.BacklogMB<<20)
	intake := ingest.Intake{Writer: writer, Partitions: c.config.Partitions, Clock: clock, Stats: &ingest.Stats{}}
	if err := errors.Join(intake.Update(ctx, []user.Update{u}), writer.Close(ctx)); err != nil {
		return fmt.Errorf("let user %s into journey %s: %w", u.Key.Name, id, err)
	}
	c.print("journey %s: user %s enters, if the journey lets this person in by now", id, safeText(u.Key.Name))
	return nil
}
