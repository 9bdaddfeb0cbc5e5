package engine

import (
	"context"

	"sluice/api/braze"
	"sluice/ops/imports"
)

// imports returns what takes in files that come in pieces.
func (e *core) imports() *imports.Desk {
	return &imports.Desk{Store: e.store, Into: imports.Into{Logs: e.logs, Kept: Retention(e.config), Clock: e.clock, UserLine: braze.UserLine, BacklogBytes: e.config.BacklogMB << 20, Replicas: Replicas(e.config)}}
}

// forgetImport makes the logs forget an import.
func (e *core) forgetImport(ctx context.Context, id string) error {
	return e.imports().Forget(ctx, id)
}
