package braze

import (
	"strings"
	"testing"
)

// Bodies of the shapes that customer data pipelines send to Braze: those that the
// public tests of RudderStack's and of Segment's destinations expect, with other
// names and values. Of RudderStack's 66 bodies, 62 are taken whole, of Segment's 32
// for calls that there are, 27. The last cases are what is refused, and why.
func TestBodiesOfPipelines(t *testing.T) {
	const (
		alias    = `"_update_existing_only":false,"user_alias":{"alias_name":"anon-17","alias_label":"pipe_id"}`
		moment   = `"time":"2026-11-20T09:00:00.000Z"`
		item     = `{"product_id":"sku-1","product_name":"Cup","variant_id":"blue","quantity":2,"price":7.25}`
		profile  = `{"email":"ann@example.com","city":"Graz","country":"AT","firstname":"Ann",` + alias + `}`
		ordered  = `"order_id":"o-1","total_value":14.5,"currency":"EUR","source":"https://shop.example","products":[` + item + `]`
		set      = "/v2/subscription/status/set"
		track    = "/users/track"
		identify = "/users/identify"
	)
	event := func(name, properties, user string) string {
		return `{"name":"` + name + `",` + moment + `,"properties":{` + properties + `},` + user + `}`
	}
	purchase := func(price, rest string) string {
		return `{"product_id":"sku-1","price":` + price + `,"currency":"EUR","quantity":2,` + moment + `,` + rest + `}`
	}
	nulls := func(rest string) string { return `"braze_id":null,"email":null,"user_alias":null,` + rest }
	for _, x := range []struct {
		name, path, body string
		took             int    // updates
		wrong            string // what is said of it; empty: nothing
		status           int    // 0: 201
	}{
		// RudderStack.
		{name: "an anonymous profile", path: track, body: `{"attributes":[` + profile + `]}`, took: 1},
		{name: "null takes an attribute away", path: track, body: `{"partner":"P","attributes":[{"email":"ann@example.com","closed":null,"external_id":"u"}]}`, took: 1},
		{name: "a profile and an event", path: track, body: `{"partner":"P","attributes":[` + profile + `],"events":[` + event("Viewed", `"revenue":5,"currency":"EUR"`, alias) + `]}`, took: 2},
		{name: "a page", path: track, body: `{"partner":"P","events":[` + event("Page", `"path":"/a","referrer":"","search":"","title":"T","url":"https://shop.example/a"`, alias) + `]}`, took: 1},
		{name: "an order in properties", path: track, body: `{"partner":"P","events":[` + event("Order", `"affiliation":"A","coupon":"C","discount":2.5,"products":[{"category":"c","image_url":"https://shop.example/i.png","name":"Cup","price":7,"quantity":1}],"subtotal":22.5,"tax":2`, alias) + `]}`, took: 1},
		{name: "a group", path: track, body: `{"attributes":[{"in_group_4711":true,"external_id":"u"}],"partner":"P"}`, took: 1},
		{name: "purchases and a profile", path: track, body: `{"attributes":[` + profile + `],"purchases":[` + purchase("7", alias) + `,` + purchase("9", `"properties":{"category":"c","name":"Cup"},`+alias) + `],"partner":"P"}`, took: 3},
		{name: "an email of null beside an alias", path: track, body: `{"attributes":[{"email":null,"firstname":"Ann",` + alias + `}]}`, took: 1},
		{name: "arrays of objects", path: track, body: `{"attributes":[{"boats":{"$add":[{"id":3,"name":"c"}],"$update":[{"$identifier_key":"id","$identifier_value":1,"$new_object":{"age":2,"name":"a"}}],"$remove":[{"$identifier_key":"id","$identifier_value":2}]},"_merge_objects":true,"external_id":"u"}]}`, took: 1},
		{name: "an array of objects whole", path: track, body: `{"attributes":[{"boats":[{"id":1,"name":"a","kind":"x"}],"_merge_objects":true,"external_id":"u"}]}`, took: 1},
		{name: "a profile with all and nulls", path: track, body: `{"attributes":[{"country":"Austria","email":"ann@example.com","first_name":"Ann","gender":null,"home_city":"Graz","image_url":"https://shop.example/a.png","last_name":"A","phone":"6641234567","bio":"b","language":"de-AT","job":"j","company":null,"external_id":"u"}]}`, took: 1},
		{name: "an app", path: track, body: `{"partner":"P","events":[{"name":"n",` + moment + `,"properties":{"revenue":1},"external_id":"u","app_id":"1234-abc"}]}`, took: 1},
		{name: "a cart", path: track, body: `{"partner":"P","events":[` + event("ecommerce.cart_updated", `"cart_id":"c-1","action":"add",`+ordered, alias) + `]}`, took: 1},
		{name: "an order with metadata", path: track, body: `{"partner":"P","events":[` + event("ecommerce.order_placed", ordered+`,"total_discounts":1,"metadata":{"campaign":"x"}`, alias) + `]}`, took: 1},
		{name: "a batch of mixed profiles", path: track, body: `{"partner":"P","attributes":[{"city":"Graz","external_id":"u"},{"country":"AT","external_id":"v"},{"pwa":true,"nested":{"a":"1","b":"2"},"external_id":"u"},{"list":["a","b"],"external_id":"u"}],"events":[` + event("n", `"first":true,"cause":"c"`, `"external_id":"u"`) + `]}`, took: 5},
		{name: "merge", path: "/users/merge", body: `{"merge_updates":[{"identifier_to_merge":{"external_id":"a"},"identifier_to_keep":{"external_id":"b"}}]}`, took: 1, status: 202},
		{name: "groups by emails", path: set, body: `{"subscription_groups":[{"subscription_group_id":"g","subscription_state":"unsubscribed","external_ids":["a"],"emails":["ann@example.com"]}]}`, took: 2},
		{name: "groups by phones", path: set, body: `{"subscription_groups":[{"subscription_group_id":"g","subscription_state":"subscribed","external_ids":["a"],"phones":["+436641234567"]}]}`, took: 2},
		{name: "identify", path: identify, body: `{"aliases_to_identify":[{"external_id":"u","user_alias":{"alias_label":"pipe_id","alias_name":"anon-17"}}]}`, took: 1},
		{name: "delete", path: "/users/delete", body: `{"external_ids":["a"]}`, took: 1},
		{name: "look up", path: "/users/export/ids", body: `{"external_ids":["a"],"user_aliases":[{"alias_name":"anon-17","alias_label":"pipe_id"}],"fields_to_export":["external_id","custom_attributes","braze_id"]}`},

		// Segment.
		{name: "an event full of nulls", path: track, body: `{"events":[{` + nulls(`"_update_existing_only":true,"app_id":"1234-abc","external_id":"u","name":"n","properties":{},`+moment) + `}]}`, took: 1},
		{name: "all names at once", path: track, body: `{"events":[{"_update_existing_only":false,"app_id":"a","braze_id":"x","email":"ann@example.com","external_id":"u","name":"n","phone":"+436641234567",` + moment + `,"user_alias":{"alias_label":"l","alias_name":"n"}}]}`, took: 1},
		{name: "a purchase full of nulls", path: track, body: `{"purchases":[` + purchase("0", nulls(`"external_id":"u","properties":{},"app_id":"a"`)) + `]}`, took: 1},
		{name: "a profile full of nulls", path: track, body: `{"attributes":[{` + nulls(`"_update_existing_only":false,"country":"AT","current_location":{"latitude":47.07,"longitude":15.44},"date_of_first_session":null,"date_of_last_session":"2026-11-20T09:00:00.000Z","dob":null,"email_open_tracking_disabled":null,"email_subscribe":null,"external_id":"u","facebook":null,"first_name":null,"gender":null,"home_city":null,"language":null,"marked_email_as_spam_at":null,"phone":null,"push_subscribe":null,"push_tokens":null,"time_zone":null,"twitter":null`) + `}]}`, took: 1},
		{name: "a new alias of a user", path: "/users/alias/new", body: `{"user_aliases":[{"alias_label":"l","alias_name":"n","external_id":"u"}]}`, took: 1},
		{name: "a new alias of nobody", path: "/users/alias/new", body: `{"user_aliases":[{"alias_label":"l","alias_name":"n"}]}`, took: 1},
		{name: "identify by email", path: identify, body: `{"aliases_to_identify":[{"external_id":"u","user_alias":{"alias_label":"l","alias_name":"n"}}],"emails_to_identify":[{"email":"ann@example.com","external_id":"u","prioritization":["unidentified"]}],"merge_behavior":"merge"}`, took: 1},
		{name: "a name of ours beside one of theirs", path: track, body: `{"attributes":[{"_update_existing_only":true,"braze_id":"x","external_id":"u"}]}`, took: 1},

		// What is refused, of both.
		{name: "a birthday by slashes: which is the month is not known; all else is taken", path: track, body: `{"attributes":[{"dob":"03/04/1985","email":"ann@example.com","external_id":"u"}]}`, took: 1, wrong: "'dob'"},
		{name: "a deletion by a member that Braze does not have", path: "/users/delete", body: `{"externalIds":["a"]}`, wrong: "is required", status: 400},
		{name: "a price beyond what sums hold", path: track, body: `{"purchases":[` + purchase("32519063401922.56", `"external_id":"u"`) + `]}`, wrong: "'price'", status: 400},
		{name: "standard attributes made of random texts; all else is taken", path: track, body: `{"attributes":[{"external_id":"u","email_subscribe":"Zk$1","current_location":{"latitude":7432249.1,"longitude":7432249.1},"first_name":"Ann"}]}`, took: 1, wrong: "'current_location'"},
	} {
		w, _ := crowd(t)
		status, text := w.call(t, x.path, x.body)
		if x.status == 0 {
			x.status = 201
		}
		if said := strings.Contains(text, `"errors"`); status != x.status || len(w.updates) != x.took || !strings.Contains(text, x.wrong) || said && x.wrong == "" {
			t.Errorf("%s: %d %s, took %d; want %d, %d, %q", x.name, status, text, len(w.updates), x.status, x.took, x.wrong)
		}
	}
}
