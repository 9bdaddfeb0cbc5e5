package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What a provider says of somebody's consent reaches profile, suppressions and series,
// both ways, and by when it happened: in whatever order it comes, all say the same.
func TestHooksReachTheProfile(t *testing.T) {
	t.Parallel()
	h := startHooks(t)
	now := time.Now().Unix()
	type said struct {
		event string // of SendGrid
		at    int64  // seconds from now
	}
	const out, in, spam = "group_unsubscribe", "group_resubscribe", "spamreport"
	cases := map[string]struct {
		said          []said
		state, reason string // of the profile, and why marketing mail is held back
	}{
		"out":    {[]said{{out, -60}}, "unsubscribed", "unsubscribe"},
		"back":   {[]said{{out, -7200}, {in, -3600}}, "subscribed", ""},
		"late":   {[]said{{out, -7200}, {in, -3600}, {"unsubscribe", -5400}}, "subscribed", ""},
		"close":  {[]said{{in, -60}, {out, -300}}, "unsubscribed", "unsubscribe"},
		"ahead":  {[]said{{out, -7200}, {in, 3000}, {"unsubscribe", -1}}, "unsubscribed", "unsubscribe"},
		"spam":   {[]said{{spam, -60}}, "unsubscribed", "complaint"},
		"opted":  {[]said{{in, -60}}, "opted_in", ""},
		"nobody": {[]said{{out, -60}}, "unsubscribed", "unsubscribe"},
	}
	for name := range cases {
		more := ""
		if name == "opted" {
			more = `,"email_subscribe":"opted_in"`
		}
		if name != "nobody" { // who has that address comes later
			h.sent(t, http.StatusCreated, "/users/track/sync", fmt.Sprintf(`{"attributes":[{"external_id":%q,"email":"%s@example.com"%s}]}`, name, name, more))
		}
	}
	counts := make(map[string]int)
	for name, c := range cases {
		for _, s := range c.said {
			h.taken(t, "sendgrid", fmt.Sprintf(`[{"event":%q,"email":"%s@example.com","timestamp":%d}]`, s.event, name, now+s.at), 1)
			counts[map[string]string{in: "subscribed", spam: "complained"}[s.event]]++
		}
	}
	await(t, "all are stored", func() bool {
		return strings.Join(h.texts(t, "SELECT COUNT(*) FROM events WHERE kind = 'mail'"), "") == "14"
	})
	h.sent(t, http.StatusCreated, "/users/track/sync", `{"attributes":[{"external_id":"nobody","email":"nobody@example.com"}]}`)
	for name, c := range cases {
		query := "SELECT COALESCE(json_extract(profile, '$.fields.email_subscribe'), 'silent') FROM users WHERE json_extract(profile, '$.external_id') = '" + name + "'"
		await(t, name+" is "+c.state, func() bool { return strings.Join(h.texts(t, query), ",") == c.state })
		want := `"suppressed":false`
		if c.reason != "" {
			want = `"reason":"` + c.reason + `"`
		}
		h.suppressed(t, name+"@example.com", "marketing", want)
	}
	for name, n := range map[string]int{"subscribed": counts["subscribed"], "complained": counts["complained"], "unsubscribed": counts[""]} {
		await(t, "the series counts "+name, func() bool {
			return strings.Join(h.texts(t, "SELECT SUM(count) FROM series_hours WHERE name = '"+name+"'"), "") == fmt.Sprint(n)
		})
	}
}
