package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/flow"
)

const gapsLong = `
A gap is where a part of a log or list is missing that was not stored: the database or
Redis has gone back in time. That partition or list stands still, and no other, until
the missing part is restored, or an operator accepts that it is lost.

    sluice gaps list                            where something is missing, and how much
    sluice gaps accept "log of partition 3"     what is missing there is lost: go on
    sluice gaps accept --all                    the same of all that are there now

The running program continues within seconds, without a restart. For mail of that
partition, lanes and ledger are compared: mail that waits in the ledger alone is in
doubt.
`

var gapsFlags = []flagSpec{
	{name: "all", help: "accept: all that are there now"},
	{name: "json", help: "list: one JSON object a line"},
}

func runGaps(ctx context.Context, c *call) error {
	what, names, err := c.word("list", "accept")
	if err != nil {
		return err
	}
	all := c.given.has("all")
	switch {
	case what == "list" && (len(names) > 0 || all):
		return usagef("gaps list: takes neither names nor --all")
	case what == "accept" && all == (len(names) > 0):
		return usagef("gaps accept: want either names, as `sluice gaps list` shows them, or --all")
	}
	redis, err := c.redis(ctx)
	if err != nil {
		return err
	}
	gaps := flow.Gaps{Redis: redis}
	found, err := gaps.List(ctx)
	if err != nil {
		return err
	}
	if what == "list" {
		return c.gapsList(found)
	}
	return c.gapsAccept(ctx, gaps, found, names)
}

func (c *call) gapsList(found []flow.Gap) error {
	if len(found) == 0 {
		fmt.Fprintln(c.main.Stderr, "nothing is missing anywhere")
	}
	for i := range found {
		g := &found[i]
		line, err := gapText(g), error(nil)
		if c.given.has("json") {
			line, err = safeJSON(map[string]any{"in": g.What, "from": g.Cursor.String(), "to": g.Start.String(), "since": g.SinceMillis,
				"entries": g.Lost.Entries, "known": g.Lost.Known, "about": g.Lost.About})
		}
		if err == nil {
			_, err = fmt.Fprintln(c.main.Stdout, line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gapText says where something is missing, and how much.
func gapText(g *flow.Gap) string {
	text := fmt.Sprintf("%s  from %s to %s", g.What, g.Cursor, g.Start)
	switch {
	case !strings.HasPrefix(g.What, "log "):
	case g.Cursor.IsZero():
		text += fmt.Sprintf("  nothing before is stored, %s", g.Lost)
	default: // positions of a log are times
		span := time.Duration(g.Start.Major-g.Cursor.Major) * time.Millisecond
		text += fmt.Sprintf("  %s of time, %s", span.Round(time.Millisecond), g.Lost)
	}
	return text + "  stands still since " + time.UnixMilli(g.SinceMillis).UTC().Format(time.RFC3339)
}

func (c *call) gapsAccept(ctx context.Context, gaps flow.Gaps, found []flow.Gap, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(found, func(g flow.Gap) bool { return g.What == name }) {
			return fmt.Errorf("accept a gap of %q: nobody stands still there; `sluice gaps list` shows where", name)
		}
	}
	if len(found) == 0 {
		return errors.New("accept gaps: nothing is missing anywhere")
	}
	for i := range found {
		g := &found[i]
		if len(names) > 0 && !slices.Contains(names, g.What) {
			continue
		}
		if err := gaps.Accept(ctx, g); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(c.main.Stdout, "accepted: "+gapText(g)); err != nil {
			return err
		}
	}
	return nil
}
