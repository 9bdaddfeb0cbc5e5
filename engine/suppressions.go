package engine

import (
	"context"
	"time"

	"sluice/mail/suppress"
)

// openSuppressions loads who is not mailed.
func (e *core) openSuppressions(ctx context.Context) error {
	age := &e.config.SuppressionAge
	e.suppressions = &suppress.Follower{List: suppress.NewList(e.clock), Store: e.store, Clock: e.clock, Log: e.log, Oldest: suppress.Ages{
		Marketing: time.Duration(age.Marketing) * time.Second, Transactional: time.Duration(age.Transactional) * time.Second,
	}}
	return e.suppressions.Load(ctx)
}
