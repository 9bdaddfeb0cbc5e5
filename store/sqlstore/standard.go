package sqlstore

import (
	"slices"
	"strings"

	"sluice/store"
)

// standardTable is one of our own tables as dumps and restores see it.
type standardTable struct {
	name    string
	key     []string // the order in which its rows are read
	columns []store.DumpColumn

	// held are the tables whose rows a restore writes last, all at once: they
	// say where the others stand.
	held bool
}

// standardTables is the one list of our tables: name, key, columns. A column is a text;
// with # behind it a number, with ^ a position, with @ a time, with * bytes.
// schema_version and schema_readable are no part of a dump: a restore has the schema of
// the program that does it. A migration that adds a table or a column enters it here; a
// test compares the list with what the migrations have made.
var standardTables = []standardTable{
	standard("events", "time event_id", "event_id kind name app_id time@ email user_ref message_ref properties part# pos_major^ pos_minor^ item#"),
	standard("dead_letters", "id", "id# source form part# pos_major^ pos_minor^ item# reason size# payload* found_at@"),
	standard("dead_chunks", "dead_id n", "dead_id# n# data*"),
	standard("api_keys", "id", "id name permissions hash* created@ revoked@"),
	standard("secrets", "name", "name data* created@"),
	standard("accounts", "id", "id name role password created@ updated@"),
	standard("account_sessions", "hash", "hash account created@ ends@"),
	standard("account_setups", "hash", "hash ends@"),
	standard("audit_log", "id", "id at@ account name method path status# detail was became"),
	standard("series_hours", "app_id name kind bucket stripe", "app_id name kind bucket@ stripe# count#"),
	standard("series_days", "app_id name kind bucket stripe", "app_id name kind bucket@ stripe# count#"),
	standard("reactions", "bucket stripe campaign journey step variant kind link machine",
		"bucket@ stripe# campaign journey step variant kind link# machine# count# firsts# human_firsts#"),
	standard("users", "part number", "part# number# updated@ to_part# to_number# profile"),
	standard("user_keys", "kind name", "kind# name part# number#"),
	standard("user_addresses", "kind name part number", "kind# name part# number#"),
	standard("user_numbers", "part", "part# last_user# last_forward#"),
	standard("forwards", "part id", "part# id# to_part# items*"),
	standard("erasures", "name", "name created@"),
	standard("segments", "id", "id name definition created@ updated@ archived@"),
	standard("sends", "message number", "message number# part# state priority class from_address to_address user_ref app_id route tags metadata attempts# "+
		"reply reason accepted@ updated@ due@ life user_part# user_number# journey step variant occurrence# first_open@ first_human_open@ first_click@ ignores_caps# first_human_click@ clicks"),
	standard("send_totals", "class state stripe", "class state stripe# count# removed#"),
	standard("route_days", "route stripe", "route stripe# day# attempts#"),
	standard("bodies", "message n", "message n# recipients# remaining# created@ data*"),
	standard("suppressions", "entry scope app_id reason", "entry scope app_id reason source happened@ ends@ removed# number#"),
	standard("soft_bounces", "entry day", "entry day@"),
	standard("templates", "id", "id name in_use# latest# created@ updated@ archived@"),
	standard("template_versions", "template version", "template version# class is_strict# subject preheader sender html plain headers created@"),
	standard("schedules", "id", "id state revision# due@ request created@ updated@"),
	standard("journeys", "number", "number# id name status version# revision# draft created@ updated@"),
	standard("journey_versions", "journey version", "journey# version# document names created@ ended@"),
	standard("journey_publish", "id", "id# number#"),
	standard("journey_facts", "part pos_major pos_minor item number kind", "part# pos_major^ pos_minor^ item# number# kind# name happened@ body"),
	standard("journey_checkpoints", "part", "part# stamp# pos_major^ pos_minor^ notes saved@"),
	standard("journey_blocks", "part journey unit slot", "part# journey# unit# slot# number^ hash# data*"),
	standard("journey_context", "part number journey", "part# number# journey# entered# occurrence# body ended@"),
	standard("journey_holds", "journey", "journey# reason since@"),
	standard("journey_skips", "journey", "journey# until@"),
	standard("late_events", "part", "part# pos_major^ pos_minor^"),
	standard("webhooks", "id", "id url types format batch# status reason revision# secret# secret_mark rotated@ failing@ created@ updated@"),
	standard("webhook_lanes", "webhook part", "webhook part# pos_major^ pos_minor^ item# to_major^ to_minor^ to_item# attempts# since@ due@"),
	standard("webhook_deliveries", "webhook slot", "webhook slot# number# message at@ part# events# attempt# outcome status# error took#"),
	standard("subscription_groups", "id", "id name description is_public# sort# created@ updated@"),
	standard("mail_stops", "id", "id# stops updated@"),
	standard("imports", "id", "id name options size# account state next_offset# lines_read# taken# refused# removed# reader claim last_piece created@ updated@ ended@"),
	standard("import_units", "import_id id", "import_id id batches"),
	standard("import_refused", "import_id line", "import_id line# reason"),
	standard("links", "hash", "hash target used@"),
	standard("series_changes", "app_id name bucket stripe", "app_id name bucket@ stripe# stamp#"),
	standard("cursors", "follower part", "follower part# pos_major^ pos_minor^ updated@"),
	standard("leases", "role part", "role part# number^ taken_at@"),
}

func standard(name, key, columns string) standardTable {
	kinds := map[byte]store.DumpKind{'#': store.DumpNumber, '^': store.DumpPosition, '@': store.DumpTime, '*': store.DumpBytes}
	t := standardTable{name: name, key: strings.Fields(key), held: name == "cursors" || name == "leases"}
	for column := range strings.FieldsSeq(columns) {
		c := store.DumpColumn{Name: column, Kind: store.DumpText}
		if kind, ok := kinds[column[len(column)-1]]; ok {
			c = store.DumpColumn{Name: column[:len(column)-1], Kind: kind}
		}
		t.columns = append(t.columns, c)
	}
	return t
}

// allTables are standardTables and the tables of facts, with those that a restore
// writes last at their end.
func allTables() []standardTable {
	at := slices.IndexFunc(standardTables, func(t standardTable) bool { return t.held })
	all := slices.Clone(standardTables[:at])
	for _, t := range store.FactTables {
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

func dumpTables() []store.DumpTable {
	all := allTables()
	list := make([]store.DumpTable, len(all))
	for i, t := range all {
		list[i] = store.DumpTable{Name: t.name, Columns: t.columns}
	}
	return list
}

func columnNames(columns []store.DumpColumn) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return names
}
