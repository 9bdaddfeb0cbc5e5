package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice"
	"sluice/engine"
	"sluice/ops/alert"
)

const alertLong = `
Sends a test alert to each receiver of the configuration (alerts.webhook, alerts.email)
and reports the outcome. Needs no Redis, no database and no running program. Exits with
1 if one did not arrive.

    sluice alert test

docs/alerts.md says what each alert means.
`

// alertTestTimeout bounds one way.
const alertTestTimeout = 20 * time.Second

func runAlert(ctx context.Context, c *call) error {
	if len(c.given.args) != 1 || c.given.args[0] != "test" {
		return usagef("alert: want test; `sluice help alert` explains it")
	}
	cfg := c.config
	if !cfg.Alerts.On() {
		return errors.New("alert test: nobody is told: set alerts.webhook, or alerts.email")
	}
	channels, err := engine.AlertChannels(cfg)
	if err != nil {
		return err
	}
	var errs []error
	for _, ch := range channels {
		sendCtx, cancel := context.WithTimeout(ctx, alertTestTimeout)
		err := ch.Send(sendCtx, alert.NewTest(engine.HostName(), sluice.SystemClock{}.Now()))
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("alert test: %s: %w", ch.Name(), err))
			continue
		}
		c.print("%s: taken", ch.Name())
	}
	return errors.Join(errs...)
}
