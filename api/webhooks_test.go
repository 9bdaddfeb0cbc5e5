package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"sluice"
	"sluice/lib/outbound"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/track/webhook"
)

// What has an id of the server's own is not sent again as long as it may be there: it would
// be made twice.
func TestWhatMayHaveBeenMade(t *testing.T) {
	const root = "0123456789abcdef0123456789abcdef"
	s, url, p, _ := startBraze(t, Options{RootKey: root})
	defer stop(t, s)
	db := p.keys.(*sqlstore.Store)
	secrets := func(context.Context) (*webhook.Secrets, error) { return &webhook.Secrets{Root: []byte("root")}, nil }
	p.webhooks = &webhook.Service{Store: db, Guard: &outbound.Guard{}, Secrets: secrets, Follower: "store", Clock: sluice.SystemClock{}}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{
		webhooksPath: `{"url":"https://example.com/hook"}`, keysPath: `{"name":"a","permissions":"events:write"}`, segmentsPath: `{"name":"a","rule":{"attribute":"a","is":"exists"}}`,
	} {
		got := callBraze(t, url+path, "POST", "Bearer "+root, body, "Content-Type", "application/json")
		if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "look whether it was made, by GET") || got.header.Get("Retry-After") != "" {
			t.Errorf("%s: %d %s, Retry-After %q", path, got.status, got.body, got.header.Get("Retry-After"))
		}
	}
	for _, c := range calls {
		if adds := c.path == templatePath && c.method == "PUT" || c.path == journeyPath+"/publish"; adds && c.again != lookVersion {
			t.Errorf("%s %s adds a version, and says %q", c.method, c.path, c.again)
		}
	}
}

// The path of a URL may be a secret: who may only read sees none of it, and neither does
// the audit log.
func TestWebhookURLs(t *testing.T) {
	s, url, p, _ := startBraze(t, Options{})
	db := p.keys.(*sqlstore.Store)
	secrets := func(context.Context) (*webhook.Secrets, error) { return &webhook.Secrets{Root: []byte("root")}, nil }
	p.webhooks = &webhook.Service{Store: db, Guard: &outbound.Guard{}, Secrets: secrets, Follower: "store", Clock: sluice.SystemClock{}}
	const whole, origin = "https://example.com:8443/hook/hidden?key=hidden", "https://example.com:8443"
	keys := map[string]string{}
	for _, permission := range []string{"webhooks:read", "webhooks:write"} {
		permissions := []string{"webhooks:read", permission}
		_, text := addKey(t, db, permissions...)
		keys[permission] = "Bearer " + text
	}
	var made webhookShown
	callJSON(t, url+webhooksPath, "POST", keys["webhooks:write"], `{"url":"`+whole+`"}`, http.StatusCreated, &made)
	path := webhooksPath + "/" + made.ID
	for permission, want := range map[string]string{"webhooks:read": origin, "webhooks:write": whole} {
		var one webhookShown
		var all struct{ Webhooks []webhookShown }
		callJSON(t, url+path, "GET", keys[permission], "", http.StatusOK, &one)
		callJSON(t, url+webhooksPath, "GET", keys[permission], "", http.StatusOK, &all)
		if made.URL != whole || one.URL != want || len(all.Webhooks) != 1 || all.Webhooks[0].URL != want {
			t.Errorf("%s: made %q, one %q, all %+v, want %q", permission, made.URL, one.URL, all.Webhooks, want)
		}
	}

	json := signIn(t, url, db, "admin")
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", webhooksPath, `{"url":"` + whole + `","types":["mail.sent"]}`, http.StatusCreated},
		{"PATCH", path, `{"url":"` + whole + `","types":[],"format":"standard","batch":7,"status":"off"}`, http.StatusOK},
		{"PATCH", path, `{"url":"` + whole + `","no":1}`, http.StatusBadRequest},
		{"PATCH", path, `{"url":"https://example.com/%zzhidden"}`, http.StatusBadRequest},
	} {
		if got := callBraze(t, url+c.path, c.method, "", c.body, json...); got.status != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.body, got.status, got.body)
		}
	}
	stop(t, s) // it has noted all that it has answered
	entries, err := db.Audit(t.Context(), "", 10)
	if err != nil || len(entries) != 4 {
		t.Fatalf("%+v, %v", entries, err)
	}
	want := []string{"url ", "a body that was refused", "url " + origin + "; types all; format standard; batch 7; status off", "url " + origin + "; types mail.sent"}
	for i, e := range entries { // the newest first
		if e.Detail != want[i] {
			t.Errorf("entry %d: %q, want %q", i, e.Detail, want[i])
		}
	}
	if w, err := db.Webhook(t.Context(), made.ID); err != nil || w.URL != whole || w.Status != store.WebhookOff {
		t.Errorf("%+v, %v", w, err)
	}
}
