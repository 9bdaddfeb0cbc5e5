package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/config"
	"sluice/engine"
	"sluice/flow"
	"sluice/ingest"
	"sluice/mail"
	"sluice/mail/spool"
)

const sendingLong = `
Shows what is mailed, and stops mail in all processes within a second. Stopped mail
waits, through restarts, until an operator resumes or purges it, or until it expires.
The switches are in Redis: only where that is embedded must the program run.

    sluice sending show                            what is sent, what is stopped
    sluice sending pause --route relay-1 [NOTE]    stop some mail; NOTE says why
    sluice sending resume --route relay-1          let it go on
    sluice sending purge --tag spring              count what waits and is meant
    sluice sending purge --tag spring --yes        cancel it
    sluice sending purge --tag spring --count 500  cancel 500 of it at most
    sluice sending purge --domain example.org      of the mail to one domain
    sluice sending stop [NOTE]                     the same as pause --class marketing

Mail is selected by one of --class, --priority, --route, --tag, --message or --all, for a
purge also by --domain (of the recipient) or --sender (an address or its domain);
--class beside --route, --tag or --message means their mail of that class alone.
A stopped route takes nothing: mail that other routes take goes by them. Resume without
a selection resumes marketing mail. A purge by route means mail that asked for the route,
was last tried by it, or was not tried yet and goes by no other. Purged mail is cancelled
in the ledger, with the reason purged.
Mail that is on the wire just then is cancelled only if it has to wait once more.
`

var sendingFlags = []flagSpec{
	{name: mail.SelectAll, help: "all mail"},
	{name: mail.SelectClass, value: "CLASS", help: "mail of a class: transactional or marketing"},
	{name: mail.SelectPriority, value: "PRIORITY", help: "mail of a priority: high, normal or low"},
	{name: mail.SelectRoute, value: "NAME", help: "mail by a route"},
	{name: mail.SelectTag, value: "TAG", help: "mail with a tag"},
	{name: mail.SelectMessage, value: "ID", help: "one message"},
	{name: mail.SelectDomain, value: "DOMAIN", help: "purge: mail to a domain"},
	{name: mail.SelectSender, value: "SENDER", help: "purge: mail from an address or a domain, that of its envelope"},
	{name: "yes", help: "purge all that is meant"},
	{name: "count", value: "N", help: "purge so many at most", check: wholeNumber(1, 1_000_000_000)},
}

// maxNoteBytes bounds what is said of a stop.
const maxNoteBytes = 500

func runSending(ctx context.Context, c *call) error {
	what, rest, err := c.word("show", "pause", "resume", "purge", "stop")
	if err != nil {
		return err
	}
	note := strings.Join(rest, " ")
	switch {
	case what != "stop" && what != "pause" && len(rest) > 0:
		return usagef("sending %s: takes no arguments, but %q is one", what, rest[0])
	case len(note) > maxNoteBytes:
		return usagef("sending %s: the note has %d bytes, the most is %d", what, len(note), maxNoteBytes)
	case what != "purge" && (c.given.has("yes") || c.given.has("count")):
		return usagef("sending %s: --yes and --count are for purge", what)
	}
	s, err := c.selected(what)
	if err != nil {
		return err
	}
	cfg := c.config
	redis, err := c.redis(ctx)
	if err != nil {
		return err
	}
	if what == "show" { // stopping must do without the database
		if err := engine.LookUpPartitions(ctx, cfg); err != nil {
			return err
		}
	}
	o := &spool.Operator{Redis: redis, Partitions: cfg.Partitions, Clock: c.clockOf(ctx, redis)}
	switch what {
	case "stop", "pause":
		if err := o.Stop(ctx, s, note); err != nil {
			return err
		}
		c.print("%s is stopped, in all processes within a second; `sluice sending resume%s` lets it go on", safeText(s.String()), resumeFlag(s))
		c.warnOfRoute(s)
		return nil
	case "resume":
		was, err := o.Resume(ctx, s)
		switch {
		case err != nil:
			return err
		case was:
			c.print("%s goes on", safeText(s.String()))
		default:
			c.print("%s was not stopped", safeText(s.String()))
		}
		return nil
	case "purge":
		return c.purge(ctx, o, s)
	}
	return c.showSending(ctx, o)
}

// selected reads which mail is meant.
func (c *call) selected(what string) (mail.Selector, error) {
	var by []string
	words := mail.SelectorWords
	if what == "purge" {
		words = mail.PurgeWords
	}
	for _, word := range mail.PurgeWords {
		if c.given.has(word) {
			by = append(by, word)
		}
	}
	class := ""
	if at := slices.Index(by, mail.SelectClass); at >= 0 && len(by) == 2 {
		by, class = slices.Delete(by, at, at+1), c.given.text(mail.SelectClass)
	}
	switch {
	case len(by) == 0 && (what == "stop" || what == "resume"):
		return mail.NewSelector(mail.SelectClass, mail.ClassMarketing.String())
	case len(by) == 0 && what == "show":
		return mail.Selector{}, nil
	case what == "stop":
		return mail.Selector{}, usagef("sending stop: it stops all marketing mail, and takes no --%s: say sending pause", by[0])
	case len(by) != 1 || !slices.Contains(words, by[0]) || what == "show":
		return mail.Selector{}, usagef("sending %s: want %s of --%s", what, map[bool]string{true: "none", false: "one"}[what == "show"], strings.Join(words, ", --"))
	}
	value := c.given.text(by[0])
	if by[0] == mail.SelectAll {
		value = ""
	}
	s, err := mail.NewSelector(by[0], value)
	if err == nil {
		s, err = s.Of(class)
	}
	if err != nil {
		return s, usageError{err}
	}
	return s, nil
}

