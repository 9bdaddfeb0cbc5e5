package main

import (
	"fmt"
	"net/http"
	"net/smtp"
	"strings"
	"testing"
	"time"

	"sluice/lib/key"
)

// When as much mail waits as may, mail alone is refused: of a key with 429, of all
// with 503, by SMTP with 452. Events and users go on, and so it is after a restart.
func TestTooMuchMailWaits(t *testing.T) {
	t.Parallel()
	environ := []string{"SLUICE_WAITING_MAILS=10", "SLUICE_WAITING_KEY_MAILS=5", "SLUICE_SMTPD_TLS_CERT=", "SLUICE_SMTPD_TLS_KEY="}
	s, address, _ := startSMTP(t, environ...)
	bearer := []string{"Authorization", "Bearer " + keyFor(t, s, key.MessagesSend)}
	later, past := time.Now().AddDate(0, 10, 0).UTC().Format(time.RFC3339), time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	post := func(recipients int, header ...string) (int, string) {
		t.Helper()
		var to []string
		for n := range recipients {
			to = append(to, fmt.Sprintf(`"u%d@example.com"`, n))
		}
		return s.ask(t, http.MethodPost, "/v1/messages", `{"from":"shop@example.com","to":[`+strings.Join(to, ",")+`],"subject":"x","text":"x","send_at":"`+later+`"}`, header...)
	}
	check := func(what string, want int, words ...string) func(int, string) {
		return func(got int, text string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %d %s", what, got, text)
			}
			for _, w := range words {
				if !strings.Contains(text, w) {
					t.Errorf("%s: %s lacks %q", what, text, w)
				}
			}
		}
	}
	// used waits until the program has seen in Redis what it has accepted: until the store has
	// mail in a lane it may forget it.
	used := func(bound string) {
		t.Helper()
		await(t, "all of "+bound+" is used", func() bool { return s.sample(t, `sluice_mail_bound_used_ratio{setting="`+bound+`"}`) == 1 })
	}
	check("a key's own", 202)(post(5, bearer...))
	used("waiting.key_mails")
	check("one more of the key", 429, "of this key wait", "waiting.key_mails")(post(1, bearer...))
	check("without a bound of its own", 202)(post(5))
	used("waiting.mails")
	all := func() {
		t.Helper()
		check("one more of all", 503, "10 mails of all senders wait", "waiting.mails", "Nothing was taken in")(post(1))
		s.sent(t, http.StatusCreated, "/users/track", `{"attributes":[{"external_id":"ann","email":"ann@example.com","email_subscribe":"opted_in"}],"events":[{"external_id":"ann","name":"x","time":"`+past+`"}]}`)
		check("events", 202)(s.ask(t, http.MethodPost, "/v1/events", `{"event":"opened","email":"ann@example.com","time":"`+past+`"}`))
		await(t, "the user is there", func() bool {
			_, text := s.ask(t, http.MethodPost, "/users/export/ids", `{"external_ids":["ann"],"fields_to_export":["external_id"]}`)
			return strings.Contains(text, `"external_id":"ann"`)
		})
		check("Braze's call", 503, "waiting.mails")(s.ask(t, http.MethodPost, "/messages/send", `{"external_user_ids":["ann"],"messages":{"email":{"app_id":"shop","from":"Shop <shop@example.com>","subject":"x","body":"x"}}}`))
	}
	all()
	await(t, "it is warned of", func() bool {
		_, text := s.get(t, "/readyz")
		_, metrics := s.get(t, "/metrics")
		return strings.Contains(text, "100 % of waiting.mails is taken; marketing mail") && strings.Contains(text, "100 % of waiting.key_mails is taken by the key ") && !strings.Contains(text, "names is taken") &&
			strings.Contains(metrics, `sluice_mail_bound_used_ratio{setting="waiting.mails"} 1`+"\n") && strings.Contains(metrics, `sluice_mail_bound_used_ratio{setting="idempotency_names"} 0`+"\n")
	})
	err := smtp.SendMail(address, nil, "shop@example.com", []string{"bob@example.com"}, []byte("From: shop@example.com\r\nSubject: x\r\n\r\nx\r\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "530") { // a key is wanted
		t.Errorf("by SMTP without a key: %v", err)
	}
	host, _, _ := strings.Cut(address, ":")
	password := strings.TrimPrefix(bearer[1], "Bearer ")
	err = keyChecked(t, func() error {
		return smtp.SendMail(address, smtp.PlainAuth("", "any", password, host), "shop@example.com", []string{"bob@example.com"}, []byte("From: shop@example.com\r\nSubject: x\r\n\r\nx\r\n"))
	})
	if err == nil || !strings.HasPrefix(err.Error(), "452") || !strings.Contains(err.Error(), "4.3.1") || !strings.Contains(err.Error(), "waiting.") {
		t.Errorf("by SMTP: %v", err)
	}
	s.stop(t)
	s = serveConfigured(t, s.dir, append([]string{"SLUICE_ROOT_KEY=" + testRoot, "SLUICE_ROLES=store"}, environ...)...)
	all()
}

// The embedded Redis that runs has the bound on its memory that the configuration
// says, and at it forgets nothing.
func TestEmbeddedRedisIsBounded(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_REDIS_MEGABYTES=77")
	redis := s.redis(t)
	for setting, want := range map[string]string{"maxmemory": fmt.Sprint(77 << 20), "maxmemory-policy": "noeviction"} {
		got, err := redis.Do(t.Context(), redis.B().ConfigGet().Parameter(setting).Build()).AsStrMap()
		if err != nil || got[setting] != want {
			t.Errorf("%s of the running server: %q, want %s (%v)", setting, got, want, err)
		}
	}
}
