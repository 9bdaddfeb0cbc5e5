package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"sluice"
	"sluice/config"
	"sluice/flow"
	"sluice/route"
	"sluice/sinkbox"
	"sluice/spool"
)

// openRoutes prepares the ways out for mail. Nothing is connected to yet, but
// what is wrong with them is found.
func (e *engine) openRoutes(s *sending) error {
	box, err := sinkbox.New(e.config.Mailboxes.Box(), e.clock, e.happened)
	if err != nil {
		return fmt.Errorf("make the built-in mailboxes: %w", err)
	}
	o := route.Options{Mode: route.Mode(e.config.Sending), Allow: e.config.AllowList, Sink: box, Redis: e.redis, Clock: e.clock}
	s.box, s.transports = box, append(s.transports, box)
	for i := range e.config.Routes {
		r := &e.config.Routes[i]
		t := sluice.Transport(elsewhere{name: r.Name})
		if e.config.HasRole(config.RoleSend) {
			if t, err = r.Transport(os.Getenv, e.clock); err != nil {
				return fmt.Errorf("open route %s: %w", r.Name, err)
			}
			s.transports = append(s.transports, t)
		}
		settings, err := r.Settings(t)
		if err != nil {
			return fmt.Errorf("open route %s: %w", r.Name, err)
		}
		o.Routes = append(o.Routes, settings)
	}
	s.router, err = route.New(o)
	return err
}

// elsewhere stands for the transport of a route in a process that sends nothing
// and may lack what it takes to (a password in the environment): it has a name,
// and is never asked for more.
type elsewhere struct {
	sluice.Transport
	name string
}

func (x elsewhere) Name() string { return x.name }
func (elsewhere) Window() int    { return 1 }

// happened writes what has happened in the built-in mailboxes as mail events.
// They are made up: what cannot be written now is not kept for later.
func (e *engine) happened(all []sinkbox.Happening) {
	parts := make([]flow.Part, len(e.logs))
	for i := range all {
		h := &all[i]
		message, _, ok := sluice.ParseSendID(h.Send)
		if !ok {
			continue
		}
		about := map[string]string{"send": h.Send, "route": config.SinkRoute}
		if h.Code != "" {
			about["reply"] = h.Code + " " + h.Reason
		}
		properties, _ := json.Marshal(about) // texts always can be
		p := &parts[sluice.SendPartition(h.To, len(parts))]
		p.Items = sluice.AppendEvent(p.Items, &sluice.Event{
			Kind: sluice.KindMail, TimeMillis: h.Time.UnixMilli(), ID: "sink:" + h.Send + ":" + h.Event, Name: h.Event,
			Email: h.To, Message: message, Properties: string(properties),
		})
		p.Count++
	}
	var some []flow.Part
	for i := range parts {
		if parts[i].Partition = i; parts[i].Count > 0 {
			some = append(some, parts[i])
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), happenedWithin)
	defer cancel()
	if err := e.writer.Write(ctx, some...); err != nil && !errors.Is(err, flow.ErrClosed) {
		e.log.Warn("what happened in the built-in mailboxes could not be written", "events", len(all), "error", err)
	}
}

// happenedWithin bounds the writing of what has happened.
const happenedWithin = 10 * time.Second

// closeRoutes ends the connections of the ways out.
func (e *engine) closeRoutes() error {
	if e.sending == nil {
		return nil
	}
	var errs []error
	for _, t := range e.sending.transports {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}

// routes is the router as package spool wants it.
type routes struct{ *route.Router }

// Takes implements spool.Routes.
func (r routes) Takes(t sluice.Transport, s *sluice.Send, now time.Time) spool.Take {
	return spool.Take(r.Router.Takes(t, s, now))
}

const sendingLong = `
What is mailed, and one switch that stops all marketing mail in all processes within a
second. It stays stopped, through restarts, until somebody lets it go on; it waits
meanwhile, and what is transactional goes on.

    sluice sending show           what the configuration sends, and what is stopped
    sluice sending stop [NOTE]    stop all marketing mail; NOTE says why
    sluice sending resume         let it go on

The running program need not be asked: the switch is in Redis.
`

// maxNoteBytes bounds what is said of a stop.
const maxNoteBytes = 500

func runSending(ctx context.Context, c *call) error {
	words := []string{"show", "stop", "resume"}
	if len(c.given.args) == 0 {
		return usagef("sending: want %s; `sluice help sending` explains them", strings.Join(words, ", "))
	}
	what, rest := c.given.args[0], c.given.args[1:]
	note := strings.Join(rest, " ")
	switch {
	case what != "show" && what != "stop" && what != "resume":
		return usagef("sending: unknown %q%s", what, config.DidYouMean(what, words))
	case what != "stop" && len(rest) > 0:
		return usagef("sending %s: takes no arguments, but %q is one", what, rest[0])
	case len(note) > maxNoteBytes:
		return usagef("sending stop: the note has %d bytes, the most is %d", len(note), maxNoteBytes)
	}
	cfg, err := c.load(nil)
	if err != nil {
		return err
	}
	redis, err := dialRunning(ctx, cfg)
	if err != nil {
		return err
	}
	defer redis.Close()
	switch what {
	case "stop":
		note = strings.TrimSpace(time.Now().UTC().Format(time.RFC3339) + " " + note)
		if err := redis.Stop(ctx, route.StopMarketing, note); err != nil {
			return err
		}
		c.print("all marketing mail is stopped, in all processes within a second; `sluice sending resume` lets it go on")
		return nil
	case "resume":
		was, err := redis.Unstop(ctx, route.StopMarketing)
		switch {
		case err != nil:
			return err
		case was:
			c.print("marketing mail goes on")
		default:
			c.print("marketing mail was not stopped")
		}
		return nil
	}
	stops, err := redis.Stops(ctx)
	if err != nil {
		return err
	}
	c.print("sending: %s (%s)", cfg.Sending, cfg.Origin("sending"))
	if note, stopped := stops[route.StopMarketing]; stopped {
		c.print("marketing mail: stopped %s", safeText(note))
	} else {
		c.print("marketing mail: not stopped")
	}
	return nil
}
