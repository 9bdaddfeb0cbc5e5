package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/schedule"
	"sluice/store/sqlstore"
)

const scheduleLong = `
Scheduled mails in doubt were asked for by Braze's calls, and are not sent by themselves:
no route or sender domain of the configuration took them, they could not be handed in
completely for 20 hours, they were due between a backup and its restore, or they cannot be
read.

    sluice schedule list                 what there is, the earliest first
    sluice schedule release ID...        hand it in within a second, however late
    sluice schedule drop ID...           never send it
    sluice schedule release --all

Who gets a mail that is released is looked up then. What a restore put in doubt, or what
could not be handed in completely, may have been sent already, to some: look at the log of
the relay first. One of which the ledger has mails can only be dropped. --all takes those
that are there when it begins.
`

var scheduleFlags = []flagSpec{
	{name: "limit", value: "N", preset: "50", help: "list: at most so many", check: wholeNumber(1, 1_000_000)},
	{name: "after", value: "ID", help: "list: those behind this one"},
	{name: "json", help: "list: one JSON object a line"},
	{name: "all", help: "release, drop: all that are in doubt when it begins"},
}

// schedulePage is how many schedules are asked for at once. One may have MiB.
const schedulePage = 10

func runSchedule(ctx context.Context, c *call) error {
	what, ids, err := c.word("list", "release", "drop")
	if err != nil {
		return err
	}
	switch all := c.given.has("all"); {
	case what == "list" && (len(ids) > 0 || all):
		return usagef("schedule list: takes neither IDs nor --all")
	case what != "list" && all == (len(ids) > 0):
		return usagef("schedule %s: want either IDs or --all", what)
	}
	store, err := c.store(ctx)
	if err != nil {
		return err
	}
	if what == "list" {
		return c.scheduleList(ctx, store)
	}
	return c.scheduleDecide(ctx, store, ids, what == "release")
}

// eachSchedule hands schedules in doubt on, the earliest first, behind a place.
func eachSchedule(ctx context.Context, store *sqlstore.Store, after mail.SchedulePlace, fn func(*mail.Schedule) error) error {
	for {
		page, err := store.Schedules(ctx, mail.ScheduleInDoubt, after, sluice.MaxEventTimeMillis, schedulePage)
		if err != nil {
			return err
		}
		for i := range page {
			after = page[i].Place()
			if err := fn(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < schedulePage {
			return nil
		}
	}
}

// shownSchedule is a schedule in doubt as --json shows it. Of one that cannot be read
// nothing is known but its id and times.
type shownSchedule struct {
	ID      string `json:"id"`
	Due     string `json:"due"`
	Created string `json:"created"`
	Updated string `json:"updated"`
	Users   int    `json:"users"`
	From    string `json:"from"`
	Subject string `json:"subject"`
	Error   string `json:"error,omitempty"` // why it cannot be read
}

func shownScheduleOf(row *mail.Schedule) shownSchedule {
	when := func(millis int64) string { return time.UnixMilli(millis).UTC().Format(time.RFC3339) }
	s := shownSchedule{ID: row.ID, Due: when(row.DueMillis), Created: when(row.CreatedMillis), Updated: when(row.UpdatedMillis)}
	request, err := schedule.Parse(row.Request)
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.Users, s.From, s.Subject = len(request.Users), request.Mailing.Email.Sender, request.Mailing.Email.Mail.Subject
	return s
}

func (c *call) scheduleList(ctx context.Context, store *sqlstore.Store) error {
	var after mail.SchedulePlace
	if id := c.given.text("after"); id != "" {
		row, err := store.Schedule(ctx, id)
		if err != nil {
			return err
		}
		after = row.Place()
	}
	return c.upToLimit("no scheduled mail is in doubt", func(show func(string, func() error) error) error {
		return eachSchedule(ctx, store, after, func(row *mail.Schedule) error {
			return show(row.ID, func() error {
				s := shownScheduleOf(row)
				if s.Error != "" {
					return c.row(s, "%s  due %s  %s", s.ID, s.Due, safeText(s.Error))
				}
				return c.row(s, "%s  due %s  to %d users  from %s  %s", s.ID, s.Due, s.Users, safeText(s.From), safeText(s.Subject))
			})
		})
	})
}

// scheduleDecide releases or drops schedules. One that fails does not keep the others
// from it.
func (c *call) scheduleDecide(ctx context.Context, store *sqlstore.Store, ids []string, release bool) error {
	if c.given.has("all") {
		err := eachSchedule(ctx, store, mail.SchedulePlace{}, func(row *mail.Schedule) error {
			ids = append(ids, row.ID)
			return nil
		})
		if err != nil {
			return err
		}
	}
	clock, done := c.clock(ctx), 0
	var failed []error
	for _, id := range ids {
		switch err := schedule.Decide(ctx, store, clock, id, release); {
		case ctx.Err() != nil:
			return fmt.Errorf("interrupted at schedule %s; %d were decided about: %w", id, done, ctx.Err())
		case err != nil:
			failed = append(failed, err)
		default:
			done++
		}
	}
	verb := "dropped"
	if release {
		verb = "released"
	}
	c.print("%d %s, %d failed", done, verb, len(failed))
	return errors.Join(failed...)
}
