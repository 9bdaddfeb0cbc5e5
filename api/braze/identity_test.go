package braze

import (
	"strings"
	"testing"

	"sluice/user"
	"sluice/user/profile"
)

func emailOf(a string) user.Key { return user.Key{Kind: user.KeyEmail, Name: a} }

// crowd is a core with users who share addresses.
//
//	1 "old"   x@example.com            +431  updated first
//	2         x@example.com, alias l/n +431
//	3 "new"   x@example.com                  updated last
//	4         y@example.com
func crowd(t *testing.T) (w *written, ids [5]string) {
	w = newCore(t)
	x, phone := emailOf("x@example.com"), user.Key{Kind: user.KeyPhone, Name: "+431"}
	ids[1] = w.put(t, 1, &profile.Profile{ExternalID: "old"}, 10, x, phone).String()
	ids[2] = w.put(t, 2, &profile.Profile{Aliases: []profile.Alias{{Label: "l", Name: "n"}}}, 20, x, phone).String()
	ids[3] = w.put(t, 3, &profile.Profile{ExternalID: "new"}, 30, x).String()
	ids[4] = w.put(t, 4, &profile.Profile{}, 5, emailOf("y@example.com")).String()
	return w, ids
}

// check calls and compares the answer and what was written.
func (w *written) check(t *testing.T, path, body string, status int, want, wrote string) {
	t.Helper()
	gotStatus, got := w.call(t, path, body)
	took := w.took()
	if gotStatus != status || got != want && want != "*" || took != wrote {
		t.Errorf("%s %.200s\ngot  %d %s\n%s\nwant %d %s\n%s", path, body, gotStatus, got, took, status, want, wrote)
	}
}

func TestIdentify(t *testing.T) {
	w, ids := crowd(t)
	const path, one = "/users/identify", `{"aliases_processed":1,"message":"success"}`
	by := func(words string) string {
		return `{"emails_to_identify":[{"external_id":"u","email":"X@Example.com","prioritization":[` + words + `]}]}`
	}
	w.check(t, path, `{"aliases_to_identify":[{"external_id":7,"user_alias":{"alias_name":"n","alias_label":"l"}}]}`, 201, one, `5 2:["l","n"] only 7||merge`)
	w.check(t, path, `{"merge_behavior":"none","aliases_to_identify":[{"external_id":"u","user_alias":{"alias_name":"n","alias_label":"l"}}]}`, 201, one, `5 2:["l","n"] only u||none`)
	w.check(t, path, by(`"unidentified"`), 201, one, "5 5:"+ids[2]+" only u||merge")
	w.check(t, path, by(`"unidentified","most_recently_updated"`), 201, one, "5 5:"+ids[2]+" only u||merge")
	w.check(t, path, by(`"most_recently_updated"`), 201, one, "5 5:"+ids[3]+" only u||merge")
	w.check(t, path, by(`"identified","least_recently_updated"`), 201, one, "5 5:"+ids[1]+" only u||merge")
	w.check(t, path, by(`"identified"`), 201, one, "") // two are left: nobody is merged
	w.check(t, path, `{"phone_numbers_to_identify":[{"external_id":"u","phone":"+43-1","prioritization":["unidentified"]}]}`, 201, one, "5 5:"+ids[2]+" only u||merge")
	w.check(t, path, by(``), 400, `{"message":"emails_to_identify[0]: 'prioritization' is required","errors":["emails_to_identify[0]: 'prioritization' is required"]}`, "")
	w.check(t, path, by(`"identified","unidentified"`), 400, "*", "")
	w.check(t, path, by(`"newest"`), 400, "*", "")
	w.check(t, path, `{}`, 400, `{"message":"'aliases_to_identify', 'emails_to_identify', or 'phone_numbers_to_identify' is required"}`, "")
	w.check(t, path, `[`, 400, `{"message":"Bad Request"}`, "")
	w.check(t, path, `{"aliases_to_identify":[`+strings.Repeat(`1,`, 50)+`1]}`, 400, `{"message":"`+tooManyUsers+`"}`, "")
	w.check(t, path, `{"aliases_to_identify":[5,{"external_id":"u","user_alias":{"alias_name":"n","alias_label":"l"}}]}`, 201,
		`{"aliases_processed":1,"message":"success","errors":["aliases_to_identify[0]: want an object with external_id and user_alias"]}`, `5 2:["l","n"] only u||merge`)
}

