package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/engine"
	"sluice/store"
	"sluice/track/webhook"
	"sluice/user/profile"
)

const webhookLong = `
Endpoints that events are posted to, signed as Standard Webhooks says. An endpoint gets
what is stored from its making on, at least once, in the order of each partition; what
is not answered 2xx is posted again. docs/webhooks.md explains it.

    sluice webhook add https://example.com/hook --types mail.bounced,mail.complained
                                    make one; prints its secret, which is shown once
    sluice webhook list             all of them, and what is wrong with them
    sluice webhook show ID          one
    sluice webhook set ID --batch 1 change it: --url, --types, --batch, --format
    sluice webhook on ID            switch it on again; it goes on where it was
    sluice webhook off ID           nothing is posted; it keeps its place
    sluice webhook test ID          post a message of the type webhook.test now
    sluice webhook deliveries ID    the last attempts: 20 that arrived, 500 that did not
    sluice webhook replay ID --from 2027-01-31T10:00:00Z
                                    post again what was stored since then
    sluice webhook rotate ID        make a new secret; the old one signs for 24 h, too
    sluice webhook remove ID        for good

A type is a kind of events (mail, custom, purchase, system), or a kind, a dot and a name.
`

var webhookFlags = []flagSpec{
	{name: "url", value: "URL", help: "set: where it is posted to"},
	{name: "types", value: "TYPE,...", help: "add, set: which events; all: every event (without it, add takes all)"},
	{name: "batch", value: "N", help: "add, set: how many events a request has at most (100)", check: wholeNumber(1, store.MaxWebhookBatch)},
	{name: "format", value: "FORMAT", help: "add, set: standard, or braze: the statuses of transactional mail that Braze posts", check: oneOf(webhook.FormatStandard, webhook.FormatBraze)},
	{name: "from", value: "TIME", help: "replay: since when, such as 2027-01-31T00:00:00Z", check: aTime},
	{name: "json", help: "list, show, deliveries: one JSON object a line"},
}

// webhooking is the command at work.
type webhooking struct {
	*call
	service *webhook.Service
}

func runWebhook(ctx context.Context, c *call) error {
	actions := map[string]func(*webhooking, context.Context, string) error{
		"add": (*webhooking).add, "list": (*webhooking).list, "show": (*webhooking).show, "set": (*webhooking).set, "on": (*webhooking).on, "off": (*webhooking).off,
		"test": (*webhooking).test, "deliveries": (*webhooking).deliveries, "replay": (*webhooking).replay, "rotate": (*webhooking).rotate, "remove": (*webhooking).remove,
	}
	what, args, err := c.word("add", "list", "show", "set", "on", "off", "test", "deliveries", "replay", "rotate", "remove")
	switch {
	case err != nil:
		return err
	case what == "list" && len(args) > 0:
		return usagef("webhook list: takes no arguments, but %q is one", args[0])
	case what == "add" && len(args) != 1:
		return usagef("webhook add: want one URL")
	case what != "list" && len(args) != 1:
		return usagef("webhook %s: want one ID; `sluice webhook list` shows them", what)
	case what == "replay" && !c.given.has("from"):
		return usagef("webhook replay: say with --from since when")
	}
	db, err := c.store(ctx)
	if err != nil {
		return err
	}
	service := engine.NewWebhooks(c.config, db, c.clock(ctx))
	return actions[what](&webhooking{c, service}, ctx, slices.Concat(args, []string{""})[0])
}

// change is what the flags set.
func (w *webhooking) change() *webhook.Change {
	c := &webhook.Change{}
	for name, to := range map[string]**string{"url": &c.URL, "format": &c.Format} {
		if w.given.has(name) {
			*to = new(w.given.text(name))
		}
	}
	if w.given.has("batch") {
		c.Batch = new(w.given.number("batch"))
	}
	if w.given.has("types") {
		types := []string{}
		if text := w.given.text("types"); text != "all" {
			types = strings.Split(text, ",")
		}
		c.Types = &types
	}
	return c
}

