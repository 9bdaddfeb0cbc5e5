package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice"
	"sluice/engine"
	"sluice/flow"
)

const tailLong = `
Shows the events that pass through the logs of the partitions, one a line, live, until
Ctrl-C. It only reads. Lists that go straight to a table of yours do not pass through
the logs.

A line: time, kind, name, app, email, user, message, place in the log. With --json: an
object with the same, and the properties.
`

var tailFlags = []flagSpec{
	{name: "from", value: "WHERE", preset: "now", help: "start: the oldest that Redis still holds; now: what comes next", check: oneOf("start", "now")},
	{name: "name", value: "NAME", help: "only events of this name, such as clicked"},
	{name: "limit", value: "N", help: "end after so many events", check: wholeNumber(1, 1<<31-1)},
	{name: "json", help: "one JSON object a line"},
}

func runTail(ctx context.Context, c *call) error {
	redis, err := c.redis(ctx)
	if err != nil {
		return err
	}
	if err := engine.LookUpPartitions(ctx, c.config); err != nil {
		return err
	}
	shown := 0
	err = flow.Tail(ctx, engine.LogsOf(redis, c.config), c.given.text("from") == "start", func(b flow.Batch) error {
		return c.tailBatch(b, &shown)
	})
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		return nil
	}
	return err
}

// tailBatch shows the events of a batch.
func (c *call) tailBatch(b flow.Batch, shown *int) error {
	r, err := sluice.ReadBatch(b.Data)
	if err != nil {
		return fmt.Errorf("partition %d, %s: %w", b.Partition, b.Position, err)
	}
	limit, name := c.given.number("limit"), c.given.text("name")
	var e sluice.Event
	for r.Next() {
		if r.Item.Kind != sluice.ItemEvent {
			continue
		}
		if err := sluice.DecodeEvent(r.Item.Payload, &e); err != nil {
			return fmt.Errorf("partition %d, %s, item %d: %w", b.Partition, b.Position, r.Index, err)
		}
		if name != "" && e.Name != name {
			continue
		}
		line, err := c.tailLine(&e, sluice.Place{Partition: b.Partition, Position: b.Position, Index: r.Index})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(c.main.Stdout, line); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		if *shown++; limit > 0 && *shown >= limit {
			return errEnough
		}
	}
	return r.Err()
}

// tailed is an event as --json shows it.
type tailed struct {
	Time       string `json:"time"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	ID         string `json:"id,omitempty"`
	App        string `json:"app,omitempty"`
	Email      string `json:"email,omitempty"`
	User       string `json:"user,omitempty"`
	Message    string `json:"message,omitempty"`
	Properties string `json:"properties,omitempty"`
	Place      string `json:"place"`
}

func (c *call) tailLine(e *sluice.Event, at sluice.Place) (string, error) {
	when := time.UnixMilli(e.TimeMillis).UTC().Format("2006-01-02T15:04:05.000Z")
	place := placeText(at)
	if c.given.has("json") {
		return safeJSON(tailed{when, e.Kind.String(), e.Name, e.ID, e.App, e.Email, e.User, e.Message, e.Properties, place})
	}
	fields := []string{when, e.Kind.String(), e.Name, e.App, e.Email, e.User, e.Message, place}
	for i, f := range fields {
		if f == "" {
			f = "-"
		}
		fields[i] = safeText(f)
	}
	return strings.Join(fields, "  "), nil
}

// placeText is PARTITION/MAJOR-MINOR/INDEX.
func placeText(p sluice.Place) string {
	return fmt.Sprintf("%d/%s/%d", p.Partition, p.Position, p.Index)
}
