package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/engine"
	"sluice/store"
)

const deadLong = `
Dead letters are items that could not be applied: an element that is no event, a row
the database refuses. Each is kept with its reason until an operator decides.

    sluice dead list                 what there is, oldest first
    sluice dead show ID              one with its payload, as text or as a hex dump
    sluice dead replay ID...         try again, after the cause is mended
    sluice dead drop ID...           remove for good
    sluice dead replay --all --source list:pepi_queue

An element is replayed to the end of its list, an item to the end of its log. Only then
is the dead letter dropped, and a repeat after a crash does not double it. --all takes
those that are there when it begins. One that fails again stays, with a new ID.
`

var deadFlags = []flagSpec{
	{name: "limit", value: "N", preset: "50", help: "list: at most so many", check: wholeNumber(1, 1_000_000)},
	{name: "after", value: "ID", help: "list: those behind this one", check: wholeNumber(0, 1<<62)},
	{name: "source", value: "SOURCE", help: "list, and replay and drop with --all: only those of list:NAME, hashes:NAME, hook:NAME, lane:LANE, log or commit:FOLLOWER"},
	{name: "all", help: "replay, drop: all of them"},
	{name: "json", help: "list, show: one JSON object a line; show has the payload in base64"},
	{name: "raw", help: "show: the payload alone, byte by byte, for a file or a pipe"},
}

// deadPage is how many dead letters are asked for at once.
const deadPage = 500

func runDead(ctx context.Context, c *call) error {
	what, rest, err := c.word("list", "show", "replay", "drop")
	if err != nil {
		return err
	}
	ids, err := deadIDs(rest)
	if err != nil {
		return err
	}
	switch all := c.given.has("all"); {
	case what == "list" && (len(ids) > 0 || all):
		return usagef("dead list: takes neither IDs nor --all")
	case what == "show" && (len(ids) != 1 || all):
		return usagef("dead show: want one ID")
	case (what == "replay" || what == "drop") && all == (len(ids) > 0):
		return usagef("dead %s: want either IDs or --all", what)
	}
	action := map[string]func(context.Context, store.Store, []int64) error{
		"list": c.deadList, "show": c.deadShow, "replay": c.deadReplay, "drop": c.deadDrop,
	}[what]
	store, err := c.store(ctx)
	if err != nil {
		return err
	}
	return action(ctx, store, ids)
}

func deadIDs(args []string) ([]int64, error) {
	var ids []int64
	for _, a := range args {
		id, err := strconv.ParseInt(a, 10, 64)
		if err != nil || id <= 0 {
			return nil, usagef("dead: %q is no ID; `sluice dead list` shows them", a)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// eachDead hands dead letters on without their payloads, oldest first, after
// an id, at most as many as there are when it begins.
func (c *call) eachDead(ctx context.Context, store store.Store, after int64, fn func(sluice.DeadLetter) error) error {
	left, err := store.CountDeadLetters(ctx)
	if err != nil {
		return err
	}
	source := c.given.text("source")
	for left > 0 {
		page, err := store.DeadLetters(ctx, after, int(min(left, deadPage)))
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		for _, d := range page {
			after, left = d.ID, left-1
			if source != "" && d.Source != source {
				continue
			}
			if err := fn(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// shownDead is a dead letter as --json shows it.
type shownDead struct {
	ID      int64  `json:"id"`
	Time    string `json:"time"`
	Source  string `json:"source"`
	Form    string `json:"form"`
	Place   string `json:"place"`
	Reason  string `json:"reason"`
	Payload []byte `json:"payload,omitempty"`
}

func shown(d sluice.DeadLetter) shownDead {
	when := time.UnixMilli(d.TimeMillis).UTC().Format(time.RFC3339)
	return shownDead{d.ID, when, d.Source, string(d.Form), placeText(d.Place), d.Reason, d.Payload}
}

func (c *call) deadList(ctx context.Context, store store.Store, _ []int64) error {
	return c.upToLimit("no dead letters", func(show func(string, func() error) error) error {
		return c.eachDead(ctx, store, int64(c.given.number("after")), func(d sluice.DeadLetter) error {
			return show(strconv.FormatInt(d.ID, 10), func() error { return c.printDead(shown(d)) })
		})
	})
}

func (c *call) printDead(s shownDead) error {
	return c.row(s, "%6d  %s  %s  %s  %s", s.ID, s.Time, safeText(s.Source), s.Form, safeText(s.Reason))
}

func (c *call) deadShow(ctx context.Context, store store.Store, ids []int64) error {
	d, err := store.DeadLetter(ctx, ids[0])
	if err != nil {
		return deadError("show", ids[0], err)
	}
	s := shown(d)
	switch {
	case c.given.has("raw"):
		_, err := c.main.Stdout.Write(d.Payload)
		return err
	case c.given.has("json"):
		return c.printJSON(s)
	}
	c.print("id      %d\ntime    %s\nsource  %s\nform    %s\nplace   %s\nreason  %s\npayload %d bytes",
		s.ID, s.Time, safeText(s.Source), s.Form, s.Place, safeText(s.Reason), len(d.Payload))
	if utf8.Valid(d.Payload) {
		c.print("\n%s", safeText(string(d.Payload)))
		return nil
	}
	c.print("\n%s", strings.TrimRight(hex.Dump(d.Payload), "\n"))
	return nil
}

// deadError says which dead letter it was.
func deadError(verb string, id int64, err error) error {
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeNotFound {
		return fmt.Errorf("%s dead letter %d: there is none; it was replayed or dropped, or never was: sluice dead list", verb, id)
	}
	if verb == "replay" {
		return err // says it already
	}
	return fmt.Errorf("%s dead letter %d: %w", verb, id, err)
}

func (c *call) deadReplay(ctx context.Context, store store.Store, ids []int64) error {
	replayer, stop, err := engine.OpenReplayer(ctx, c.config, store)
	if err != nil {
		return err
	}
	c.later(stop)
	return c.deadEach(ctx, store, ids, "replay", "replayed", func(id int64) error { return replayer.Replay(ctx, id) })
}

func (c *call) deadDrop(ctx context.Context, store store.Store, ids []int64) error {
	return c.deadEach(ctx, store, ids, "drop", "dropped", func(id int64) error {
		// Dropping what is gone is no error to the store; to somebody who has
		// mistyped an ID it is.
		if _, err := store.DeadLetter(ctx, id); err != nil {
			return err
		}
		return store.DropDeadLetter(ctx, id)
	})
}

// deadEach does something to the letters named, or to all of them. One that
// fails does not keep the others from it, unless the command is interrupted.
func (c *call) deadEach(ctx context.Context, store store.Store, ids []int64, verb, done string, fn func(int64) error) error {
	count, failed := 0, 0
	var first error
	one := func(id int64) error {
		if err := fn(id); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted at dead letter %d: %w", id, err)
			}
			failed++
			if first == nil {
				first = deadError(verb, id, err)
			}
			return nil
		}
		count++
		return nil
	}
	var err error
	if c.given.has("all") {
		err = c.eachDead(ctx, store, 0, func(d sluice.DeadLetter) error { return one(d.ID) })
	} else {
		for _, id := range ids {
			if err = one(id); err != nil {
				break
			}
		}
	}
	c.print("%d %s, %d failed", count, done, failed)
	if err == nil && first != nil && failed > 1 {
		first = fmt.Errorf("%w (the first of %d failures)", first, failed)
	}
	return errors.Join(err, first)
}
