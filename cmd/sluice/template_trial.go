package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"sluice"
	"sluice/config"
	"sluice/engine"
	"sluice/flow"
	"sluice/ingest"
	"sluice/mail"
	"sluice/mail/route"
	"sluice/mail/spool"
	"sluice/mail/template"
	"sluice/store/sqlstore"
	"sluice/user/consent"
)

// templateInput returns the version of a template that the flags name, and its
// values.
func (c *call) templateInput(ctx context.Context, store *sqlstore.Store, id string) (*mail.Template, *mail.TemplateVersion, *template.Input, error) {
	t, err := store.Template(ctx, id)
	if err != nil {
		return nil, nil, nil, err
	}
	v, err := store.TemplateVersion(ctx, t.ID, c.given.number("version"))
	if err != nil {
		return nil, nil, nil, err
	}
	links := consent.New(nil, c.config.PublicURL, nil, sluice.SystemClock{})
	links.Pages = c.config.SubscriptionPages()
	in := &template.Input{Origin: template.SampleOrigin, Unsubscribe: links.SampleUnsubscribeURL()}
	if in.Variables, err = c.variables(); err != nil {
		return nil, nil, nil, err
	}
	if name := c.given.text("user"); name != "" {
		if in.Profile, err = profileOf(ctx, store, name); err != nil {
			return nil, nil, nil, err
		}
	}
	return &t, &v, in, nil
}

// variables are those of --variables or of the file of --vars.
func (c *call) variables() (string, error) {
	name := c.given.text("vars")
	switch {
	case name == "":
		return c.given.text("variables"), nil
	case c.given.has("variables"):
		return "", usagef("template: --vars and --variables say the same, want one of them")
	}
	return c.readUpTo(name, "variables", template.MaxVariablesBytes, "")
}

// templateTest mails a template to one address, by the program that runs.
func (c *call) templateTest(ctx context.Context, store *sqlstore.Store, args []string) error {
	if !c.given.has("to") {
		return usagef("template test: want --to ADDRESS")
	}
	t, v, in, err := c.templateInput(ctx, store, args[0])
	if err != nil {
		return err
	}
	trial := spool.Trial{Version: v, Input: *in, From: c.given.text("from"), To: c.given.text("to")}
	cfg := c.config
	redis, err := c.redis(ctx)
	if err != nil {
		return err
	}
	if err := engine.CheckRunning(ctx, cfg, store, redis); err != nil {
		return err
	}
	clock := c.clockOf(ctx, redis)
	draft, _, err := trial.Draft(clock.Now())
	if err != nil {
		return fmt.Errorf("make a mail of template %s: %w", t.ID, err)
	}
	if err := submitDraft(ctx, cfg, store, redis, clock, draft); err != nil {
		return fmt.Errorf("hand the mail in: %w", err)
	}
	c.print("template %s, version %d: on its way to %s as message %s%s", t.ID, v.Version, safeText(draft.To[0]), draft.ID, whereItGoes(cfg))
	return nil
}

// submitDraft hands a message in as the program itself does.
func submitDraft(ctx context.Context, cfg *config.Config, store *sqlstore.Store, redis *flow.Redis, clock sluice.Clock, draft mail.Draft) error {
	if cfg.Domains.Require && cfg.Leaves() {
		if err := engine.RefusedDomain(ctx, cfg, &draft); err != nil {
			return err
		}
	}
	ingest.RaiseBy(redis, store, slog.Default())
	writer := flow.NewWriter(engine.LogsOf(redis, cfg), "command:"+draft.ID, cfg.BacklogMB<<20)
	intake := spool.Intake{Writer: writer, Bodies: &spool.BodyWriter{Store: store}, Partitions: cfg.Partitions, Clock: clock}
	_, err := intake.Submit(ctx, "", []mail.Draft{draft})
	return errors.Join(err, writer.Close(ctx))
}

// whereItGoes says what becomes of a mail by the setting sending, where that is
// not what one expects.
func whereItGoes(cfg *config.Config) string {
	switch route.Mode(cfg.Sending) {
	case route.Off:
		return "; it waits, for sending is off"
	case route.Sink:
		return "; it goes into the built-in mailboxes, for sending is sink"
	case route.AllowList:
		return "; it goes there if allow_list has the address, else into the built-in mailboxes"
	}
	return ""
}
