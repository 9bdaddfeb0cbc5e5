package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"sluice"
	"sluice/config"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/route"
	"sluice/mail/via/sinkbox"
)

// openRoutes prepares the ways out for mail. Nothing is connected to yet, but
// what is wrong with them is found.
func (e *core) openRoutes(s *sending) error {
	box, err := sinkbox.New(e.config.Mailboxes.Box(), e.clock, e.happened)
	if err != nil {
		return fmt.Errorf("make the built-in mailboxes: %w", err)
	}
	o := route.Options{Mode: route.Mode(e.config.Sending), Allow: e.config.AllowList, Sink: box, Redis: e.redis, Paused: e.gate.Paused, Days: e.store, Kept: e.store, Clock: e.clock, Log: e.log}
	s.box, s.transports = box, append(s.transports, box)
	for i := range e.config.Routes {
		r := &e.config.Routes[i]
		t := mail.Transport(elsewhere{name: r.Name})
		if e.config.HasRole(config.RoleSend) {
			if t, err = r.Transport(os.Getenv, e.clock); err != nil {
				return fmt.Errorf("open route %s: %w", r.Name, err)
			}
			e.returnTo(r, t)
			s.transports = append(s.transports, t)
		}
		settings, err := r.Settings(t)
		if err != nil {
			return fmt.Errorf("open route %s: %w", r.Name, err)
		}
		o.Routes = append(o.Routes, settings)
	}
	if s.router, err = route.New(o); err == nil {
		s.operator.Meant = s.router.Meant
	}
	return err
}

// RouterOf returns a router that sends nothing and knows the settings of all
// routes, for a program beside those that serve.
func RouterOf(cfg *config.Config, clock sluice.Clock) (*route.Router, error) {
	o := route.Options{Mode: route.Mode(cfg.Sending), Allow: cfg.AllowList, Sink: elsewhere{name: config.SinkRoute}, Clock: clock}
	for i := range cfg.Routes {
		settings, err := cfg.Routes[i].Settings(elsewhere{name: cfg.Routes[i].Name})
		if err != nil {
			return nil, fmt.Errorf("read route %s: %w", cfg.Routes[i].Name, err)
		}
		o.Routes = append(o.Routes, settings)
	}
	return route.New(o)
}

// elsewhere stands for the transport of a route in a process that sends nothing
// and may lack what it takes to (a password in the environment): it has a name,
// and is never asked for more.
type elsewhere struct {
	mail.Transport
	name string
}

func (x elsewhere) Name() string { return x.name }
func (elsewhere) Window() int    { return 1 }

// happened writes what has happened in the built-in mailboxes as mail events.
// They are made up: what cannot be written now is not kept for later.
func (e *core) happened(all []sinkbox.Happening) {
	parts := make([]flow.Part, len(e.logs))
	for i := range all {
		h := &all[i]
		message, _, ok := mail.ParseSendID(h.Send)
		if !ok {
			continue
		}
		about := map[string]string{"send": h.Send, "route": config.SinkRoute}
		if h.Code != "" {
			about["reply"] = h.Code + " " + h.Reason
		}
		properties, _ := json.Marshal(about) // texts always can be
		p := &parts[mail.SendPartition(h.To, len(parts))]
		p.Items = sluice.AppendEvent(p.Items, &sluice.Event{
			Kind: sluice.KindMail, Origin: sluice.OriginTrusted, TimeMillis: h.Time.UnixMilli(), ID: "sink:" + h.Send + ":" + h.Event, Name: h.Event,
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
func (e *core) closeRoutes() error {
	if e.sending == nil {
		return nil
	}
	var errs []error
	for _, t := range e.sending.transports {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
