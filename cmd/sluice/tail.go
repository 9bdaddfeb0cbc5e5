package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice"
	"sluice/ingest"
	"sluice/store"
	"sluice/track/feed"
	"sluice/user/profile"
)

const tailLong = `
Shows the events as they are stored, one a line, live, until Ctrl-C. It only reads the
database, behind the store, and connects again when that was away. Of each partition it
shows all, in order; if it cannot keep up, it says how many it has left out. Lists that go
straight to a table of yours are not among them.

A line: time, kind, name, app, email, user, message, place in the log. With --json: an
object with the same, and the properties. GET /v1/events/stream is the same by HTTP.
`

var tailFlags = []flagSpec{
	{name: "from", value: "WHERE", preset: "now", help: "start: the oldest that is stored; now: what comes next", check: oneOf("start", "now")},
	{name: "name", value: "NAME", help: "only events of this name, such as clicked"},
	{name: "types", value: "TYPE,...", help: "only these types: a kind, or a kind, a dot and a name, such as mail.clicked"},
	{name: "app-id", value: "APP", help: "only events of this app"},
	{name: "user", value: "USER", help: "only events of this user, as events name it"},
	{name: "limit", value: "N", help: "end after so many events", check: wholeNumber(1, 1<<31-1)},
	{name: "json", help: "one JSON object a line"},
}

// tailAgain is the pause after the database was away.
const tailAgain = time.Second

func runTail(ctx context.Context, c *call) error {
	filter := feed.Filter{App: c.given.text("app-id"), User: c.given.text("user")}
	if c.given.has("types") {
		filter.Types = strings.Split(c.given.text("types"), ",")
	}
	if err := feed.CheckTypes(filter.Types); err != nil {
		return usagef("tail: --types: %w", err)
	}
	db, err := c.store(ctx)
	if err != nil {
		return err
	}
	s := &feed.Stream{Heads: &feed.Heads{Store: db, Follower: ingest.StoreRole, Clock: sluice.SystemClock{}}, Filter: filter}
	if err := s.Begin(ctx, "", c.given.text("from") == "start"); err != nil {
		return err
	}
	shown := 0
	for ctx.Err() == nil {
		part, err := s.Next(ctx)
		if err == nil {
			err = c.tailPart(&part, &shown)
			if errors.Is(err, errEnough) {
				return nil
			}
			if err != nil {
				return err
			}
			if !part.More {
				_ = sluice.Pause(ctx, feed.Every)
			}
			continue
		}
		if ctx.Err() == nil {
			fmt.Fprintf(c.main.Stderr, "the database does not answer; it is tried again: %s\n", safeText(err.Error()))
			_ = sluice.Pause(ctx, tailAgain)
		}
	}
	return nil
}

// tailPart shows the next events.
func (c *call) tailPart(part *feed.Part, shown *int) error {
	if part.Missed > 0 || part.AtLeast {
		atLeast := ""
		if part.AtLeast {
			atLeast = "at least "
		}
		fmt.Fprintf(c.main.Stderr, "%s%d events were left out: this reader is too slow\n", atLeast, part.Missed)
	}
	limit, name := c.given.number("limit"), c.given.text("name")
	for i := range part.Events {
		e := &part.Events[i]
		if name != "" && e.Name != name {
			continue
		}
		line, err := c.tailLine(e)
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
	return nil
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

func (c *call) tailLine(e *store.StoredEvent) (string, error) {
	when, place := profile.TimeText(e.TimeMillis), placeText(e.Place)
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
