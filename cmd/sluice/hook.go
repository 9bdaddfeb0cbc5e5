package main

import (
	"context"
	"fmt"
	"strings"

	webhook "sluice/track/hook"
)

// hookLong has a line of providers, which the table knows.
var hookLong = `
Reads what a mail provider posts about mail (its webhook), and prints the events in it, one
JSON object a line. The body is standard input, or FILE: JSON, an object a line, or a form
as it was posted. It reads nothing else, changes nothing, and checks no signature.

    sluice hook parse sendgrid body.json
    curl -s https://example.com/saved-body | sluice hook parse mailgun

Providers: ` + strings.Join(webhook.Names(), ", ") + `.

A line has type, recipient, message_id, event_id, time, reject_reason, description,
mta_response, user_agent, click_url, tags and metadata. What the provider does not say is
null; of tags it is [], of metadata {}. time is UTC with milliseconds. event_id is never
null: without one of the provider it follows from the element, so a repeat has the same.
Of a bounce metadata has bounce_class (hard, soft, block, other) and, where known, status.
A type that is not known, and an element that cannot be read, is an event "unknown", with
its text as description. A request of SNS to confirm a subscription has no event: it is
said on standard error.
`

func runHook(_ context.Context, c *call) error {
	args := c.given.args
	if len(args) < 2 || len(args) > 3 || args[0] != "parse" {
		return usagef("hook: want parse, a provider, and no or one file")
	}
	provider, err := webhook.Find(args[1])
	if err != nil {
		return usagef("hook parse: %w", err)
	}
	name := "-"
	if len(args) == 3 {
		name = args[2]
	}
	body, err := c.readUpTo(name, "body", webhook.MaxBodyBytes, "")
	if err != nil {
		return err
	}
	found, err := provider.Parse(&webhook.Request{Body: []byte(body)})
	if err != nil {
		return fmt.Errorf("hook parse %s: %w", provider.Name, err)
	}
	for i := range found.Events {
		line, err := safeJSON(&found.Events[i])
		if err != nil {
			return err
		}
		c.print("%s", line)
	}
	for _, note := range found.Notes {
		fmt.Fprintln(c.main.Stderr, safeText(note))
	}
	return nil
}