func TestAliasesAndMerges(t *testing.T) {
	w := &written{}
	const alias, merges = "/users/alias/new", "/users/merge"
	w.check(t, alias, `{"user_aliases":[{"external_id":"u","alias_name":"n","alias_label":"l"},{"alias_name":"n","alias_label":"m"}]}`, 201,
		`{"aliases_processed":2,"message":"success"}`, "4 1:u only ||[\"l\",\"n\"]\n4 2:[\"m\",\"n\"] ||[\"m\",\"n\"]")
	w.check(t, alias, `{"user_aliases":[{"alias_name":"n"}]}`, 400, "*", "")
	w.check(t, alias, `{"user_aliases":[]}`, 400, "*", "")
	w.check(t, alias, `{"user_aliases":[`+strings.Repeat(`{},`, 50)+`{}]}`, 400, `{"message":"`+tooManyUsers+`"}`, "")

	pair := func(from, to string) string {
		return `{"merge_updates":[{"identifier_to_merge":` + from + `,"identifier_to_keep":` + to + `}]}`
	}
	const a, b = `{"external_id":"a"}`, `{"external_id":"b"}`
	w.check(t, merges, pair(a, b), 202, `{"message":"success"}`, "6 1:a only 1b||")
	w.check(t, merges, pair(`{"user_alias":{"alias_name":"n","alias_label":"l"}}`, `{"user_alias":{"alias_name":"m","alias_label":"l"}}`), 202, `{"message":"success"}`, `6 2:["l","n"] only 2["l","m"]||`)
	w.check(t, merges, pair(`{"user_alias":{"alias_name":"n","alias_label":"l"}}`, b), 202, `{"message":"success"}`, `6 2:["l","n"] only 1b||`)
	w.check(t, merges, pair(a, a), 202, `{"message":"success"}`, "")
	for _, x := range []struct{ body, want string }{
		{`{}`, mergeWantsObjects}, {`{"merge_updates":{}}`, mergeWantsObjects}, {`{"merge_updates":[]}`, mergeWantsObjects}, {`{"merge_updates":[5]}`, mergeWantsObjects},
		{`{"merge_updates":[` + strings.Repeat(`{},`, 50) + `{}]}`, mergeTooMany},
		{pair(a, `{"external_id":{}}`), mergeWantsOne}, {pair(a, `{}`), mergeWantsOne}, {pair(`{"external_id":"a","x":1}`, b), mergeWantsOne}, {pair(`{"email":"a"}`, b), mergeWantsOne}, {pair(`"a"`, b), mergeWantsOne},
		{pair(`{"email":"a@b.cd"}`, b), "'prioritization' is required"}, {pair(`{"phone":"+431","prioritization":["newest"]}`, b), invalid("prioritization", "identified, unidentified, most_recently_updated, least_recently_updated").Error()},
		{pair(`{"external_id":"a","prioritization":["identified"]}`, b), mergeWantsOne}, {pair(`{"email":"a@b.cd","phone":"+431","prioritization":["identified"]}`, b), mergeWantsOne},
		{`{"merge_updates":[{"identifier_to_merge":` + a + `}]}`, mergeWantsOne},
		{`{"merge_updates":[{"identifier_to_merge":` + a + `,"identifier_to_keep":` + b + `,"x":1}]}`, mergeOnly},
		{`{"merge_updates":[{"identifier_to_merge":` + a + `,"identifier_to_keep":` + b + `},{}]}`, mergeWantsOne}, // nothing of the call
	} {
		w.check(t, merges, x.body, 400, `{"message":"`+x.want+`"}`, "")
	}
}

// An alias may stand one level deeper, in "user_alias", wherever a list has aliases.
func TestNestedAliases(t *testing.T) {
	w, ids := crowd(t)
	const nested = `"user_alias":{"alias_name":"n","alias_label":"l"}`
	w.check(t, "/users/delete", `{"user_aliases":[{`+nested+`}]}`, 201, `{"deleted":1,"message":"success"}`, `7 2:["l","n"] only ||`)
	w.check(t, "/users/alias/new", `{"user_aliases":[{`+nested+`},{"external_id":"u",`+nested+`}]}`, 201, `{"aliases_processed":2,"message":"success"}`,
		"4 2:[\"l\",\"n\"] ||[\"l\",\"n\"]\n4 1:u only ||[\"l\",\"n\"]")
	w.check(t, "/users/export/ids", `{"user_aliases":[{`+nested+`},{"user_alias":{"alias_name":"who","alias_label":"l"}}],"fields_to_export":["braze_id"]}`, 201,
		`{"users":[{"braze_id":"`+ids[2]+`"}],"invalid_user_ids":["who"],"message":"success"}`, "")
	w.check(t, "/users/delete", `{"user_aliases":[{"user_alias":"n"}]}`, 400, "*", "")
}

