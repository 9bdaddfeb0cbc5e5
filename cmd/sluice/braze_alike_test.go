package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/test/servers"
	"sluice/user"
)

// alikeNames are texts that databases, languages and programs take for others:
// by case, by what cannot be seen, by accents, by what means something to them.
var alikeNames = []string{
	"u", "u ", " u", "U", "ü", "u\u0308", "Ü", "ß", "ss", "SS", "ı", "i", "I", "İ", "ﬁ", "fi", "a\u00adb", "ab", "u\u200b", "u\ufeff", "u\ufffd", "\U0001f30d", "\U0001f30d ", "\U0001f30e",
	"a%b", "a_b", `a\b`, `a\\b`, "a'b", "a''b", `a"b`, "$where", "a.b", "a", "__proto__", "null", "NULL", "0", "00", "-0", "1e3", "true", "{}", "[]", "${first_name}", "{{x}}", "\u2028", "..", "/", "?", "#", "&amp;",
	strings.Repeat("\U0001f30d", 63), strings.Repeat("\U0001f30d", 255), strings.Repeat(`"`, 255), strings.Repeat("x", 255), strings.Repeat("x", 254) + "y",
}

// Users are told apart, found, merged, counted and erased alike on every
// database.
func TestBrazeAlikeOnEveryDatabase(t *testing.T) {
	t.Parallel()
	maria, err := servers.StartMariaDB(t.Context(), servers.MariaDBOptions{Dir: filepath.Join(t.TempDir(), "mariadb")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = maria.Kill() })
	postgres, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{Dir: filepath.Join(t.TempDir(), "postgres")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = postgres.Kill() })
	for _, create := range []error{maria.CreateDatabase(t.Context(), "alike"), postgres.CreateDatabase(t.Context(), "alike")} {
		if create != nil {
			t.Fatal(create)
		}
	}
	var want []string
	for _, database := range []string{"", maria.SocketURL("alike"), postgres.SocketURL("alike")} {
		environ := []string{"SLUICE_ROOT_KEY=" + testRoot}
		if database != "" {
			environ = append(environ, "SLUICE_DATABASE="+database)
		}
		s := startServe(t, t.TempDir(), environ...)
		a := &alike{t: t, s: s}
		a.play()
		if n := s.metric(t, "sluice_dead_letters_total"); n != 0 {
			t.Errorf("%.10s: %d dead letters", database, n)
		}
		if log := s.log.String(); strings.Contains(log, "level=ERROR") { // a follower may fail, if the database ends a session that was too slow
			t.Errorf("%.10s: the log has an error:\n%s", database, log)
		}
		s.stop(t)
		if want == nil {
			want = a.said
			continue
		}
		for i := range want {
			if i >= len(a.said) || a.said[i] != want[i] {
				t.Fatalf("%.10s says\n%.3000s\nSQLite says\n%.3000s", database, a.said[i], want[i])
			}
		}
	}
}

// alike is one run, and what it was answered.
type alike struct {
	t    *testing.T
	s    *served
	said []string
}

func quotedText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// send sends a call, whose answer is part of the transcript.
func (a *alike) send(path, format string, args ...any) {
	a.t.Helper()
	body := fmt.Sprintf(format, args...)
	status, text := a.s.ask(a.t, http.MethodPost, path, body)
	if status >= 500 {
		a.t.Fatalf("%s %.300s: %d %s", path, body, status, text)
	}
	a.said = append(a.said, fmt.Sprintf("%s %s: %d %s", path, body, status, text))
}

func (a *alike) get(path string) {
	a.t.Helper()
	status, text := a.s.ask(a.t, http.MethodGet, path, "")
	if status >= 500 {
		a.t.Fatalf("%s: %d %s", path, status, text)
	}
	a.said = append(a.said, fmt.Sprintf("%s: %d %s", path, status, text))
}

// settle waits until all is applied, over two steps from log to log.
func (a *alike) settle() {
	a.t.Helper()
	for range 2 {
		seen := make(map[int]bool)
		for i := 0; len(seen) < 4; i++ {
			name := fmt.Sprint("settle-", i)
			if p := (user.Key{Kind: user.KeyExternal, Name: name}).Partition(4); !seen[p] {
				seen[p] = true
				a.s.sent(a.t, 201, "/users/track/sync", `{"attributes":[{"external_id":"`+name+`"}]}`)
			}
		}
	}
}

