package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice"
	"sluice/mail"
	"sluice/mail/via/sinkbox"
	"sluice/store/sqlstore"
)

// The built-in mailboxes are read in pages, by address and one by one, with a key that
// may.
func TestMailboxes(t *testing.T) {
	_, url, p, _ := startBraze(t, Options{})
	store := p.keys.(*sqlstore.Store)
	_, text := addKey(t, store, "mailboxes:read")
	_, other := addKey(t, store, "sending:read")
	get := func(path, key string) called {
		return callBraze(t, url+"/v1/mailboxes"+path, http.MethodGet, "Bearer "+key, "")
	}
	p.stopped = true
	if got := get("", text); got.status != 503 {
		t.Errorf("without mailboxes: %d %s", got.status, got.body)
	}
	p.stopped = false
	box, err := sinkbox.New(sinkbox.Settings{Name: "sink"}, sluice.SystemClock{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.mailboxes = box
	const content = "From: shop@example.com\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\r\nhello \xff\r\n"
	for i := range 5 {
		to := fmt.Sprintf("u%d@example.com", i%2)
		box.Deliver(context.Background(), []mail.Envelope{{Send: fmt.Sprintf("m.%d", i), From: "shop@example.com", To: to, Content: []byte(content)}}, func(int, mail.Result) {})
	}
	page := func(query string) (numbers []int64, next int64) {
		t.Helper()
		var p MailboxPage
		if got := get(query, text); got.status != 200 || json.Unmarshal([]byte(got.body), &p) != nil {
			t.Fatalf("%s: %d %s", query, got.status, got.body)
		}
		for _, m := range p.Mails {
			numbers = append(numbers, m.Number)
			if m.Subject != "Grüße" || m.Bytes != len(content) || m.Raw != "" || m.Send == "" || m.Time == "" {
				t.Errorf("%+v", m)
			}
		}
		return numbers, p.Next
	}
	for query, want := range map[string]string{
		"": "[5 4 3 2 1] 0", "?limit=2": "[5 4] 4", "?limit=2&before=4": "[3 2] 2", "?before=2": "[1] 0", "?to=U1@example.com": "[4 2] 0", "?to=u1@example.com&limit=1": "[4] 4",
	} {
		if numbers, next := page(query); fmt.Sprint(numbers, " ", next) != want {
			t.Errorf("%s: %v %d, want %s", query, numbers, next, want)
		}
	}
	var m MailboxMail
	if got := get("/3", text); got.status != 200 || json.Unmarshal([]byte(got.body), &m) != nil {
		t.Errorf("%d %s", got.status, got.body)
	}
	if raw, err := base64.StdEncoding.DecodeString(m.Raw); err != nil || string(raw) != content || m.To != "u0@example.com" {
		t.Errorf("%+v, %v", m, err)
	}
	for path, want := range map[string]int{"/9": 404, "/x": 404, "/0": 404, "?to=" + strings.Repeat("x", 321): 400, "?limit=0": 400, "?limit=101": 400, "?before=x": 400, "?before=9007199254740992": 400, "?who=me": 400, "/3?to=x": 400} {
		if got := get(path, text); got.status != want {
			t.Errorf("%s: %d %s, want %d", path, got.status, got.body, want)
		}
	}
	for _, path := range []string{"", "/3"} {
		if got := get(path, other); got.status != 403 {
			t.Errorf("without the permission: %d", got.status)
		}
	}
}
