package engine

import (
	"context"
	"fmt"
	"time"

	"sluice/config"
	"sluice/flow"
	"sluice/mail"
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

// openSets prepares the foreign sets of the configuration: a follower each.
func (e *core) openSets(ctx context.Context, partitions []flow.Partition) error {
	if len(e.config.SuppressionSets) == 0 || !e.config.HasRole(config.RoleIntake) {
		return nil
	}
	for _, cfg := range e.config.SuppressionSets {
		url := e.redisURL
		if cfg.Redis != "" {
			url = cfg.Redis.Reveal()
		}
		set, err := flow.OpenSet(ctx, url, cfg.Name)
		if err != nil {
			return fmt.Errorf("suppression set %s: %w", cfg.Name, err)
		}
		reason, _ := mail.ParseSuppressReason(cfg.Reason) // it was checked
		e.sets = append(e.sets, &suppress.SetFollower{
			Set: set, Below: cfg.Subdomains, Reason: reason,
			Store: e.store, Leases: e.leases, Deployment: e.deployment, Clock: e.clock, Log: e.log,
		})
	}
	e.leases.AddPartitions(suppress.SetsRole, e.redis, partitions[:1])
	return nil
}
