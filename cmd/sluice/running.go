package main

import (
	"context"

	"sluice/engine"
	"sluice/flow"
	"sluice/store/sqlstore"
)

// redis connects to the main Redis of the configuration (engine.DialRunning).
func (c *call) redis(ctx context.Context) (*flow.Redis, error) {
	redis, err := engine.DialRunning(ctx, c.config)
	if err == nil {
		c.later(func() error { redis.Close(); return nil })
	}
	return redis, err
}

// running connects to what the configuration names, and makes sure that a program is at
// work on it.
func (c *call) running(ctx context.Context) (*engine.Running, error) {
	running, err := engine.Join(ctx, c.config)
	if err == nil {
		c.later(running.Close)
	}
	return running, err
}

// store connects to the database of the configuration, beside processes that serve.
func (c *call) store(ctx context.Context) (*sqlstore.Store, error) {
	store, err := c.storeAsItIs(ctx)
	if err == nil {
		err = store.Ping(ctx)
	}
	return store, err
}

// storeAsItIs is store, also where migrations are pending: mail is purged before an
// upgrade. (A backup says by itself which program takes it.)
func (c *call) storeAsItIs(ctx context.Context) (*sqlstore.Store, error) {
	store, err := engine.OpenStore(ctx, c.config)
	if err == nil {
		c.later(store.Close)
	}
	return store, err
}
