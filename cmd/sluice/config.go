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
of --config or of the variable SLUICE_CONFIG; the environment; the flags. A word that
is not known is an error.

` + "`sluice config show`" + ` reads the sources, checks them, and prints what is in force and
where each value comes from. Of lists it shows a line each, of hashes one for each
server. It shows no secrets, and nothing of optin, routes, hooks, dkim, caps and
suppression_sets, which only a file has.
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
	width := 0
	for _, s := range config.Settings() {
		width = max(width, len(s.Path))
	}
	show := func(path, value string) {
		c.print("%-*s %-40s # %s", width+1, path+":", safeText(value), safeText(cfg.Origin(path)))
	}
	for _, s := range config.Settings() {
		show(s.Path, cfg.Shown(s.Path))
	}
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
