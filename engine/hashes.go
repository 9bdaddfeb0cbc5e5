package engine

import (
	"context"
	"fmt"

	"sluice/config"
	"sluice/flow"
	"sluice/ingest"
)

// addHashes adds the hashes of the configuration: an input a server, and a group for those
// of all servers.
func (e *core) addHashes() error {
	group := &ingest.CountGroup{Store: e.store, Leases: e.leases, Stats: e.stats}
	for _, cfg := range e.config.Hashes {
		template, err := cfg.Template()
		if err != nil {
			return fmt.Errorf("hashes of set %s: %w", cfg.Dirty, err)
		}
		for _, url := range cfg.Redis {
			in := &input{kind: "hashes of set", name: cfg.Dirty, source: "hashes:" + cfg.Dirty, health: "hashes:" + cfg.Dirty + "@" + serverName(url), url: url, place: len(e.inputs)}
			in.connect = func(ctx context.Context) error {
				redis, err := e.dial(ctx, url)
				if err == nil {
					in.list, err = flow.NewHashes(ctx, redis, cfg.Dirty)
				}
				return err
			}
			in.open = func(context.Context) error {
				if err := in.list.CheckKeys(template.Prefix()); err != nil {
					return fmt.Errorf("redis %s: %w", url, err)
				}
				follower := &ingest.HashFollower{Lister: e.lister(in, e.log.With("hashes", in.list.Name(), "redis", url)), Template: template, Group: group}
				return e.opened(in, follower.Run)
			}
			e.inputs = append(e.inputs, in)
		}
	}
	return nil
}

// serverName is what a metric may show of an address: host and port, or the path of a
// socket.
func serverName(url config.URL) string {
	u, err := flow.ParseURL(url.Reveal())
	if err != nil { // it was checked
		return ""
	}
	if u.Host == "" {
		return u.Path
	}
	return u.Host
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
