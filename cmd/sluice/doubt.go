package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	"sluice/engine"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/store/sqlstore"
)

const doubtLong = `
Mails in doubt were attempted, and their outcome is not known: the other side had them
and its answer never came, or the sending process was killed. They are not sent again
automatically, so that no recipient gets one twice; transactional mail is, once.

    sluice doubt list                          what there is with its evidence, oldest first
    sluice doubt resolve SEND... --as sent     it has arrived
    sluice doubt resolve SEND... --as again    it is sent once more
    sluice doubt resolve SEND... --as give_up  it has not arrived, and is not sent again
    sluice doubt resolve --all --as sent --note 'the log of the relay has them'

The running program carries a decision out within a second, and writes it into the life
of the send: who, when, and the note. The content of mails that can be sent again is kept
in Redis, 2,000 mails a partition at most.
`

var doubtFlags = []flagSpec{
	{name: "limit", value: "N", preset: "50", help: "list: at most so many", check: wholeNumber(1, 1_000_000)},
	{name: "after", value: "SEND", help: "list: those behind this one"},
	{name: "json", help: "list: one JSON object a line"},
	{name: "as", value: "DECISION", help: "resolve: sent, again or give_up"},
	{name: "note", value: "TEXT", help: "resolve: why, for those who ask later", check: atMostBytes(spool.MaxNoteBytes)},
	{name: "all", help: "resolve: all that are to be decided about when it begins"},
}

// doubtPage is how many sends in doubt are asked for at once.
const doubtPage = 200

func runDoubt(ctx context.Context, c *call) error {
	what, sends, err := c.word("list", "resolve")
	if err != nil {
		return err
	}
	for _, send := range sends {
		if _, _, ok := mail.ParseSendID(send); !ok {
			return usagef("doubt %s: %q is no send; `sluice doubt list` shows them", what, send)
		}
	}
	decision := spool.Decision(c.given.text("as"))
	switch {
	case what == "list" && len(sends) > 0:
		return usagef("doubt list: takes no arguments, but %q is one", sends[0])
	case what == "list":
		return c.doubtList(ctx)
	case c.given.has("all") == (len(sends) > 0):
		return usagef("doubt resolve: want either SENDs or --all")
	case !slices.Contains(spool.Decisions, decision):
		return usagef("doubt resolve: --as %q: want sent, again or give_up", string(decision))
	}
	return c.doubtResolve(ctx, decision, sends)
}

// shownDoubt is a send in doubt as --json shows it.
type shownDoubt struct {
	Send      string   `json:"send"`
	To        string   `json:"to"`
	From      string   `json:"from"`
	Class     string   `json:"class"`
	Priority  string   `json:"priority"`
	Route     string   `json:"route"`
	Attempts  int      `json:"attempts"`
	Accepted  string   `json:"accepted"`
	Undecided bool     `json:"undecided"`
	Life      []string `json:"life"`
}

func (c *call) doubtList(ctx context.Context) error {
	after, number := "", -1
	if text := c.given.text("after"); text != "" {
		var ok bool
		if after, number, ok = mail.ParseSendID(text); !ok {
			return usagef("doubt list: --after %q is no send", text)
		}
	}
	store, err := c.store(ctx)
	if err != nil {
		return err
	}
	return c.upToLimit("nothing is in doubt", func(show func(string, func() error) error) error {
		return eachDoubt(ctx, store, after, number, func(row *mail.SendRow, id string) error {
			return show(id, func() error { return c.printDoubt(row, id) })
		})
	})
}

// eachDoubt hands sends in doubt on, oldest first, after one.
func eachDoubt(ctx context.Context, store *sqlstore.Store, after string, number int, fn func(row *mail.SendRow, id string) error) error {
	for {
		rows, err := store.InDoubt(ctx, after, number, doubtPage)
		if err != nil {
			return err
		}
		for i := range rows {
			row := &rows[i]
			after, number = row.Message, row.Number
			if err := fn(row, (&mail.Send{Message: row.Message, Number: row.Number}).ID()); err != nil {
				return err
			}
		}
		if len(rows) < doubtPage {
			return nil
		}
	}
}

func (c *call) printDoubt(row *mail.SendRow, id string) error {
	s := shownDoubt{
		Send: id, To: row.To, From: row.From, Class: row.Class.String(), Priority: row.Priority.String(), Route: row.Route, Attempts: row.Attempts,
		Accepted: time.UnixMilli(row.AcceptedMillis).UTC().Format(time.RFC3339), Undecided: row.DueMillis == 0, Life: mail.LifeTexts(row.Life),
	}
	if c.given.has("json") {
		return c.printJSON(s)
	}
	todo := ""
	if !s.Undecided {
		todo = ", attempted once more by itself"
	}
	c.print("%s  to %s  from %s  %s, %s%s", s.Send, safeText(s.To), safeText(s.From), s.Class, s.Priority, todo)
	for _, line := range s.Life {
		c.print("    %s", safeText(line))
	}
	return nil
}

// operator names who runs this program.
func operator() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return name + "@" + engine.HostName()
}

func (c *call) doubtResolve(ctx context.Context, decision spool.Decision, sends []string) error {
	running, err := c.running(ctx)
	if err != nil {
		return err
	}
	if c.given.has("all") {
		err := eachDoubt(ctx, running.Store, "", -1, func(row *mail.SendRow, id string) error {
			if row.DueMillis == 0 {
				sends = append(sends, id)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	logs := engine.LogsOf(running.Redis, running.Config)
	decider := &spool.Decider{Lanes: engine.LanesOf(logs), Ledger: running.Store, Clock: c.clockOf(ctx, running.Redis), Writer: flow.NewWriter(logs, "doubt:"+strings.ToLower(rand.Text()), running.Config.BacklogMB<<20)}
	c.later(func() error { return decider.Writer.Close(ctx) })
	by, done, open := operator(), 0, 0
	var failed []error
	for _, send := range sends {
		_, settled, err := decider.Decide(ctx, send, decision, by, c.given.text("note"))
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("interrupted at send %s; %d were decided about: %w", send, done, ctx.Err())
		case err != nil:
			failed = append(failed, err)
		case !settled:
			open++
		default:
			done++
		}
	}
	c.print("%d decided about, %d not seen in the ledger yet, %d failed", done, open, len(failed))
	if n := len(failed); n > 1 {
		return fmt.Errorf("%w (the first of %d failures)", failed[0], n)
	}
	return errors.Join(failed...)
}