// Who is merged by an address is the one whom prioritization leaves of those who share
// it. If it leaves several or nobody, nobody is merged.
func TestMergeByAddress(t *testing.T) {
	w, ids := crowd(t)
	const path, ok = "/users/merge", `{"message":"success"}`
	email := func(address, words string) string {
		return `{"email":"` + address + `","prioritization":[` + words + `]}`
	}
	pair := func(from, to string) string {
		return `{"identifier_to_merge":` + from + `,"identifier_to_keep":` + to + `}`
	}
	unknown, newest := email("X@example.com", `"unidentified"`), email("x@example.com", `"identified","most_recently_updated"`)
	for _, x := range []struct{ pairs, wrote string }{
		{pair(unknown, newest), "6 5:" + ids[2] + " only 5" + ids[3] + "||"},
		{pair(unknown, `{"external_id":"john"}`), "6 5:" + ids[2] + " only 1john||"},
		{pair(`{"external_id":"john"}`, newest), "6 1:john only 5" + ids[3] + "||"},
		{pair(`{"phone":"+43-1","prioritization":["unidentified"]}`, `{"user_alias":{"alias_name":"m","alias_label":"l"}}`), "6 5:" + ids[2] + ` only 2["l","m"]||`},
		{pair(email("x@example.com", `"identified"`), `{"external_id":"john"}`), ""},
		{pair(email("none@example.com", `"identified"`), `{"external_id":"john"}`), ""},
		{pair(newest, newest), ""},
		{pair(email("x@example.com", `"identified"`), newest) + "," + pair(`{"external_id":"a"}`, `{"external_id":"b"}`), "6 1:a only 1b||"},
	} {
		w.check(t, path, `{"merge_updates":[`+x.pairs+`]}`, 202, ok, x.wrote)
	}
}

func TestDelete(t *testing.T) {
	w, ids := crowd(t)
	const path, one = "/users/delete", `{"deleted":1,"message":"success"}`
	w.check(t, path, `{"external_ids":["a",5]}`, 201, `{"deleted":2,"message":"success"}`, "7 1:a only ||\n7 1:5 only ||")
	w.check(t, path, `{"external_ids":"a"}`, 201, one, "7 1:a only ||")
	w.check(t, path, `{"user_aliases":[{"alias_name":"n","alias_label":"l"}]}`, 201, one, `7 2:["l","n"] only ||`)
	w.check(t, path, `{"braze_ids":["`+ids[4]+`","x"]}`, 201, "*", "7 5:"+ids[4]+" only ||")
	w.check(t, path, `{"email_addresses":[{"email":"x@example.com","prioritization":["unidentified"]}]}`, 201, one, "7 5:"+ids[2]+" only ||")
	w.check(t, path, `{"email_addresses":[{"email":"y@example.com"}]}`, 201, one, "7 5:"+ids[4]+" only ||")
	w.check(t, path, `{"email_addresses":[{"email":"none@example.com","prioritization":["unidentified"]}]}`, 201, `{"deleted":0,"message":"success"}`, "")
	w.check(t, path, `{"email_addresses":[{"email":"x@example.com","prioritization":["identified"]},{"email":"y@example.com"}]}`, 201,
		`{"deleted":1,"message":"success","errors":["email_addresses[0]: several users have it; say by 'prioritization' which of them"]}`, "7 5:"+ids[4]+" only ||")
	w.check(t, path, `{"phone_numbers":["+431"]}`, 400, "*", "") // two have it
	w.check(t, path, `{"external_ids":["a"],"braze_ids":[]}`, 400, "*", "")
	w.check(t, path, `{"external_ids":[]}`, 400, "*", "")
	w.check(t, path, `{"external_ids":[`+strings.Repeat(`"a",`, 50)+`"a"]}`, 400, `{"message":"`+tooManyIDs+`"}`, "")
}
