package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sluice/config"
	"sluice/flow"
	"sluice/ingest"
)

// openHashes prepares the hashes of the configuration: a follower a server, and
// a group for those of all servers.
func (e *core) openHashes(ctx context.Context) error {
	group := &ingest.CountGroup{Store: e.store, Leases: e.leases, Stats: e.stats}
	for _, cfg := range e.config.Hashes {
		template, err := cfg.Template()
		if err != nil {
			return fmt.Errorf("hashes of set %s: %w", cfg.Dirty, err)
		}
		for _, url := range cfg.Redis {
			hashes, err := e.namedHashes(ctx, cfg, url)
			if err != nil {
				return fmt.Errorf("hashes of set %s: %w", cfg.Dirty, err)
			}
			if err := hashes.CheckKeys(template.Prefix()); err != nil {
				return fmt.Errorf("hashes of %s: %w", url, err)
			}
			follower := &ingest.HashFollower{Lister: e.lister(hashes, e.log.With("hashes", hashes.Name(), "redis", url)), Template: template, Group: group}
			e.listFollowers = append(e.listFollowers, follower.Run)
		}
	}
	return nil
}

// namedHashes returns the hashes of one server, which must not be another's.
func (e *core) namedHashes(ctx context.Context, cfg config.Hashes, url config.URL) (*flow.List, error) {
	redis, err := e.dial(ctx, url)
	if err != nil {
		return nil, err
	}
	hashes, err := flow.NewHashes(ctx, redis, cfg.Dirty)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(e.lists, func(l *flow.List) bool { return l.Source() == hashes.Source() }) {
		return nil, errors.New(url.String() + " has the same hashes as a server before it: two names of one server, or a copy of another? Name it once; on a copy delete the key sluice:{" +
			cfg.Dirty + "}:hashes:" + cfg.Dirty + ":state first")
	}
	return hashes, nil
}

// listMargin is how much each list with a table, and the hashes of each server, may
// keep of what is applied: all of them as much as the logs.
func (e *core) listMargin() int {
	n := 0
	for _, l := range e.config.Lists {
		if l.Table != "" {
			n++
		}
	}
	for _, h := range e.config.Hashes {
		n += len(h.Redis)
	}
	return e.config.LogMarginMB << 20 / max(1, n)
}
