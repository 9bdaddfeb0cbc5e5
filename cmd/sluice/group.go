package main

import (
	"context"
	"fmt"

	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user/profile"
)

const groupLong = `
Subscription groups that people choose by name on the page behind the link in their mail.
The page shows those that are public. Groups that journeys, forms and Braze's calls name
need no entry here: they work as they do, and the page does not show them.
docs/unsubscribe.md explains it.

    sluice group set weekly --name "Weekly news" --public
                                    make one, or change it: --name, --description,
                                    --public, --private, --order
    sluice group list               all of them, in the order of the page
    sluice group remove weekly      the page shows it no more; what people chose stays
`

var groupFlags = []flagSpec{
	{name: "name", value: "TEXT", help: "set: what people see"},
	{name: "description", value: "TEXT", empty: true, help: "set: shown below the name"},
	{name: "public", help: "set: people may choose it on the page of their mail"},
	{name: "private", help: "set: the page does not show it"},
	{name: "order", value: "N", help: "set: the smaller comes first on the page (1000)", check: wholeNumber(1, store.MaxGroupOrder)},
	{name: "json", help: "list: one JSON object a line"},
}

func runGroup(ctx context.Context, c *call) error {
	what, args, err := c.word("set", "list", "remove")
	switch {
	case err != nil:
		return err
	case what == "list" && len(args) > 0:
		return usagef("group list: takes no arguments, but %q is one", args[0])
	case what != "list" && len(args) != 1:
		return usagef("group %s: want one ID; `sluice group list` shows them", what)
	case c.given.has("public") && c.given.has("private"):
		return usagef("group set: --public and --private exclude each other")
	}
	db, err := c.store(ctx)
	if err != nil {
		return err
	}
	switch what {
	case "set":
		return c.groupSet(ctx, db, args[0])
	case "remove":
		if err := db.DropGroup(ctx, args[0]); err != nil {
			return err
		}
		c.print("group %s is removed: the page of mails shows it no more", safeText(args[0]))
		return nil
	}
	return c.groupList(ctx, db)
}

// groupSet makes a group, or changes what the flags say of it.
func (c *call) groupSet(ctx context.Context, db *sqlstore.Store, id string) error {
	all, err := db.Groups(ctx)
	if err != nil {
		return err
	}
	now := c.clock(ctx).Now().UnixMilli()
	g := store.Group{ID: id, Order: store.DefaultGroupOrder, CreatedMillis: now}
	for i := range all {
		if all[i].ID == id {
			g = all[i]
		}
	}
	g.UpdatedMillis = now
	for name, to := range map[string]*string{"name": &g.Name, "description": &g.Description} {
		if c.given.said[name] { // an empty one takes it off
			*to = c.given.text(name)
		}
	}
	if c.given.has("order") {
		g.Order = c.given.number("order")
	}
	g.Public = (g.Public || c.given.has("public")) && !c.given.has("private")
	if g.Name == "" {
		return usagef("group set: there is no group %s yet: give it a --name", safeText(id))
	}
	if err := db.PutGroup(ctx, g); err != nil {
		return err
	}
	c.printGroup(&g)
	return nil
}

func (c *call) groupList(ctx context.Context, db *sqlstore.Store) error {
	all, err := db.Groups(ctx)
	if err == nil && len(all) == 0 {
		fmt.Fprintln(c.main.Stderr, "no group has an entry; `sluice group set` makes one")
	}
	for i := range all {
		if !c.given.has("json") {
			c.printGroup(&all[i])
		} else if err := c.printJSON(shownGroup(&all[i])); err != nil {
			return err
		}
	}
	return err
}

// groupJSON is a group as --json shows it.
type groupJSON struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Public      bool   `json:"public"`
	Order       int    `json:"order"`
	Updated     string `json:"updated"`
}

func shownGroup(g *store.Group) groupJSON {
	return groupJSON{g.ID, g.Name, g.Description, g.Public, g.Order, profile.TimeText(g.UpdatedMillis)}
}

func (c *call) printGroup(g *store.Group) {
	who := "private"
	if g.Public {
		who = "public"
	}
	c.print("%s  %s  %d  %s  %s", safeText(g.ID), who, g.Order, safeText(g.Name), safeText(g.Description))
}
