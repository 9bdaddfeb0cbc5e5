package main

import (
	"context"

	"sluice/config"
	"sluice/engine"
	"sluice/flow"
)

// dialConfigured loads the configuration and connects to its main Redis, as
// dialRunning does. The caller closes the connection.
func (c *call) dialConfigured(ctx context.Context) (*config.Config, *flow.Redis, error) {
	cfg, err := c.load(nil)
	if err != nil {
		return nil, nil, err
	}
	redis, err := engine.DialRunning(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return cfg, redis, nil
}

// joinRunning loads the configuration and connects to what it names, and makes sure
// that a program is at work on it. The caller closes it.
func (c *call) joinRunning(ctx context.Context) (*engine.Running, error) {
	cfg, err := c.load(nil)
	if err != nil {
		return nil, err
	}
	return engine.Join(ctx, cfg)
}
