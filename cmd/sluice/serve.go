package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/config"
	"sluice/engine"
	"sluice/ops/account"
)

const serveLong = `
Runs the program in the foreground, with the roles of the configuration. Its log goes
to standard error. /healthz, /readyz and /metrics answer on the listen address; beyond
loopback that needs a root_key.

SIGTERM or SIGINT stops it in two phases: nothing more is taken in, and what is in
hand is finished within shutdown_seconds. A second signal ends it at once. Neither,
nor kill -9, loses or doubles what was accepted: the next start goes on from the
cursors.

Run several with the same Redis and the same MySQL, MariaDB or PostgreSQL, and they
share the work. SQLite and the embedded Redis are for one process.
`

func runServe(ctx context.Context, c *call) error {
	return c.serveWith(ctx, nil)
}

const devLong = `
Runs the program like serve, for trying things out: with its own Redis and SQLite in
the data directory unless flags or the environment name others, and a log in text from
debug up. ./sluice.yaml is not read unless --config or SLUICE_CONFIG names it, so that
what is tried out does not reach the servers written there.
`

func runDev(ctx context.Context, c *call) error {
	return c.serveWith(ctx, func(src *config.Sources) {
		src.SkipDefaultFile = true
		c.unread = hasUnreadFile(src)
		src.Defaults = func(cfg *config.Config) { cfg.Log.Level = "debug" }
	})
}

// hasUnreadFile reports whether the commands that are tried beside dev read a file that dev
// does not.
func hasUnreadFile(src *config.Sources) bool {
	named := src.File != "" || slices.ContainsFunc(src.Environ, func(pair string) bool {
		name, value, _ := strings.Cut(pair, "=")
		return name == config.FileEnv && value != ""
	})
	_, err := os.Stat(filepath.Join(src.Dir, config.DefaultFile))
	return err == nil && !named
}

func (c *call) serveWith(ctx context.Context, change func(*config.Sources)) error {
	cfg, err := c.load(change)
	if err != nil {
		return err
	}
	return c.serve(ctx, cfg, c.main.Stderr, nil)
}

// firstAccount prints a link that makes the first account, unless there is one. It goes
// past the log: who reads that later shall not find a link in it.
func (c *call) firstAccount(ctx context.Context, e *engine.Engine) {
	link, err := e.SetupLink(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(c.main.Stderr, "sluice: no link for the first account, try `sluice account add`:", err)
	case link != "":
		c.setup = link
		fmt.Fprintf(c.main.Stderr, "sluice: there is no account yet; within %d minutes this link makes the first: %s\n", account.SetupMinutes, link)
	}
}

// serve runs an engine until its context ends or it fails, with something
// beside it: `beside`, if any, is run in a goroutine, its end is the
// engine's, and its context ends when the engine begins to stop. The log goes to a
// writer.
func (c *call) serve(ctx context.Context, cfg *config.Config, log io.Writer, beside func(context.Context, *engine.Engine) error) error {
	e, err := engine.Open(ctx, engine.Options{Config: cfg, Log: engine.NewLogger(cfg, log), Clock: c.main.own(), Version: version, Revision: revision()})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	c.firstAccount(ctx, e)
	if c.unread {
		fmt.Fprintf(c.main.Stderr, "sluice: dev does not read ./%s, but other commands in this directory do, and work with the servers that it names: try things out in a directory without one\n", config.DefaultFile)
	}
	besideCtx, stopBeside := context.WithCancel(ctx)
	defer stopBeside()
	besideDone := make(chan error, 1)
	if beside != nil {
		go func() { besideDone <- beside(besideCtx, e) }()
	}
	select {
	case <-ctx.Done():
	case err = <-besideDone:
		beside = nil
	case <-e.Failed():
		err = e.FailedWhy()
	}
	stopBeside()
	if beside != nil {
		err = errors.Join(err, <-besideDone)
	}
	stopCtx, cancel := context.WithTimeout(c.kill, time.Duration(cfg.ShutdownSeconds)*time.Second)
	defer cancel()
	if stopErr := e.Stop(stopCtx); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("stop: %w", stopErr))
	}
	return err
}
