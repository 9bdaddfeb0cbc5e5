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
	verbs   string // what the program does with it, by the letters of verbs

	// held are the tables whose rows a restore writes last, all at once: they
	// say where the others stand.
	held bool
}

// verbs are what doctor asks for on a table. A restore deletes from all of them, which is
// not asked for: most users never restore.
var verbs = map[rune]string{'S': "SELECT", 'I': "INSERT", 'U': "UPDATE", 'D': "DELETE"}

// standardTables is the one list of our tables: name, key, columns, and the verbs that
// doctor asks for; some have none. A column is a text; with # behind it a number, with ^ a position, with @ a time, with * bytes.
// schema_version and schema_readable are no part of a dump: a restore has the schema of
// the program that does it. A migration that adds a table or a column enters it here; a
// test compares the list with what the migrations have made.
var standardTables = []standardTable{
	standard("events", "time event_id", "event_id kind name app_id time@ email user_ref message_ref properties part# pos_major^ pos_minor^ item#", "SIU"),
	standard("dead_letters", "id", "id# source form part# pos_major^ pos_minor^ item# reason size# payload* found_at@", "SID"),
	standard("dead_chunks", "dead_id n", "dead_id# n# data*", "SID"),
	standard("api_keys", "id", "id name permissions hash* created@ revoked@", "SIU"),
	standard("secrets", "name", "name data* created@", "SI"),
	standard("accounts", "id", "id name role password created@ updated@", "SIUD"),
	standard("account_sessions", "hash", "hash account created@ ends@", "SID"),
	standard("account_setups", "hash", "hash ends@", "SID"),
	standard("audit_log", "id", "id at@ account name method path status# detail was became", "SIUD"),
	standard("series_hours", "app_id name kind bucket stripe", "app_id name kind bucket@ stripe# count#", "SIU"),
	standard("series_days", "app_id name kind bucket stripe", "app_id name kind bucket@ stripe# count#", "SIU"),
	standard("reactions", "bucket stripe campaign journey step variant kind link machine",
		"bucket@ stripe# campaign journey step variant kind link# machine# count# firsts# human_firsts#", "SIU"),
	standard("users", "part number", "part# number# updated@ to_part# to_number# profile", "SIUD"),
	standard("user_keys", "kind name", "kind# name part# number#", "SIUD"),
	standard("user_addresses", "kind name part number", "kind# name part# number#", "SIUD"),
	standard("user_numbers", "part", "part# last_user# last_forward#", "SIU"),
	standard("forwards", "part id", "part# id# to_part# items*", "SID"),
	standard("erasures", "name", "name created@", "SIUD"),
	standard("segments", "id", "id name definition created@ updated@ archived@", ""),
	standard("sends", "message number", "message number# part# state priority class from_address to_address user_ref app_id route tags metadata attempts# "+
		"reply reason accepted@ updated@ due@ life user_part# user_number# journey step variant occurrence# first_open@ first_human_open@ first_click@ ignores_caps# first_human_click@ clicks", "SIU"),
	standard("send_totals", "class state stripe", "class state stripe# count# removed#", "SIU"),
	standard("route_days", "route stripe", "route stripe# day# attempts#", "SIU"),
	standard("bodies", "message n", "message n# recipients# remaining# created@ data*", "SIUD"),
	standard("suppressions", "entry scope app_id reason", "entry scope app_id reason source happened@ ends@ removed# number#", ""),
	standard("soft_bounces", "entry day", "entry day@", ""),
	standard("templates", "id", "id name in_use# latest# created@ updated@ archived@", ""),
	standard("template_versions", "template version", "template version# class is_strict# subject preheader sender html plain headers created@", ""),
	standard("schedules", "id", "id state revision# due@ request created@ updated@", ""),
	standard("journeys", "number", "number# id name status version# revision# draft created@ updated@", ""),
	standard("journey_versions", "journey version", "journey# version# document names created@ ended@", ""),
	standard("journey_publish", "id", "id# number#", ""),
	standard("journey_facts", "part pos_major pos_minor item number kind", "part# pos_major^ pos_minor^ item# number# kind# name happened@ body", ""),
	standard("journey_checkpoints", "part", "part# stamp# pos_major^ pos_minor^ notes saved@", ""),
	standard("journey_blocks", "part journey unit slot", "part# journey# unit# slot# number^ hash# data*", ""),
	standard("journey_context", "part number journey", "part# number# journey# entered# occurrence# body ended@", ""),
	standard("journey_holds", "journey", "journey# reason since@", ""),
	standard("journey_skips", "journey", "journey# until@", ""),
	standard("late_events", "part", "part# pos_major^ pos_minor^", "SIU"),
	standard("webhooks", "id", "id url types format batch# status reason revision# secret# secret_mark rotated@ failing@ created@ updated@", "SIUD"),
	standard("webhook_lanes", "webhook part", "webhook part# pos_major^ pos_minor^ item# to_major^ to_minor^ to_item# attempts# since@ due@", "SIUD"),
	standard("webhook_deliveries", "webhook slot", "webhook slot# number# message at@ part# events# attempt# outcome status# error took#", "SID"),
	standard("subscription_groups", "id", "id name description is_public# sort# created@ updated@", "SIUD"),
	standard("mail_stops", "id", "id# stops updated@", "SIU"),
	standard("imports", "id", "id name options size# account state next_offset# lines_read# taken# refused# removed# reader claim last_piece created@ updated@ ended@", "SIUD"),
	standard("import_units", "import_id id", "import_id id batches", "SID"),
	standard("import_refused", "import_id line", "import_id line# reason", "SID"),
	standard("links", "hash", "hash target used@", "SIUD"),
	standard("series_changes", "app_id name bucket stripe", "app_id name bucket@ stripe# stamp#", "SIUD"),
	standard("cursors", "follower part", "follower part# pos_major^ pos_minor^ updated@", "SIU"),
	standard("leases", "role part", "role part# number^ taken_at@", "SIU"),
}

func standard(name, key, columns, verbs string) standardTable {
	kinds := map[byte]store.DumpKind{'#': store.DumpNumber, '^': store.DumpPosition, '@': store.DumpTime, '*': store.DumpBytes}
	t := standardTable{name: name, key: strings.Fields(key), verbs: verbs, held: name == "cursors" || name == "leases"}
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
