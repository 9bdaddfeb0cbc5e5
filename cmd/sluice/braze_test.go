package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sent is ask for a call that must have this status. A call that was taken in and could
// not show its user in time has it once the user is there.
func (s *served) sent(t *testing.T, status int, path, body string) string {
	t.Helper()
	got, text := s.ask(t, http.MethodPost, path, body)
	if notShown(got, text) {
		got, text = http.StatusCreated, s.shown(t, path, body)
	}
	if got != status {
		t.Fatalf("%s %.200s: %d %s, want %d", path, body, got, text, status)
	}
	return text
}

// notShown reports whether an answer says that a call was taken in, and that its user
// could not be read within the time that the program waits.
func notShown(status int, text string) bool {
	return status == http.StatusServiceUnavailable && strings.Contains(text, "the object was taken in and will be applied")
}

// shown returns what a call of /users/track/sync would have answered. An object that
// changes nothing of its user waits for all that was written of it before.
func (s *served) shown(t *testing.T, path, body string) (text string) {
	t.Helper()
	var objects map[string][]map[string]json.RawMessage // by what they are: events, say
	if err := json.Unmarshal([]byte(body), &objects); err != nil {
		t.Fatal(err)
	}
	nothing := make(map[string]json.RawMessage)
	for _, one := range objects {
		for _, name := range []string{"external_id", "user_alias", "_update_existing_only"} {
			if value, ok := one[0][name]; ok {
				nothing[name] = value
			}
		}
	}
	again, err := json.Marshal(map[string]any{"attributes": []any{nothing}})
	if err != nil {
		t.Fatal(err)
	}
	status := 0
	awaitFound(t, "the user of "+body, func() (any, bool) {
		status, text = s.ask(t, http.MethodPost, path, string(again))
		return text, !notShown(status, text)
	})
	if status != http.StatusCreated {
		t.Fatalf("%s %s: %d %s", path, again, status, text)
	}
	return text
}

// exported is what the tests read of an export.
type exported struct {
	ExternalID string            `json:"external_id"`
	Aliases    []json.RawMessage `json:"user_aliases"`
	Email      string
	Custom     map[string]any `json:"custom_attributes"`
	Events     []tally        `json:"custom_events"`
	Purchases  []tally
	Revenue    float64 `json:"total_revenue"`
}

type tally struct {
	Name        string
	Count       int
	First, Last string
}