// warnOfRoute says that the configuration has no route that was stopped: its name may be
// misspelled, and all mail goes on. It may also be a route of processes that are to come.
func (c *call) warnOfRoute(s mail.Selector) {
	names := []string{config.SinkRoute}
	for i := range c.config.Routes {
		names = append(names, c.config.Routes[i].Name)
	}
	if s.By == mail.SelectRoute && !slices.Contains(names, s.Value) {
		fmt.Fprintf(c.main.Stderr, "sluice: there is no route %s in the configuration here; known are %s\n", safeText(s.Value), strings.Join(names, ", "))
	}
}

func resumeFlag(s mail.Selector) string {
	switch {
	case s.Name() == mail.ClassMarketing.String():
		return ""
	case s.By == mail.SelectAll:
		return " --all"
	}
	flag := " --" + s.By + " " + safeText(s.Value)
	if s.Class != 0 {
		flag += " --class " + s.Class.String()
	}
	return flag
}

// purge cancels what waits, or counts it.
func (c *call) purge(ctx context.Context, o *spool.Operator, s mail.Selector) error {
	cfg := c.config
	store, err := c.storeAsItIs(ctx)
	if err != nil {
		return err
	}
	if _, err := flow.SameDeployment(ctx, o.Redis, store); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	router, err := engine.RouterOf(cfg, o.Clock)
	if err != nil {
		return err
	}
	o.Partitions, o.Meant = cfg.Partitions, router.Meant
	ingest.RaiseBy(o.Redis, store, slog.Default())
	logs := engine.LogsOf(o.Redis, cfg)
	o.Ledger, o.Lanes = store, engine.LanesOf(logs)
	o.Writer = flow.NewWriter(logs, fmt.Sprintf("purge:%d", time.Now().UnixNano()), cfg.BacklogMB<<20)
	c.later(func() error {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.CloseTimeout)
		defer cancel()
		return o.Writer.Close(closing)
	})
	most, count := 0, !c.given.has("yes") && !c.given.has("count")
	if c.given.has("count") {
		most = c.given.number("count")
	}
	progress := c.progress()
	total, after := 0, ""
	for {
		step := spool.PurgeStep
		if most > 0 {
			step = min(step, most-total)
		}
		n, next, err := o.Purge(ctx, s, after, step, count)
		if total += n; err != nil {
			return fmt.Errorf("%w; %d were cancelled, run it again for the rest", err, total)
		}
		if after = next; after == "" || most > 0 && total >= most {
			break
		}
		progress.say(fmt.Sprintf("%s so far", grouped(int64(total))))
	}
	if count {
		c.print("%s sends wait of %s; none was cancelled. --yes cancels all of them, --count N at most N", grouped(int64(total)), safeText(s.String()))
		return nil
	}
	c.print("%s sends are cancelled; those whose attempt was under way, only if they have to wait once more", grouped(int64(total)))
	return nil
}

// showSending says what is sent, what is stopped, and what the lanes lacked.
func (c *call) showSending(ctx context.Context, o *spool.Operator) error {
	cfg := c.config
	stopped, err := o.Stopped(ctx)
	if err != nil {
		return err
	}
	c.print("sending: %s (%s)", cfg.Sending, cfg.Origin("sending"))
	marketing := mail.ClassMarketing.String()
	if note, is := stopped[marketing]; is {
		c.print("marketing mail: stopped %s", safeText(note))
	} else {
		c.print("marketing mail: not stopped")
	}
	delete(stopped, marketing)
	for _, name := range slices.Sorted(maps.Keys(stopped)) {
		if s, ok := mail.ParseSelector(name); ok {
			c.print("%s: stopped %s", safeText(s.String()), safeText(stopped[name]))
		}
	}
	var all spool.Found
	var moved time.Time
	due := 0
	for _, l := range engine.LogsOf(o.Redis, cfg) {
		found, at, open, err := l.Lanes().Found(ctx)
		if err != nil {
			return err
		}
		var f spool.Found
		if found != "" && json.Unmarshal([]byte(found), &f) == nil {
			all.Add(f)
		}
		if open {
			due++
		}
		if at.After(moved) {
			moved = at
		}
	}
	if due > 0 {
		c.print("lanes and ledger are still to be compared in %d partitions: only urgent mail of them is sent before", due)
	}
	if all.At != 0 {
		c.print("redis or the database was another one at %s; lanes and ledger were compared: %s waited in both, %s in the ledger alone (in doubt now), "+
			"%s in a lane alone (in the ledger now), %s had ended (not sent again)", showTime(moved), grouped(int64(all.Waiting)), grouped(int64(all.Doubt)),
			grouped(int64(all.Known)), grouped(int64(all.Ended)))
	}
	return nil
}