const alikeFields = `"fields_to_export":["external_id","user_aliases","email","phone","custom_attributes","custom_events","purchases","total_revenue","revenue_by_currency","country"]`

// look asks for all that is known.
func (a *alike) look() {
	a.t.Helper()
	a.settle()
	for part := range slices.Chunk(alikeNames, 25) {
		var ids, aliases []string
		query := url.Values{"subscription_group_id": {part[0]}}
		for _, name := range part {
			ids, aliases = append(ids, quotedText(name)), append(aliases, `{"alias_label":`+quotedText(name)+`,"alias_name":`+quotedText(name)+`}`)
			query.Add("external_id[]", name)
		}
		a.send("/users/export/ids", `{"external_ids":[%s],%s}`, strings.Join(ids, ","), alikeFields)
		a.send("/users/export/ids", `{"user_aliases":[%s],%s}`, strings.Join(aliases, ","), alikeFields)
		a.get("/subscription/status/get?" + query.Encode())
		a.get("/subscription/user/status?" + query.Encode())
	}
	for i := range alikeAddresses {
		a.send("/users/export/ids", `{"email_address":%s,%s}`, quotedText(alikeAddresses[i]), alikeFields)
	}
	a.get("/events/list")
	a.get("/purchases/product_list")
	for _, name := range alikeNames {
		a.get("/events/data_series?length=3&unit=hour&ending_at=2026-11-20T12:00:00Z&event=" + url.QueryEscape(name))
	}
}

// alikeAddresses are addresses, some of which are one.
var alikeAddresses = []string{
	"ann@example.com", "ANN@Example.com", " ann@example.com ", "ann.@example.com", "an n@example.com", "straße@example.com", "strasse@example.com", "änn@bücher.example", "ÄNN@xn--bcher-kva.example",
	"a\u0308nn@bücher.example", "İ@example.com", "i@example.com", "ı@example.com", "\U0001f30d@example.com", "o'neil+$where%_\\@example.com", "o'neil+$where%_@example.com",
	strings.Repeat("x", 64) + "@" + strings.Repeat(strings.Repeat("y", 62)+".", 3) + "e", strings.Repeat("x", 65) + "@example.com",
}

