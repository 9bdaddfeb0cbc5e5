package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"sluice"
	"sluice/lib/key"
	"sluice/store"
	"sluice/store/sqlstore"
)

var keyLong = `
Keys of the HTTP API. A request carries one: Authorization: Bearer slk_ID_SECRET. The
database has only a hash of it, so a key is shown once, when it is made.

    sluice key create --name shop --permission events:write
                                     print a new key, and nothing else
    sluice key list                  all of them, oldest first, revoked ones too
    sluice key revoke ID             for good; in force everywhere within 5 seconds

Permissions:
` + permissionWords() + `
With consent:write and events:write, "subscribed" lifts what held mail back, and
"complained" stops transactional mail too; without it neither does. metrics:read is needed
beyond loopback, admin for /debug/pprof. INTERFACES.md and docs/braze.md say what each
allows. The root_key of the configuration has all of them.
`

// permissionWords lists all permissions in lines of 90 columns.
func permissionWords() string {
	ours, ofBraze := key.Words()
	list := "  " + key.All + ": all of them"
	for _, part := range []struct {
		title string
		words []string
	}{{"", ours}, {key.Braze + ": all of the calls of Braze's REST API, or of these:", ofBraze}} {
		line := "  " + part.title
		for _, word := range part.words {
			if len(line)+len(word) > 88 {
				list, line = list+"\n"+line, "   "
			}
			line += " " + word
		}
		list += "\n" + line
	}
	return list
}

var keyFlags = []flagSpec{
	{name: "name", value: "NAME", help: "create: what the key is for", check: keyName},
	{name: "permission", value: "WORD,...", preset: string(key.EventsWrite), help: "create: what the key may do", check: func(s string) error { _, err := key.ParsePermissions(s); return err }},
	{name: "json", help: "list: one JSON object a line"},
}

func keyName(s string) error {
	if len(s) > key.MaxNameBytes || strings.ToValidUTF8(s, "") != s || strings.ContainsRune(s, 0) {
		return fmt.Errorf("want UTF-8 text of at most %d bytes", key.MaxNameBytes)
	}
	return nil
}

func runKey(ctx context.Context, c *call) error {
	what, rest, err := c.word("create", "list", "revoke")
	switch {
	case err != nil:
		return err
	case what != "revoke" && len(rest) > 0:
		return usagef("key %s: takes no arguments, but %q is one", what, rest[0])
	case what == "revoke" && len(rest) != 1:
		return usagef("key revoke: want one ID; `sluice key list` shows them")
	case what == "create" && !c.given.said["name"] && !c.given.said["permission"]:
		return errKeyFor
	}
	store, err := c.openKeys(ctx, what == "create")
	if err != nil {
		return err
	}
	return map[string]func(context.Context, *sqlstore.Store, []string) error{
		"create": c.keyCreate, "list": c.keyList, "revoke": c.keyRevoke,
	}[what](ctx, store, rest)
}

// openKeys connects to the database. A first key may be made before the first
// start: then there is no database yet, and creating one makes its tables.
func (c *call) openKeys(ctx context.Context, create bool) (*sqlstore.Store, error) {
	cfg := c.config
	if !create {
		return c.store(ctx)
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w; choose another with --data", err)
	}
	store, err := sqlstore.Open(ctx, cfg.Database.Reveal(), sqlstore.Options{})
	if err != nil {
		return nil, err
	}
	c.later(store.Close)
	return store, c.migrateForKey(ctx, store)
}

// migrateForKey says if there were no tables: a key in a database that nobody
// serves, because the command ran in another directory, is refused everywhere.
// Tables that there are stay as they are: older processes may be at work on them.
func (c *call) migrateForKey(ctx context.Context, store *sqlstore.Store) error {
	before, _, err := store.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if before > 0 {
		return store.Ping(ctx)
	}
	fmt.Fprintf(c.main.Stderr, "%s has no tables of Sluice yet: they are made now; is it the right database?\n", safeText(c.config.Database.String()))
	return store.Migrate(ctx)
}

// errKeyFor asks what a key is for, where nothing is said about it.
var errKeyFor = usagef("key create: what is the key for? Say it with --name NAME, and with --permission what it may do: " +
	"events:write (post events; this is what it may do if you say nothing), messages:send (hand in mail), braze (all calls of Braze's REST API), all, " +
	"or others of `sluice help key`")

func (c *call) keyCreate(ctx context.Context, db *sqlstore.Store, _ []string) error {
	permissions, err := key.ParsePermissions(c.given.text("permission"))
	if err != nil {
		return err // was checked with the flag
	}
	id, text := key.New()
	hash := key.HashOf(text)
	stored := store.APIKey{ID: id, Name: c.given.text("name"), Hash: hash[:], CreatedMillis: c.clock(ctx).Now().UnixMilli()}
	for _, p := range permissions {
		stored.Permissions = append(stored.Permissions, string(p))
	}
	if err := db.AddKey(ctx, stored); err != nil {
		return err
	}
	fmt.Fprintln(c.main.Stderr, "this key is not shown again:")
	c.print("%s", text)
	return nil
}

// shownKey is a key as --json shows it.
type shownKey struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Permissions []string `json:"permissions"`
	Created     string   `json:"created"`
	Revoked     string   `json:"revoked,omitempty"`
}

func (c *call) keyList(ctx context.Context, store *sqlstore.Store, _ []string) error {
	keys, err := store.APIKeys(ctx)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		fmt.Fprintln(c.main.Stderr, "no keys; `sluice key create` makes one")
	}
	for _, k := range keys {
		s := shownKey{ID: k.ID, Name: k.Name, Permissions: append([]string{}, k.Permissions...), Created: keyTime(k.CreatedMillis)}
		state := "in force"
		if k.RevokedMillis != 0 {
			s.Revoked = keyTime(k.RevokedMillis)
			state = "revoked " + s.Revoked
		}
		if err := c.row(s, "%s  %s  %s  %s  %s", s.ID, s.Created, safeText(strings.Join(s.Permissions, ",")), state, safeText(s.Name)); err != nil {
			return err
		}
	}
	return nil
}

func keyTime(millis int64) string { return time.UnixMilli(millis).UTC().Format(time.RFC3339) }

func (c *call) keyRevoke(ctx context.Context, store *sqlstore.Store, ids []string) error {
	id := ids[0]
	// Somebody in a hurry pastes the whole key.
	if inText, ok := key.ID(id); ok {
		id = inText
	}
	if !key.IsID(id) {
		return usagef("key revoke: that is no ID; `sluice key list` shows them")
	}
	err := store.RevokeKey(ctx, id)
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeNotFound {
		return fmt.Errorf("revoke key %s: there is none; `sluice key list` shows all", id)
	}
	if err != nil {
		return err
	}
	c.print("key %s is revoked; within 5 seconds no process accepts it any more", id)
	return nil
}