func (w *webhooking) add(ctx context.Context, url string) error {
	c := w.change()
	c.URL = &url
	hook, secret, err := w.service.Add(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(w.main.Stderr, "webhook %s is made; its secret is not shown again:\n", hook.ID)
	w.print("%s", secret)
	return nil
}

func (w *webhooking) rotate(ctx context.Context, id string) error {
	_, secret, err := w.service.Rotate(ctx, id)
	if err != nil {
		return err
	}
	fmt.Fprintln(w.main.Stderr, "the secret before signs for 24 hours, too; this one is not shown again:")
	w.print("%s", secret)
	return nil
}

func (w *webhooking) list(ctx context.Context, _ string) error {
	all, err := w.service.Store.Webhooks(ctx)
	if err == nil && len(all) == 0 {
		fmt.Fprintln(w.main.Stderr, "there are no webhooks; `sluice webhook add` makes one")
	}
	for i := range all {
		if err == nil {
			err = w.print1(&all[i])
		}
	}
	return err
}

func (w *webhooking) show(ctx context.Context, id string) error {
	hook, err := w.service.Store.Webhook(ctx, id)
	if err != nil {
		return err
	}
	return w.print1(&hook)
}

// print1 prints a webhook.
func (w *webhooking) print1(h *store.Webhook) error {
	since := func(millis int64) string {
		if millis == 0 {
			return ""
		}
		return profile.TimeText(millis)
	}
	if w.given.has("json") {
		return w.printJSON(struct {
			ID      string   `json:"id"`
			URL     string   `json:"url"`
			Types   []string `json:"types"`
			Format  string   `json:"format"`
			Batch   int      `json:"batch"`
			Status  string   `json:"status"`
			Reason  string   `json:"reason,omitempty"`
			Failing string   `json:"failing,omitempty"`
			Created string   `json:"created"`
		}{h.ID, h.URL, h.Types, h.Format, h.Batch, h.Status, h.Reason, since(h.FailingMillis), since(h.CreatedMillis)})
	}
	types, more := "all events", ""
	if len(h.Types) > 0 {
		types = strings.Join(h.Types, ",")
	}
	if h.FailingMillis != 0 {
		more = "  fails since " + since(h.FailingMillis)
	}
	if h.Reason != "" {
		more += "  " + h.Reason
	}
	w.print("%s  %s  %s  %s  %s  batch %d%s", h.ID, h.Status, safeText(h.URL), safeText(types), h.Format, h.Batch, safeText(more))
	return nil
}

func (w *webhooking) set(ctx context.Context, id string) error {
	return w.changed(ctx, id, w.change())
}

func (w *webhooking) on(ctx context.Context, id string) error {
	return w.changed(ctx, id, &webhook.Change{Status: new(store.WebhookOn)})
}

func (w *webhooking) off(ctx context.Context, id string) error {
	return w.changed(ctx, id, &webhook.Change{Status: new(store.WebhookOff)})
}

func (w *webhooking) changed(ctx context.Context, id string, c *webhook.Change) error {
	hook, err := w.service.Change(ctx, id, c)
	if err != nil {
		return err
	}
	return w.print1(&hook)
}

func (w *webhooking) test(ctx context.Context, id string) error {
	found, err := w.service.Test(ctx, id)
	switch {
	case err != nil:
		return err
	case !found.Delivered:
		return fmt.Errorf("test webhook %s: %s", id, found.Error)
	}
	w.print("it answered %d within %d ms", found.Status, found.TookMillis)
	return nil
}

func (w *webhooking) deliveries(ctx context.Context, id string) error {
	if _, err := w.service.Store.Webhook(ctx, id); err != nil {
		return err
	}
	all, err := w.service.Store.WebhookDeliveries(ctx, id, store.WebhookSuccesses+store.WebhookFailures)
	if err != nil {
		return err
	}
	for i := range all {
		d := &all[i]
		if w.given.has("json") {
			if err := w.printJSON(struct {
				Message string `json:"webhook_id"`
				At      string `json:"at"`
				Outcome string `json:"outcome"`
				Events  int    `json:"events"`
				Attempt int    `json:"attempt"`
				Status  int    `json:"status,omitempty"`
				Error   string `json:"error,omitempty"`
				Took    int64  `json:"took_ms"`
			}{d.Message, profile.TimeText(d.AtMillis), d.Outcome, d.Events, d.Attempt, d.Status, d.Error, d.TookMillis}); err != nil {
				return err
			}
			continue
		}
		status := "-"
		if d.Status != 0 {
			status = strconv.Itoa(d.Status)
		}
		w.print("%s  %s  %d events  attempt %d  %s  %d ms  %s  %s", profile.TimeText(d.AtMillis), d.Outcome, d.Events, d.Attempt, status, d.TookMillis, d.Message, safeText(d.Error))
	}
	return nil
}

func (w *webhooking) replay(ctx context.Context, id string) error {
	since := time.UnixMilli(w.given.millis("from"))
	if err := w.service.Replay(ctx, id, since); err != nil {
		return err
	}
	w.print("it gets again what was stored since %s and is still there", since.UTC().Format(time.RFC3339))
	return nil
}

func (w *webhooking) remove(ctx context.Context, id string) error {
	if _, err := w.service.Store.Webhook(ctx, id); err != nil {
		return err
	}
	if err := w.service.Store.DropWebhook(ctx, id); err != nil {
		return err
	}
	w.print("removed")
	return nil
}
