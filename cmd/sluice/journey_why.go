package main

import (
	"context"
	"fmt"

	"sluice/engine"
	"sluice/flow"
	"sluice/journey/desk"
	"sluice/user"
)

// journeyWhy says why somebody did or did not get mail of a journey.
func (c *call) journeyWhy(ctx context.Context, d *desk.Desk, id string) error {
	key := user.Key{Kind: user.KeyExternal, Name: c.given.text("user")}
	if key.Name == "" || len(key.Name) > user.MaxExternalIDBytes {
		return usagef("journey why: want --user U, the external id of the person")
	}
	db, err := c.store(ctx)
	if err != nil {
		return err
	}
	found, err := db.Users(ctx, user.Query{Keys: []user.Key{key}})
	if err != nil {
		return err
	}
	ids := found.ByKey[key]
	if len(ids) == 0 {
		return fmt.Errorf("journey why: there is no user %.64q", key.Name)
	}
	redis, err := c.redis(ctx)
	if err != nil {
		return err
	}
	logs := engine.LogsOf(redis, c.config)
	d.Records = func(ctx context.Context, id user.ID, journey int64) (flow.Record, error) {
		return logs[id.Partition].RecordOf(ctx, int(journey), id.Number)
	}
	d.Ways = func(ctx context.Context, id user.ID, journey int64) ([]int, error) {
		return logs[id.Partition].WaysOf(ctx, int(journey), id.Number)
	}
	d.Sends, d.History = db, db
	row := found.Users[ids[0]]
	row.ID = ids[0]
	w, err := d.Why(ctx, id, c.given.text("step"), row)
	if err != nil {
		return err
	}
	for _, line := range w.Says {
		c.print("%s", safeText(line))
	}
	if w.Place != nil && len(w.Place.Path) > 0 {
		c.print("the way:")
		for _, s := range w.Place.Path {
			line := "  " + s.Step
			if s.Branch != "" {
				line += " > " + s.Branch
			}
			c.print("%s", safeText(line))
		}
	}
	for _, r := range w.Rules {
		c.print("%s, now:\n%s", r.Place, r.Finding)
	}
	for _, m := range w.Mail {
		c.print("mail %s  %s  %s  %s  %s", keyTime(m.AcceptedMillis), safeText(m.Step), m.Message, m.State, safeText(m.Reason))
	}
	return nil
}
