package braze

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/rule"
)

// ann is a user who has everything.
func ann(t *testing.T) *profile.Profile {
	t.Helper()
	p := &profile.Profile{ExternalID: "ann", CreatedMillis: 1_700_000_000_000, Aliases: []profile.Alias{{Label: "l", Name: `n"<`}}}
	checked, err := profile.Check(`{"email":"ann@example.com","first_name":"Ann","gender":"F","current_location":{"longitude":16.5,"latitude":48},"plan":"gold","nested":{"a":[1]},
		"push_tokens":[{"app_id":"a","token":"t"}],"subscription_groups":[{"subscription_group_id":"g","subscription_state":"unsubscribed"}],"image_url":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	p.SetAttributes(checked, 5)
	p.CountEvent("signed_up", 1_700_000_000_000)
	p.CountEvent("signed_up", 1_700_000_001_000)
	p.CountPurchase("sku", "EUR", 9_500_000, 2, 1_700_000_000_000)
	return p
}

func TestExport(t *testing.T) {
	w := newCore(t)
	id := w.put(t, 1, ann(t), 7, emailOf("ann@example.com")).String()
	bob := &profile.Profile{ExternalID: "bob", Revenue: []profile.Money{{Currency: "EUR", Micros: -1_050_000}, {Currency: "JPY", Micros: 3_000_000}}}
	bobID := w.put(t, 2, bob, 7).String()
	gone := user.ID{Partition: 1, Number: 3}
	w.apply(t, store.Effect{Users: &user.Changes{Put: []user.Row{{ID: gone, MergedInto: user.ID{Partition: 1, Number: 2}}}}})
	empty := &profile.Profile{ExternalID: "empty"}
	empty.SetAttributes(`{"first_name":"","home_city":" "}`, 7)
	w.put(t, 4, empty, 7)
	const path = "/users/export/ids"
	bucket := func(number int64) string {
		return `"random_bucket":` + strconv.FormatInt(rule.Bucket(user.ID{Partition: 1, Number: number}, ""), 10)
	}
	annText := `{"created_at":"2023-11-14T22:13:20.000Z","external_id":"ann","user_aliases":[{"alias_name":"n\"\u003c","alias_label":"l"}],"braze_id":"` + id + `","appboy_id":"` + id + `",` +
		`"first_name":"Ann","email":"ann@example.com","home_city":null,"gender":"F","push_subscribe":"subscribed","email_subscribe":"subscribed","last_coordinates":[16.5,48],"total_revenue":19.0,` + bucket(1) + `,"custom_attributes":{"nested":{"a":[1]},"plan":"gold"},` +
		`"custom_events":[{"name":"signed_up","first":"2023-11-14T22:13:20.000Z","last":"2023-11-14T22:13:21.000Z","count":2}],` +
		`"purchases":[{"name":"sku","first":"2023-11-14T22:13:20.000Z","last":"2023-11-14T22:13:20.000Z","count":2}],"push_tokens":[{"app":"a","token":"t"}],"apps":[]}`
	bobText := `{"external_id":"bob","user_aliases":[],"braze_id":"` + bobID + `","appboy_id":"` + bobID + `","home_city":null,"push_subscribe":"subscribed","email_subscribe":"subscribed",` +
		`"revenue_by_currency":{"EUR":-1.05,"JPY":3.0},` + bucket(2) + `,"custom_attributes":{},"custom_events":[],"purchases":[],"apps":[]}`
	all := func(users, invalid string) string {
		if invalid != "" {
			invalid = `,"invalid_user_ids":[` + invalid + `]`
		}
		return `{"users":[` + users + `]` + invalid + `,"message":"success"}`
	}
	for _, x := range []struct{ body, want string }{
		{`{"external_ids":["ann"]}`, all(annText, "")},
		{`{"external_ids":["bob","none","ann","bob"],"user_aliases":[{"alias_label":"l","alias_name":"n\"<"},{"alias_label":"l","alias_name":"who"}]}`, all(bobText+","+annText, `"none","who"`)},
		{`{"email_address":"Ann@Example.com"}`, all(annText, "")}, {`{"email_address":"none@example.com"}`, all("", "")},
		{`{"braze_id":"` + id + `"}`, all(annText, "")}, {`{"braze_id":"` + gone.String() + `"}`, all(bobText, "")}, {`{"braze_id":"x"}`, all("", `"x"`)},
		{`{"phone":"+431"}`, all("", "")}, {`{"device_id":"d"}`, all("", "")},
		{`{"external_ids":[5,"a\u0000b"]}`, all("", `"a\u0000b","5"`)},
		{`{"external_ids":["ann"],"fields_to_export":["email","braze_id","random_bucket","apps"]}`, all(`{"braze_id":"`+id+`","email":"ann@example.com",`+bucket(1)+`,"apps":[]}`, "")},
		{`{"external_ids":["empty"],"fields_to_export":["total_revenue","user_aliases","email_subscribe","devices"]}`, all(`{"user_aliases":[],"email_subscribe":"subscribed","total_revenue":0.0}`, "")},
		{`{"external_ids":["ann"],"fields_to_export":[]}`, all(`{}`, "")}, {`{"external_ids":["ann"],"fields_to_export":"email"}`, all(`{"email":"ann@example.com"}`, "")},
		{`{"external_ids":["empty"],"fields_to_export":["external_id","e_mail","random_buckets","apps"]}`, `{"users":[{"external_id":"empty","apps":[]}],"errors":["fields_to_export: 'e_mail' is no field of an export; did you mean email?",` +
			`"fields_to_export: 'random_buckets' is no field of an export; did you mean random_bucket?"],"message":"success"}`},
		{`{"external_ids":["none"],"fields_to_export":["` + strings.Repeat("é", 60) + `",7]}`, `{"users":[],"invalid_user_ids":["none"],"errors":["fields_to_export: '7' is no field of an export","fields_to_export: '` + strings.Repeat("é", 32) + `' is no field of an export"],"message":"success"}`},
		{`{"external_ids":["empty"],"email_address":"x","fields_to_export":["external_id","more"]}`, `{"users":[{"external_id":"empty"}],"errors":["email_address: The value provided for the 'email' field is not a valid email.",` +
			`"fields_to_export: 'more' is no field of an export"],"message":"success"}`},
		{`{"external_ids":["empty"],"fields_to_export":["external_id","first_name","home_city"]}`, all(`{"external_id":"empty","home_city":" "}`, "")},
	} {
		w.check(t, path, x.body, 201, x.want, "")
	}
	w.check(t, path, `{}`, 400, "*", "")
	w.check(t, path, `{"email_address":"x"}`, 400, "*", "")
	w.check(t, path, `{"external_ids":[`+strings.Repeat(`"a",`, 30)+`"a"],"user_aliases":[`+strings.Repeat(`{},`, 20)+`{}]}`, 400, `{"message":"`+tooManyUsers+`"}`, "")
	w.check(t, "/users/track/sync", `{"attributes":[{"external_id":"ann"}]}`, 201, `{"users":[{"custom_attributes":{"nested":{"a":[1]},"plan":"gold"},`+
		`"custom_events":[{"name":"signed_up","first":"2023-11-14T22:13:20.000Z","last":"2023-11-14T22:13:21.000Z","count":2}],`+
		`"purchase_events":[{"product_id":"sku","first":"2023-11-14T22:13:20.000Z","last":"2023-11-14T22:13:20.000Z","count":2}]}],"message":"success"}`, "1 1:ann ||{}")
	w.check(t, "/users/track/sync", `{"attributes":[{"external_id":"bob"}]}`, 201, `{"users":[{"custom_attributes":{},"custom_events":[],"purchase_events":[]}],"message":"success"}`, "1 1:bob ||{}")
	w.late = errors.New("late")
	if status, text := w.call(t, "/users/track/sync", `{"attributes":[{"external_id":"bob"}]}`); status != 0 || !strings.HasPrefix(text, "unavailable: the object was taken in") || w.took() == "" {
		t.Errorf("not applied in time: %d %s", status, text)
	}
	w.late, w.applied = nil, func() { _ = w.store.Close() }
	if status, text := w.call(t, "/users/track/sync", `{"events":[{"external_id":"bob","name":"e","time":1700000000}]}`); status != 0 || !strings.HasPrefix(text, "unavailable: the object was taken in") || w.took() == "" {
		t.Errorf("applied, and not read: %d %s", status, text)
	}
	if status, text := w.call(t, path, `{"external_ids":["ann"]}`); status != 0 || !strings.Contains(text, "read users") {
		t.Errorf("without a database: %d %s", status, text)
	}
}

func TestGroups(t *testing.T) {
	w, ids := crowd(t)
	w.put(t, 5, ann(t), 7, emailOf("x@example.com"))
	w.put(t, 6, &profile.Profile{Groups: []profile.Group{{ID: "g", Subscribed: true}}}, 7, emailOf("x@example.com"))
	const set, v2, get, user = "/subscription/status/set", "/v2/subscription/status/set", "/subscription/status/get", "/subscription/user/status"
	const ok = `{"message":"success"}`
	w.check(t, set, `{"subscription_group_id":"g","subscription_state":"unsubscribed","external_id":"a"}`, 201, ok, "8 1:a only g||unsubscribed")
	w.check(t, set, `{"subscription_group_id":"g","subscription_state":"subscribed","external_id":["a"],"email":["Y@example.com","new@example.com"]}`, 201, ok,
		"8 1:a only g||subscribed\n8 5:"+ids[4]+" g||subscribed\n8 3:new@example.com g||subscribed")
	w.check(t, set, `{"subscription_group_id":"g","subscription_state":"subscribed","phone":"+431"}`, 201, ok, "8 5:"+ids[1]+" g||subscribed\n8 5:"+ids[2]+" g||subscribed")
	w.check(t, set, `{"subscription_group_id":"g","subscription_state":"subscribed","email":"a@b.cd","phone":"+431"}`, 400, `{"message":"`+emailOrPhone+`"}`, "")
	w.check(t, set, `{"subscription_state":"subscribed","email":"a@b.cd"}`, 400, `{"message":"Invalid subscription group ID"}`, "")
	w.check(t, set, `{"subscription_group_id":"g","subscription_state":"maybe","email":"a@b.cd"}`, 400, `{"message":"`+badState+`"}`, "")
	w.check(t, set, `{"subscription_group_id":"g","subscription_state":"subscribed"}`, 400, `{"message":"`+wantsAnyone+`"}`, "")
	w.check(t, set, `{"subscription_group_id":"g","subscription_state":"subscribed","external_id":[`+strings.Repeat(`"a",`, 50)+`"a"]}`, 400, `{"message":"`+tooManyIDs+`"}`, "")
	w.check(t, set, `{"subscription_group_id":"g","subscription_state":"subscribed","email":["x"]}`, 400, "*", "")
	w.check(t, v2, `{"subscription_groups":[{"subscription_group_id":"g","subscription_state":"subscribed","external_ids":["a"]},{"subscription_group_id":"h","subscription_state":"unsubscribed","external_ids":["b"]}]}`, 201, ok,
		"8 1:a only g||subscribed\n8 1:b only h||unsubscribed")
	w.check(t, v2, `{"subscription_groups":[{"subscription_group_id":"g","subscription_state":"subscribed","emails":["a@b.cd"],"phones":["+431"]}]}`, 400, `{"message":"`+emailOrPhone+`"}`, "")
	// One user may be named in a member of the singular, beside the others or alone.
	w.check(t, v2, `{"subscription_groups":[{"subscription_group_id":"g","subscription_state":"subscribed","external_id":"a","external_ids":["b"]},{"subscription_group_id":"h","subscription_state":"unsubscribed","email":"new@example.com","phones":[]}]}`, 201, ok,
		"8 1:a only g||subscribed\n8 1:b only g||subscribed\n8 3:new@example.com h||unsubscribed")
	w.check(t, set, `{"subscription_group_id":"g","subscription_state":"subscribed","external_ids":["a","b"],"phone":null}`, 201, ok, "8 1:a only g||subscribed\n8 1:b only g||subscribed")
	w.check(t, v2, `{"subscription_groups":[{"subscription_group_id":"g","subscription_state":"subscribed","external_id":"a","external_ids":[`+strings.Repeat(`"b",`, 49)+`"b"]}]}`, 400, `{"message":"`+tooManyIDs+`"}`, "")
	w.check(t, v2, `{"subscription_groups":[]}`, 400, "*", "")
	w.check(t, v2, `{"subscription_groups":[`+strings.Repeat(`{},`, 50)+`{}]}`, 400, "*", "")

	status := func(text string) string { return `{"status":` + text + `,"message":"success"}` }
	w.check(t, get+"?subscription_group_id=g&external_id=ann", "", 200, status(`{"ann":"Unsubscribed"}`), "")
	w.check(t, get+"?subscription_group_id=g&external_id[]=ann&external_id[]=none", "", 200, status(`{"ann":"Unsubscribed","none":"unknown"}`), "")
	w.check(t, get+"?subscription_group_id=g&external_id[1]=none&external_id[0]=old", "", 200, status(`{"none":"unknown","old":"unknown"}`), "")
	w.check(t, get+"?subscription_group_id=g&email=X@example.com&phone=what", "", 200, status(`{"X@example.com":"Unsubscribed","what":"unknown"}`), "")
	w.check(t, get+"?external_id=ann", "", 400, `{"message":"Invalid subscription group ID"}`, "")
	w.check(t, get+"?subscription_group_id=g", "", 400, `{"message":"`+wantsAnyone+`"}`, "")
	w.check(t, get+"?subscription_group_id=g"+strings.Repeat("&external_id[]=a", 51), "", 400, `{"message":"`+tooManyIDs+`"}`, "")

	const annGroups = `{"email":"ann@example.com","phone":null,"external_id":"ann","subscription_groups":[{"id":"g","name":"g","channel":"email","status":"Unsubscribed"}]}`
	const oldGroups = `{"email":null,"phone":null,"external_id":"old","subscription_groups":[]}`
	w.check(t, user+"?external_id[]=ann&external_id[]=old&external_id[]=none&external_id[]=ann", "", 200, `{"users":[`+annGroups+`,`+oldGroups+`],"total_count":2,"message":"success"}`, "")
	w.check(t, user+"?external_id[]=ann&external_id[]=old&offset=1&limit=1", "", 200, `{"users":[`+oldGroups+`],"total_count":2,"message":"success"}`, "")
	w.check(t, user+"?external_id=none&offset=7", "", 200, `{"users":[],"total_count":0,"message":"success"}`, "")
	w.check(t, user+"?external_id=none&limit=x", "", 400, "*", "")
}

// Of those who share an address sync shows the one whom the object was about.
func TestSyncOfSharedAddress(t *testing.T) {
	w := newCore(t)
	for i, p := range []*profile.Profile{{}, {ExternalID: "old"}, {ExternalID: "new"}, {}} {
		p.Custom.Set("number", strconv.Itoa(i))
		w.put(t, int64(i+1), p, []int64{9, 5, 6, 9}[i], emailOf("all@example.com"))
	}
	w.check(t, "/users/track/sync", `{"attributes":[{"email":"all@example.com"}]}`, 201, `{"users":[{"custom_attributes":{"number":2},"custom_events":[],"purchase_events":[]}],"message":"success"}`,
		`1 3:all@example.com ||{"email":"all@example.com"}`)
}

// The bucket that is exported is the one that rules see.
func TestExportedBucket(t *testing.T) {
	w := newCore(t)
	id := w.put(t, 7, &profile.Profile{ExternalID: "u"}, 1)
	_, text := w.call(t, "/users/export/ids", `{"external_ids":["u"],"fields_to_export":["random_bucket"]}`)
	var bucket int64
	if _, err := fmt.Sscanf(text, `{"users":[{"random_bucket":%d}]`, &bucket); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for _, x := range []struct {
		is   string
		want uint64
	}{{"equals", 1}, {"not_equal", 0}} {
		one, err := rule.Compile(fmt.Sprintf(`{"bucket":"","is":%q,"value":%d}`, x.is, bucket))
		if err != nil {
			t.Fatal(err)
		}
		set, err := rule.NewSet(one)
		if err != nil {
			t.Fatal(err)
		}
		out := []uint64{0}
		if _, err := set.Match([]string{"{}"}, []uint64{id.Hash()}, now.UnixMilli(), out); err != nil || out[0] != x.want {
			t.Errorf("%s %d: %d, %v", x.is, bucket, out[0], err)
		}
	}
}

// A merged user is found over as many merges as there were.
func TestExportOfMerged(t *testing.T) {
	w := newCore(t)
	const n = 30
	u := &user.Changes{}
	id := func(i int) user.ID { return user.ID{Partition: i % 4, Number: int64(i + 1)} }
	for i := range n {
		u.Put = append(u.Put, user.Row{ID: id(i), MergedInto: id(i + 1)})
	}
	u.Put = append(u.Put, user.Row{ID: id(n), Profile: `{"external_id":"last"}`})
	w.apply(t, store.Effect{Users: u})
	w.check(t, "/users/export/ids", `{"braze_id":"`+id(0).String()+`","fields_to_export":["external_id"]}`, 201, `{"users":[{"external_id":"last"}],"message":"success"}`, "")
}

// firstPage is a store that fails behind the first page of those who share an address.
type firstPage struct{ user.Store }

func (f firstPage) Sharing(ctx context.Context, k user.Key, after user.ID, limit int) ([]user.ID, error) {
	if !after.IsZero() {
		return nil, errors.New("it is gone")
	}
	return f.Store.Sharing(ctx, k, after, limit)
}

// An address that more users have than are read. None of them is left out of an
// unsubscription, and nobody is erased or merged without being compared.
func TestCrowd(t *testing.T) {
	w := newCore(t)
	const n = user.MaxSharing + crowdPage
	u := &user.Changes{}
	for i := range n {
		id := user.ID{Partition: i % 4, Number: int64(i + 1)}
		u.Put = append(u.Put, user.Row{ID: id, Profile: `{}`})
		u.AddAddress = append(u.AddAddress, user.KeyRow{Key: emailOf("all@example.com"), ID: id})
	}
	w.apply(t, store.Effect{Users: u})
	status, text := w.call(t, "/subscription/status/set", `{"subscription_group_id":"g","subscription_state":"unsubscribed","email":"all@example.com"}`)
	if status != 201 {
		t.Errorf("%d %s", status, text)
	}
	seen := make(map[string]bool)
	for _, up := range w.updates {
		if up.Op != user.OpGroup || up.Key.Kind != user.KeyUser || up.Name != "g" || up.Body != "unsubscribed" {
			t.Fatalf("%+v", up)
		}
		seen[up.Key.Name] = true
	}
	if len(seen) != n || len(w.updates) != n {
		t.Errorf("%d updates of %d users, of %d", len(w.updates), len(seen), n)
	}
	// If a page cannot be read, those before it are written.
	w.updates = nil
	stores := w.stores()
	stores.Users = firstPage{w.store}
	_, err := setGroup(t.Context(), &Request{Body: `{"subscription_group_id":"g","subscription_state":"unsubscribed","email":"all@example.com"}`, Now: now, Core: w, Stores: stores})
	if told, ok := errors.AsType[*sluice.Error](err); !ok || len(w.updates) != crowdPage || !strings.Contains(told.Message, "a part of this request may be in") {
		t.Errorf("%d updates, %v", len(w.updates), err)
	}
	full := sluice.Refuse(sluice.CodeUnavailable, "the log is full; nothing of this request was taken in")
	if told, _ := errors.AsType[*sluice.Error](inPart(full)); !strings.HasPrefix(told.Message, "the log is full; a part") || strings.Contains(told.Message, "nothing") {
		t.Errorf("the log is full: %q", told.Message)
	}
	w.took()
	w.check(t, "/users/identify", `{"emails_to_identify":[{"external_id":"u","email":"all@example.com","prioritization":["most_recently_updated"]}]}`, 400,
		`{"message":"emails_to_identify[0]: `+errShared.Error()+`","errors":["emails_to_identify[0]: `+errShared.Error()+`"]}`, "")
	w.check(t, "/users/delete", `{"email_addresses":[{"email":"all@example.com","prioritization":["most_recently_updated"]}]}`, 400, "*", "")
	w.check(t, "/users/merge", `{"merge_updates":[{"identifier_to_merge":{"email":"all@example.com","prioritization":["most_recently_updated"]},"identifier_to_keep":{"external_id":"u"}}]}`, 400,
		`{"message":"`+errShared.Error()+`"}`, "")
	_, text = w.call(t, "/users/export/ids", `{"email_address":"all@example.com","fields_to_export":["braze_id"]}`)
	if got := strings.Count(text, "braze_id"); got != user.MaxSharing {
		t.Errorf("%d users are exported", got)
	}
}