// play is the script.
func (a *alike) play() {
	a.t.Helper()
	alias := func(name string) string {
		return `{"alias_label":` + quotedText(name) + `,"alias_name":` + quotedText(name) + `}`
	}
	for i, name := range alikeNames {
		q := quotedText(name)
		a.send("/users/track", `{"attributes":[{"external_id":%s,"n":%d,%s:%d},{"user_alias":%s,"_update_existing_only":false,"of":%s}],
			"events":[{"external_id":%s,"name":%s,"time":"2026-11-20T10:00:00Z","app_id":"a","properties":{%s:%s}}],
			"purchases":[{"external_id":%s,"product_id":%s,"currency":"EUR","price":0.1,"quantity":3,"time":"2026-11-20T11:00:00Z"}]}`, q, i, q, i, alias(name), q, q, q, q, q, q, q)
		a.send("/subscription/status/set", `{"subscription_group_id":%s,"subscription_state":"subscribed","external_id":%s}`, q, q)
	}
	for i, address := range alikeAddresses {
		a.send("/users/track", `{"attributes":[{"email":%s,"from":%d}]}`, quotedText(address), i)
	}
	a.settle()
	for _, address := range alikeAddresses {
		a.send("/subscription/status/set", `{"subscription_group_id":"g","subscription_state":"unsubscribed","email":%s}`, quotedText(address))
	}
	a.look()
	a.segments()

	// Who is one with whom: each with the next, by all three calls.
	for i := 0; i+3 < 24; i += 4 {
		n := alikeNames[i : i+4]
		a.send("/users/merge", `{"merge_updates":[{"identifier_to_merge":{"external_id":%s},"identifier_to_keep":{"external_id":%s}}]}`, quotedText(n[0]), quotedText(n[1]))
		a.send("/users/identify", `{"aliases_to_identify":[{"external_id":%s,"user_alias":%s},{"external_id":%s,"user_alias":%s}]}`, quotedText(n[2]), alias(n[0]), quotedText("new"+n[3]), alias(n[3]))
		a.send("/users/alias/new", `{"user_aliases":[{"external_id":%s,"alias_label":"second","alias_name":%s},{"external_id":%s,"alias_label":%s,"alias_name":%s}]}`, quotedText(n[2]), quotedText(n[2]), quotedText(n[3]), quotedText(n[2]), quotedText(n[2]))
	}
	a.settle()
	// In circles, onto oneself, into who is not there, and who is deleted comes back.
	a.send("/users/merge", `{"merge_updates":[{"identifier_to_merge":{"external_id":"a"},"identifier_to_keep":{"external_id":"a"}},{"identifier_to_merge":{"external_id":"a"},"identifier_to_keep":{"external_id":"nobody"}},{"identifier_to_merge":{"external_id":"nobody"},"identifier_to_keep":{"external_id":"a"}}]}`)
	a.send("/users/delete", `{"external_ids":["0","00","-0"]}`)
	a.send("/users/track", `{"attributes":[{"external_id":"0","back":true}],"events":[{"external_id":"0","name":"0","time":"2026-11-20T10:00:00Z"}]}`)
	a.settle()
	a.send("/users/merge", `{"merge_updates":[{"identifier_to_merge":{"external_id":"true"},"identifier_to_keep":{"external_id":"00"}}]}`)
	a.send("/users/identify", `{"aliases_to_identify":[{"external_id":"0","user_alias":%s},{"external_id":"0","user_alias":%s}]}`, alias("0"), alias("00"))
	a.settle()
	a.send("/users/delete", `{"user_aliases":[%s,%s]}`, alias("NULL"), alias("none"))
	a.settle()
	a.send("/users/delete", `{"email_addresses":[{"email":"Ann@EXAMPLE.com","prioritization":["unidentified","most_recently_updated"]},{"email":"nobody@example.com","prioritization":["identified"]}]}`)
	a.look()
	a.segments()
}

// segments makes segments and counts who is in them.
func (a *alike) segments() {
	a.t.Helper()
	for i, name := range alikeNames[:12] {
		q := quotedText(name)
		label := fmt.Sprintf("%s %d", "s"+strings.TrimSpace(name), len(a.said))
		status, text := a.s.ask(a.t, http.MethodPost, "/v1/segments", fmt.Sprintf(`{"name":%s,"rule":{"or":[{"attribute":%s,"is":"equals","value":%d},{"attribute":"of","is":"equals","value":%s},{"field":"external_id","is":"equals","value":%s},{"event":%s,"is":"exists"}]}}`, quotedText(label), q, i, q, q, q))
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusCreated {
			a.t.Fatalf("%d %s %v", status, text, err)
		}
		var count struct{ Count, Users int }
		status, text = a.s.ask(a.t, http.MethodGet, "/v1/segments/"+made.ID+"/count", "")
		if err := json.Unmarshal([]byte(text), &count); err != nil || status != http.StatusOK {
			a.t.Fatalf("%d %s %v", status, text, err)
		}
		ids, many := []string{}, 0
		for after := ""; ; {
			status, text := a.s.ask(a.t, http.MethodGet, "/v1/segments/"+made.ID+"/members?limit=1"+after, "")
			var page struct {
				Members []struct {
					ExternalID string `json:"external_id"`
				}
				Next string
			}
			if err := json.Unmarshal([]byte(text), &page); err != nil || status != http.StatusOK {
				a.t.Fatalf("%d %s %v", status, text, err)
			}
			for _, m := range page.Members {
				ids, many = append(ids, m.ExternalID), many+1
			}
			if page.Next == "" {
				break
			}
			after = "&after=" + page.Next
		}
		if many != count.Count {
			a.t.Errorf("%q: %d are counted and %d listed", name, count.Count, many)
		}
		slices.Sort(ids)
		a.said = append(a.said, fmt.Sprintf("segment of %q: %d of %d: %q", name, count.Count, count.Users, ids))
	}
}
