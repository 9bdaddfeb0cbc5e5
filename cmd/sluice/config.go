package main

import (
	"context"
	"fmt"
	"strings"

	"sluice/config"
)

const configLong = `
Prints every setting with its default and its explanation, as a file that can be
edited:

    sluice config > sluice.yaml

Sources, each stronger than the one before: the defaults; ./sluice.yaml, or the file
of --config; the environment; the flags. A word that is not known is an error.

` + "`sluice config show`" + ` reads the sources, checks them, and prints what is in force and
where each value comes from. Secrets are not shown.
`

func runConfig(_ context.Context, c *call) error {
	switch strings.Join(c.given.args, " ") {
	case "":
		return config.WriteSample(c.main.Stdout)
	case "show":
	default:
		return usagef("config: takes nothing or `show`, not %q", strings.Join(c.given.args, " "))
	}
	cfg, err := c.load(nil)
	if err != nil {
		return err
	}
	show := func(path, value string) {
		c.print("%-18s %-40s # %s", path+":", safeText(value), safeText(cfg.Origin(path)))
	}
	show("listen", cfg.Listen)
	show("redis", cfg.Redis.String())
	show("database", cfg.Database.String())
	show("data", cfg.Data)
	show("roles", strings.Join(cfg.Roles, ","))
	show("partitions", fmt.Sprint(cfg.Partitions))
	show("root_key", cfg.RootKey.String())
	show("log.level", cfg.Log.Level)
	show("log.format", cfg.Log.Format)
	show("event_time.past_days", fmt.Sprint(cfg.EventTime.PastDays))
	show("event_time.future_minutes", fmt.Sprint(cfg.EventTime.FutureMinutes))
	for _, r := range []struct {
		key  string
		days int
	}{
		{"events.mail", cfg.Retention.Events.Mail}, {"events.custom", cfg.Retention.Events.Custom},
		{"events.purchase", cfg.Retention.Events.Purchase}, {"events.system", cfg.Retention.Events.System},
		{"series_hours", cfg.Retention.SeriesHours}, {"series_days", cfg.Retention.SeriesDays}, {"dead_letters", cfg.Retention.DeadLetters},
	} {
		show("retention."+r.key, fmt.Sprint(r.days))
	}
	show("key_items_per_second", fmt.Sprint(cfg.KeyRate))
	show("backlog_megabytes", fmt.Sprint(cfg.BacklogMB))
	show("series_names", fmt.Sprint(cfg.SeriesNames))
	show("start_seconds", fmt.Sprint(cfg.StartSeconds))
	show("shutdown_seconds", fmt.Sprint(cfg.ShutdownSeconds))
	for _, l := range cfg.Lists {
		target := "table events"
		if l.Table != "" {
			target = fmt.Sprintf("table %s (%d columns)", l.Table, len(l.Columns))
		}
		show("lists."+l.Name, fmt.Sprintf("%s, from the %s, into %s", cfg.ListRedis(l), l.Take, target))
	}
	for i, h := range cfg.Hashes {
		for _, url := range h.Redis {
			show(fmt.Sprintf("hashes[%d]", i), fmt.Sprintf("%s, keys %s, set %s, %s", url, h.Key, h.Dirty, h.Zone))
		}
	}
	return nil
}