// export returns the users that an export finds.
func (s *served) export(t *testing.T, body string) []exported {
	t.Helper()
	var answer struct{ Users []exported }
	if err := json.Unmarshal([]byte(s.sent(t, http.StatusCreated, "/users/export/ids", body)), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Users
}

// What is sent by one call is read by another, once it has been applied.
func TestBrazeUsers(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	s.sent(t, 201, "/users/track", `{
		"purchases":[{"external_id":"u-7","product_id":"sku","currency":"EUR","price":9.5,"quantity":2,"time":"2026-11-20T10:00:00Z"}],
		"events":[{"external_id":"u-7","name":"signed_up","time":"2026-11-19T10:00:00Z","properties":{"step":1}},{"external_id":"u-7","name":"signed_up","time":"2026-11-20T10:00:00Z"}],
		"attributes":[{"external_id":"u-7","plan":"gold","email":"Ann@Example.com","tags":["a"]},{"external_id":"u-7","tags":{"add":["b"]},"visits":{"inc":2}}]}`)
	user := func(body string, holds func(u exported) bool) {
		t.Helper()
		var last []exported
		await(t, "an export of "+body, func() bool {
			last = s.export(t, body)
			return len(last) == 1 && holds(last[0])
		})
	}
	user(`{"external_ids":["u-7"]}`, func(u exported) bool {
		return u.Custom["plan"] == "gold" && fmt.Sprint(u.Custom["tags"]) == "[a b]" && u.Custom["visits"] == 2.0 && u.Email == "ann@example.com" && u.Revenue == 19 &&
			len(u.Events) == 1 && u.Events[0] == tally{"signed_up", 2, "2026-11-19T10:00:00.000Z", "2026-11-20T10:00:00.000Z"} && len(u.Purchases) == 1 && u.Purchases[0].Count == 2
	})

	// Sync waits: what it answers has the object in it, each time.
	for i := range 3 {
		text := s.sent(t, 201, "/users/track/sync", `{"events":[{"external_id":"s-1","name":"open","time":"2026-11-20T10:00:00Z"}]}`)
		if !strings.Contains(text, fmt.Sprintf(`"count":%d}`, i+1)) {
			t.Errorf("sync %d: %s", i, text)
		}
	}

	// An alias becomes the user of an external id; what both have is added up.
	s.sent(t, 201, "/users/alias/new", `{"user_aliases":[{"alias_name":"c-1","alias_label":"cookie"}]}`)
	s.sent(t, 201, "/users/track", `{"events":[{"user_alias":{"alias_name":"c-1","alias_label":"cookie"},"name":"signed_up","time":"2026-11-18T10:00:00Z"}]}`)
	s.sent(t, 201, "/users/identify", `{"aliases_to_identify":[{"external_id":"u-7","user_alias":{"alias_name":"c-1","alias_label":"cookie"}}]}`)
	user(`{"user_aliases":[{"alias_name":"c-1","alias_label":"cookie"}]}`, func(u exported) bool {
		return u.ExternalID == "u-7" && len(u.Aliases) == 1 && u.Events[0].Count == 3 && strings.HasPrefix(u.Events[0].First, "2026-11-18")
	})

	// Sync waits for users as well who live in another partition than their name:
	// of these, three in four do.
	for i := range 8 {
		alias := fmt.Sprintf(`"user_alias":{"alias_name":"n-%d","alias_label":"cookie"}`, i)
		s.sent(t, 201, "/users/alias/new", fmt.Sprintf(`{"user_aliases":[{"alias_name":"n-%d","alias_label":"cookie"}]}`, i))
		s.sent(t, 201, "/users/identify", fmt.Sprintf(`{"aliases_to_identify":[{"external_id":"i-%d",%s}]}`, i, alias))
		user(fmt.Sprintf(`{"external_ids":["i-%d"]}`, i), func(exported) bool { return true })
		for count := range 2 {
			text := s.sent(t, 201, "/users/track/sync", fmt.Sprintf(`{"events":[{"external_id":"i-%d","name":"open","time":"2026-11-20T10:00:00Z"}]}`, i))
			if !strings.Contains(text, fmt.Sprintf(`"count":%d}`, count+1)) {
				t.Errorf("sync %d of user %d: %s", count, i, text)
			}
		}
	}

	// Merged, found by either name.
	s.sent(t, 201, "/users/track", `{"attributes":[{"external_id":"u-8","city":"Wien"}]}`)
	s.sent(t, 202, "/users/merge", `{"merge_updates":[{"identifier_to_merge":{"external_id":"u-8"},"identifier_to_keep":{"external_id":"u-7"}}]}`)
	user(`{"external_ids":["u-8"]}`, func(u exported) bool {
		return u.ExternalID == "u-7" && u.Custom["city"] == "Wien" && u.Custom["plan"] == "gold"
	})

	// By address.
	user(`{"email_address":"ANN@example.com"}`, func(u exported) bool { return u.ExternalID == "u-7" })
	s.sent(t, 201, "/subscription/status/set", `{"subscription_group_id":"g-1","subscription_state":"unsubscribed","email":"ann@example.com"}`)
	await(t, "the state in a group", func() bool {
		_, text := s.ask(t, http.MethodGet, "/subscription/status/get?subscription_group_id=g-1&external_id[]=u-7&external_id[]=none", "")
		return text == `{"status":{"none":"unknown","u-7":"Unsubscribed"},"message":"success"}`
	})

	// Counted.
	await(t, "the counts", func() bool {
		_, events := s.ask(t, http.MethodGet, "/events/data_series?event=signed_up&length=3&ending_at=2026-11-20T12:00:00Z", "")
		_, names := s.ask(t, http.MethodGet, "/events/list", "")
		_, products := s.ask(t, http.MethodGet, "/purchases/product_list", "")
		return strings.Count(events, `"count":1`) == 3 && names == `{"events":["open","signed_up"],"message":"success"}` && products == `{"products":["sku"],"message":"success"}`
	})

	s.sent(t, 201, "/users/delete", `{"external_ids":["u-7"]}`)
	await(t, "the user is gone", func() bool {
		return s.sent(t, 201, "/users/export/ids", `{"external_ids":["u-7"]}`) == `{"users":[],"invalid_user_ids":["u-7"],"message":"success"}`
	})
	if n := s.metric(t, "sluice_dead_letters_total"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// Clients of Braze's API make their calls as they are, with another base URL
// and another key: one from PyPI, one from npm.
func TestBrazeClients(t *testing.T) {
	t.Parallel()
	python := pythonTool(t, "python")
	node := testTools(t, "node", "npm-test/package-lock.json")
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	if status, text := s.ask(t, http.MethodPost, "/v1/templates", `{"id":"receipt","subject":"Order {{ order }}","text":"{{ order }}","from":"shop@example.com"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	for _, x := range [][]string{{python, "testdata/braze_client.py"}, {"node", "testdata/braze_api.cjs"}} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, x[0], x[1], s.url, testRoot)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "NODE_PATH="+filepath.Join(node, "node_modules"))
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "done\n" {
			t.Errorf("%s: %v\n%s", x[1], err, out)
		}
		cancel()
	}
}

// Whatever a body holds, it is answered, and what was taken of it is stored:
// nothing becomes a dead letter or stops the store.
func TestBrazeHostileBodies(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	texts := []string{
		"u", " u ", "U", "\U0001f30d", "e\u0301", "'; DROP TABLE users; --", "\\", "\"", "\t", "\x00", "\x7f", "\u2028", "\ufeff", "..", "__proto__", "$where", "null", "{}",
		strings.Repeat("\U0001f30d", 255), strings.Repeat("\U0001f30d", 256), strings.Repeat("\"", 255), strings.Repeat("x", 255), strings.Repeat("x", 50<<10),
	}
	values := []string{
		"null", "true", "-0", "1e-400", "1e308", "1e309", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "0.1", strings.Repeat("9", 5000), `"\u0000"`, `"\ud800"`, "\"\xff\"", "\"\n\"",
		`{"inc":1e308}`, `{"inc":9223372036854775807}`, `{"inc":"x"}`, `{"add":["a"],"remove":[{}]}`, `{"$add":[{"a":"\u0000"}]}`, `{"$update":5}`, `{"a":{"a":null}}`, `{"a":1,"a":2}`, `[[[[1]]]]`,
		strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60), strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat("[", 10_000), "{", "tru", "", "[" + strings.Repeat("1,", 20_000) + "1]",
	}
	var objects []string
	for _, text := range texts {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		q := string(quoted)
		objects = append(objects, `"external_id":`+q, `"user_alias":{"alias_name":`+q+`,"alias_label":`+q+`},"_update_existing_only":false`, `"email":`+q, `"external_id":"h",`+q+`:1`,
			`"external_id":"h","name":`+q+`,"product_id":`+q+`,"currency":"EUR","price":1,"time":"2026-11-20T10:00:00Z"`)
	}
	for _, value := range values {
		objects = append(objects, `"external_id":`+value, `"external_id":"h","a":`+value, `"external_id":"h","email":`+value+`,"subscription_groups":`+value,
			`"external_id":"h","name":"n","product_id":"p","currency":"EUR","price":`+value+`,"time":"2026-11-20T10:00:00Z"`,
			`"external_id":"h","name":"n","product_id":"p","currency":"EUR","price":1,"time":`+value,
			`"external_id":"h","name":"n","product_id":"p","currency":"EUR","price":1,"time":1700000000,"properties":{"a":`+value+`}`)
	}
	for _, o := range objects {
		body := strings.ReplaceAll(`{"attributes":[{OBJECT}],"events":[{OBJECT}],"purchases":[{OBJECT}],"aliases_to_identify":[{OBJECT}],"user_aliases":[{OBJECT}],"merge_updates":[{"identifier_to_merge":{OBJECT},"identifier_to_keep":{OBJECT}}],"subscription_group_id":"g","subscription_state":"subscribed",OBJECT}`, "OBJECT", o)
		for _, path := range []string{"/users/track", "/users/identify", "/users/alias/new", "/users/merge", "/users/export/ids", "/subscription/status/set"} {
			if status, text := s.ask(t, http.MethodPost, path, body); status >= 500 || !json.Valid([]byte(text)) {
				t.Errorf("%s %.300q: %d %s", path, body, status, text)
			}
		}
	}
	text := s.sent(t, 201, "/users/track/sync", `{"attributes":[{"external_id":"after","a":1}]}`)
	if !strings.Contains(text, `"custom_attributes":{"a":1}`) {
		t.Errorf("after all that: %s", text)
	}
	if n := s.metric(t, "sluice_dead_letters_total"); n != 0 {
		t.Errorf("%d dead letters: %s", n, s.texts(t, "SELECT reason || ' ' || CAST(payload AS TEXT) FROM dead_letters LIMIT 5"))
	}
	if users := s.export(t, `{"external_ids":["h","u","U","'; DROP TABLE users; --"]}`); len(users) != 4 {
		t.Errorf("%d users of 4 are there", len(users))
	}
	if log := s.log.String(); strings.Contains(log, "request failed") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log has an error:\n%s", log)
	}
}

// Each limit that is set is that of its calls, and no other's.
func TestBrazeLimitsAreSet(t *testing.T) {
	t.Parallel()
	limits := []struct{ setting, calls string }{
		{"TRACK_PER_3_SECONDS", "POST /users/track"},
		{"SYNC_PER_MINUTE", "POST /users/track/sync"},
		{"IDENTITY_PER_MINUTE", "POST /users/identify, POST /users/alias/new, POST /users/merge, POST /users/delete"},
		{"EXPORT_PER_MINUTE", "POST /users/export/ids"},
		{"GROUPS_PER_MINUTE", "POST /subscription/status/set, POST /v2/subscription/status/set"},
		{"LISTS_PER_HOUR", "GET /events/list, GET /purchases/product_list"},
		{"OTHER_PER_HOUR", "GET /kpi/dau/data_series, GET /subscription/user/status"},
	}
	environ := []string{"SLUICE_ROOT_KEY=" + testRoot}
	for i, l := range limits {
		environ = append(environ, fmt.Sprintf("SLUICE_BRAZE_%s=%d", l.setting, 100+i))
	}
	s := startServe(t, t.TempDir(), environ...)
	for i, l := range limits {
		for call := range strings.SplitSeq(l.calls, ", ") {
			method, path, _ := strings.Cut(call, " ")
			r, err := http.NewRequest(method, s.url+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+testRoot)
			res, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if got := res.Header.Get("X-RateLimit-Limit"); got != fmt.Sprint(100+i) {
				t.Errorf("%s: limit %s, want that of %s, %d", call, got, l.setting, 100+i)
			}
		}
	}
}
