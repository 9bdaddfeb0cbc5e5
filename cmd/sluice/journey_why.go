package main

import (
	"context"
	"fmt"

	"sluice/engine"
	"sluice/flow"
	"sluice/journey/desk"
	"sluice/user"
	"sluice/user/profile"
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
	if err := c.readsPlaces(ctx, d); err != nil {
		return err
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
		c.print("%s, now:\n%s", safeText(r.Place), safeLines(r.Finding.String()))
	}
	for _, m := range w.Mail {
		at := m.Step
		if m.Variant != "" {
			at += " (" + m.Variant + ")"
		}
		c.print("mail %s  %s  %s  %s  %s", keyTime(m.AcceptedMillis), safeText(at), m.Message, m.State, safeText(m.Reason))
	}
	return nil
}

// readsPlaces has a desk read where people are.
func (c *call) readsPlaces(ctx context.Context, d *desk.Desk) error {
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
	d.Page = func(ctx context.Context, partition int, journey, after int64, f func(int64, *flow.Record) bool) (int64, error) {
		return logs[partition].PageOfRecords(ctx, int(journey), after, f)
	}
	d.Partitions = len(logs)
	d.Lanes = func(ctx context.Context, partition int) (map[string]int64, error) {
		return logs[partition].Lanes().Waiting(ctx)
	}
	d.Notes = func(ctx context.Context, partition int) (map[string]string, error) {
		return logs[partition].JourneyFields(ctx)
	}
	return nil
}

// externalIDs are those of people; "-": there is none.
func externalIDs(ctx context.Context, users user.Store, people []desk.Person) (map[user.ID]string, error) {
	names := make(map[user.ID]string, len(people))
	ids := make([]user.ID, len(people))
	for i := range people {
		ids[i] = people[i].ID
		names[ids[i]] = "-"
	}
	if len(ids) == 0 {
		return names, nil
	}
	found, err := users.Users(ctx, user.Query{IDs: ids})
	for _, id := range ids {
		if p, bad := profile.Parse(found.Users[id].Profile); bad == nil && p.ExternalID != "" {
			names[id] = p.ExternalID
		}
	}
	return names, err
}

// journeyPeople lists who is in a journey, all pages of them.
func (c *call) journeyPeople(ctx context.Context, d *desk.Desk, id string) error {
	if err := c.readsPlaces(ctx, d); err != nil {
		return err
	}
	db, err := c.store(ctx)
	if err != nil {
		return err
	}
	asked := desk.PeopleAsked{Step: c.given.text("step"), Limit: desk.MaxPeoplePage}
	for {
		people, next, err := d.People(ctx, id, asked)
		if err != nil {
			return err
		}
		names, err := externalIDs(ctx, db, people)
		if err != nil {
			return err
		}
		for _, p := range people {
			line := fmt.Sprintf("%s  %s  %s  %s  entered %s", p.ID, safeText(names[p.ID]), p.State, safeText(p.Step), keyTime(p.Entered))
			if p.DueMillis > 0 {
				line += "  until " + keyTime(p.DueMillis)
			}
			c.print("%s", line)
		}
		if asked.After = next; next == "" {
			return nil
		}
	}
}
