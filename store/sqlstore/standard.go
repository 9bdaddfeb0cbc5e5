package sqlstore

import (
	"slices"

	"sluice"
)

// standardTable is one of our own tables as dumps and restores see it.
type standardTable struct {
	name    string
	key     []string // the order in which its rows are read
	columns []sluice.DumpColumn

	// held are the tables whose rows a restore writes last, all at once: they
	// say where the others stand.
	held bool
}

// standardTables is the one list of our tables. schema_version and schema_readable are no part of a
// dump: a restore has the schema of the program that does it. A migration that
// adds a table or a column enters it here; a test compares the list with what
// the migrations have made.
var standardTables = []standardTable{
	{name: "events", key: []string{"time", "event_id"}, columns: []sluice.DumpColumn{
		{Name: "event_id", Kind: sluice.DumpText}, {Name: "kind", Kind: sluice.DumpText}, {Name: "name", Kind: sluice.DumpText},
		{Name: "app_id", Kind: sluice.DumpText}, {Name: "time", Kind: sluice.DumpTime}, {Name: "email", Kind: sluice.DumpText},
		{Name: "user_ref", Kind: sluice.DumpText}, {Name: "message_ref", Kind: sluice.DumpText}, {Name: "properties", Kind: sluice.DumpText},
		{Name: "part", Kind: sluice.DumpNumber}, {Name: "pos_major", Kind: sluice.DumpPosition}, {Name: "pos_minor", Kind: sluice.DumpPosition},
		{Name: "item", Kind: sluice.DumpNumber},
	}},
	{name: "dead_letters", key: []string{"id"}, columns: []sluice.DumpColumn{
		{Name: "id", Kind: sluice.DumpNumber}, {Name: "source", Kind: sluice.DumpText}, {Name: "form", Kind: sluice.DumpText},
		{Name: "part", Kind: sluice.DumpNumber}, {Name: "pos_major", Kind: sluice.DumpPosition}, {Name: "pos_minor", Kind: sluice.DumpPosition},
		{Name: "item", Kind: sluice.DumpNumber}, {Name: "reason", Kind: sluice.DumpText}, {Name: "size", Kind: sluice.DumpNumber},
		{Name: "payload", Kind: sluice.DumpBytes}, {Name: "found_at", Kind: sluice.DumpTime},
	}},
	{name: "dead_chunks", key: []string{"dead_id", "n"}, columns: []sluice.DumpColumn{
		{Name: "dead_id", Kind: sluice.DumpNumber}, {Name: "n", Kind: sluice.DumpNumber}, {Name: "data", Kind: sluice.DumpBytes},
	}},
	{name: "api_keys", key: []string{"id"}, columns: []sluice.DumpColumn{
		{Name: "id", Kind: sluice.DumpText}, {Name: "name", Kind: sluice.DumpText}, {Name: "permissions", Kind: sluice.DumpText},
		{Name: "hash", Kind: sluice.DumpBytes}, {Name: "created", Kind: sluice.DumpTime}, {Name: "revoked", Kind: sluice.DumpTime},
	}},
	{name: "secrets", key: []string{"name"}, columns: []sluice.DumpColumn{
		{Name: "name", Kind: sluice.DumpText}, {Name: "data", Kind: sluice.DumpBytes}, {Name: "created", Kind: sluice.DumpTime},
	}},
	{name: "series_hours", key: []string{"app_id", "name", "kind", "bucket", "stripe"}, columns: []sluice.DumpColumn{
		{Name: "app_id", Kind: sluice.DumpText}, {Name: "name", Kind: sluice.DumpText}, {Name: "kind", Kind: sluice.DumpText},
		{Name: "bucket", Kind: sluice.DumpTime}, {Name: "stripe", Kind: sluice.DumpNumber}, {Name: "count", Kind: sluice.DumpNumber},
	}},
	{name: "series_days", key: []string{"app_id", "name", "kind", "bucket", "stripe"}, columns: []sluice.DumpColumn{
		{Name: "app_id", Kind: sluice.DumpText}, {Name: "name", Kind: sluice.DumpText}, {Name: "kind", Kind: sluice.DumpText},
		{Name: "bucket", Kind: sluice.DumpTime}, {Name: "stripe", Kind: sluice.DumpNumber}, {Name: "count", Kind: sluice.DumpNumber},
	}},
	{name: "users", key: []string{"part", "number"}, columns: []sluice.DumpColumn{
		{Name: "part", Kind: sluice.DumpNumber}, {Name: "number", Kind: sluice.DumpNumber}, {Name: "updated", Kind: sluice.DumpTime},
		{Name: "to_part", Kind: sluice.DumpNumber}, {Name: "to_number", Kind: sluice.DumpNumber}, {Name: "profile", Kind: sluice.DumpText},
	}},
	{name: "user_keys", key: []string{"kind", "name"}, columns: []sluice.DumpColumn{
		{Name: "kind", Kind: sluice.DumpNumber}, {Name: "name", Kind: sluice.DumpText},
		{Name: "part", Kind: sluice.DumpNumber}, {Name: "number", Kind: sluice.DumpNumber},
	}},
	{name: "user_addresses", key: []string{"kind", "name", "part", "number"}, columns: []sluice.DumpColumn{
		{Name: "kind", Kind: sluice.DumpNumber}, {Name: "name", Kind: sluice.DumpText},
		{Name: "part", Kind: sluice.DumpNumber}, {Name: "number", Kind: sluice.DumpNumber},
	}},
	{name: "user_numbers", key: []string{"part"}, columns: []sluice.DumpColumn{
		{Name: "part", Kind: sluice.DumpNumber}, {Name: "last_user", Kind: sluice.DumpNumber}, {Name: "last_forward", Kind: sluice.DumpNumber},
	}},
	{name: "forwards", key: []string{"part", "id"}, columns: []sluice.DumpColumn{
		{Name: "part", Kind: sluice.DumpNumber}, {Name: "id", Kind: sluice.DumpNumber},
		{Name: "to_part", Kind: sluice.DumpNumber}, {Name: "items", Kind: sluice.DumpBytes},
	}},
	{name: "erasures", key: []string{"name"}, columns: []sluice.DumpColumn{
		{Name: "name", Kind: sluice.DumpText}, {Name: "created", Kind: sluice.DumpTime},
	}},
	{name: "segments", key: []string{"id"}, columns: []sluice.DumpColumn{
		{Name: "id", Kind: sluice.DumpText}, {Name: "name", Kind: sluice.DumpText}, {Name: "definition", Kind: sluice.DumpText},
		{Name: "created", Kind: sluice.DumpTime}, {Name: "updated", Kind: sluice.DumpTime}, {Name: "archived", Kind: sluice.DumpTime},
	}},
	{name: "sends", key: []string{"message", "number"}, columns: []sluice.DumpColumn{
		{Name: "message", Kind: sluice.DumpText}, {Name: "number", Kind: sluice.DumpNumber}, {Name: "part", Kind: sluice.DumpNumber},
		{Name: "state", Kind: sluice.DumpText}, {Name: "priority", Kind: sluice.DumpText}, {Name: "class", Kind: sluice.DumpText},
		{Name: "from_address", Kind: sluice.DumpText}, {Name: "to_address", Kind: sluice.DumpText},
		{Name: "user_ref", Kind: sluice.DumpText}, {Name: "app_id", Kind: sluice.DumpText}, {Name: "route", Kind: sluice.DumpText},
		{Name: "tags", Kind: sluice.DumpText}, {Name: "metadata", Kind: sluice.DumpText}, {Name: "attempts", Kind: sluice.DumpNumber},
		{Name: "reply", Kind: sluice.DumpText}, {Name: "reason", Kind: sluice.DumpText}, {Name: "accepted", Kind: sluice.DumpTime},
		{Name: "updated", Kind: sluice.DumpTime}, {Name: "due", Kind: sluice.DumpTime}, {Name: "life", Kind: sluice.DumpText},
		{Name: "user_part", Kind: sluice.DumpNumber}, {Name: "user_number", Kind: sluice.DumpNumber},
	}},
	{name: "send_totals", key: []string{"class", "state", "stripe"}, columns: []sluice.DumpColumn{
		{Name: "class", Kind: sluice.DumpText}, {Name: "state", Kind: sluice.DumpText}, {Name: "stripe", Kind: sluice.DumpNumber},
		{Name: "count", Kind: sluice.DumpNumber}, {Name: "removed", Kind: sluice.DumpNumber},
	}},
	{name: "route_days", key: []string{"route", "stripe"}, columns: []sluice.DumpColumn{
		{Name: "route", Kind: sluice.DumpText}, {Name: "stripe", Kind: sluice.DumpNumber}, {Name: "day", Kind: sluice.DumpNumber}, {Name: "attempts", Kind: sluice.DumpNumber},
	}},
	{name: "bodies", key: []string{"message", "n"}, columns: []sluice.DumpColumn{
		{Name: "message", Kind: sluice.DumpText}, {Name: "n", Kind: sluice.DumpNumber}, {Name: "recipients", Kind: sluice.DumpNumber},
		{Name: "remaining", Kind: sluice.DumpNumber}, {Name: "created", Kind: sluice.DumpTime}, {Name: "data", Kind: sluice.DumpBytes},
	}},
	{name: "suppressions", key: []string{"entry", "scope", "app_id", "reason"}, columns: []sluice.DumpColumn{
		{Name: "entry", Kind: sluice.DumpText}, {Name: "scope", Kind: sluice.DumpText}, {Name: "app_id", Kind: sluice.DumpText}, {Name: "reason", Kind: sluice.DumpText},
		{Name: "source", Kind: sluice.DumpText}, {Name: "happened", Kind: sluice.DumpTime}, {Name: "ends", Kind: sluice.DumpTime},
		{Name: "removed", Kind: sluice.DumpNumber}, {Name: "number", Kind: sluice.DumpNumber},
	}},
	{name: "soft_bounces", key: []string{"entry", "day"}, columns: []sluice.DumpColumn{
		{Name: "entry", Kind: sluice.DumpText}, {Name: "day", Kind: sluice.DumpTime},
	}},
	{name: "templates", key: []string{"id"}, columns: []sluice.DumpColumn{
		{Name: "id", Kind: sluice.DumpText}, {Name: "name", Kind: sluice.DumpText}, {Name: "in_use", Kind: sluice.DumpNumber},
		{Name: "latest", Kind: sluice.DumpNumber}, {Name: "created", Kind: sluice.DumpTime}, {Name: "updated", Kind: sluice.DumpTime},
		{Name: "archived", Kind: sluice.DumpTime},
	}},
	{name: "template_versions", key: []string{"template", "version"}, columns: []sluice.DumpColumn{
		{Name: "template", Kind: sluice.DumpText}, {Name: "version", Kind: sluice.DumpNumber}, {Name: "class", Kind: sluice.DumpText},
		{Name: "is_strict", Kind: sluice.DumpNumber}, {Name: "subject", Kind: sluice.DumpText}, {Name: "preheader", Kind: sluice.DumpText},
		{Name: "sender", Kind: sluice.DumpText}, {Name: "html", Kind: sluice.DumpText}, {Name: "plain", Kind: sluice.DumpText},
		{Name: "headers", Kind: sluice.DumpText}, {Name: "created", Kind: sluice.DumpTime},
	}},
	{name: "schedules", key: []string{"id"}, columns: []sluice.DumpColumn{
		{Name: "id", Kind: sluice.DumpText}, {Name: "state", Kind: sluice.DumpText}, {Name: "revision", Kind: sluice.DumpNumber},
		{Name: "due", Kind: sluice.DumpTime}, {Name: "request", Kind: sluice.DumpText}, {Name: "created", Kind: sluice.DumpTime}, {Name: "updated", Kind: sluice.DumpTime},
	}},
	{name: "series_changes", key: []string{"app_id", "name", "bucket", "stripe"}, columns: []sluice.DumpColumn{
		{Name: "app_id", Kind: sluice.DumpText}, {Name: "name", Kind: sluice.DumpText}, {Name: "bucket", Kind: sluice.DumpTime},
		{Name: "stripe", Kind: sluice.DumpNumber}, {Name: "stamp", Kind: sluice.DumpNumber},
	}},
	{name: "cursors", held: true, key: []string{"follower", "part"}, columns: []sluice.DumpColumn{
		{Name: "follower", Kind: sluice.DumpText}, {Name: "part", Kind: sluice.DumpNumber},
		{Name: "pos_major", Kind: sluice.DumpPosition}, {Name: "pos_minor", Kind: sluice.DumpPosition}, {Name: "updated", Kind: sluice.DumpTime},
	}},
	{name: "leases", held: true, key: []string{"role", "part"}, columns: []sluice.DumpColumn{
		{Name: "role", Kind: sluice.DumpText}, {Name: "part", Kind: sluice.DumpNumber},
		{Name: "number", Kind: sluice.DumpPosition}, {Name: "taken_at", Kind: sluice.DumpTime},
	}},
}

// allTables are standardTables and the tables of facts, with those that a restore
// writes last at their end.
func allTables() []standardTable {
	at := slices.IndexFunc(standardTables, func(t standardTable) bool { return t.held })
	all := slices.Clone(standardTables[:at])
	for _, t := range sluice.FactTables {
		all = append(all, factTable(t))
	}
	return append(all, standardTables[at:]...)
}

func standardTableOf(name string) *standardTable {
	all := allTables()
	i := slices.IndexFunc(all, func(t standardTable) bool { return t.name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func dumpTables() []sluice.DumpTable {
	all := allTables()
	list := make([]sluice.DumpTable, len(all))
	for i, t := range all {
		list[i] = sluice.DumpTable{Name: t.name, Columns: t.columns}
	}
	return list
}

func columnNames(columns []sluice.DumpColumn) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return names
}
