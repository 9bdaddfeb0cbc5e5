package main

import (
	"net/http"
	"strings"
	"testing"
)

// Accounts are made and reset before anybody runs, and what the command has printed signs
// in; a reset and a removal end sessions.
func TestAccountCommand(t *testing.T) {
	t.Parallel()
	s := serveDashboard(t)
	signIn := func(password string) (status int, cookie string) {
		t.Helper()
		res := s.asBrowser(t, "POST", "/v1/session", `{"name":"ann@example.com","password":"`+password+`"}`, "Origin", s.url)
		for _, c := range res.Cookies() {
			cookie = c.Name + "=" + c.Value
		}
		return res.StatusCode, cookie
	}
	first := strings.TrimSpace(mustRun(t, s.dir, "account", "add", "Ann@example.com", "--role", "editor").stdout)
	status, cookie := signIn(first)
	if status != http.StatusOK {
		t.Fatalf("sign in: %d", status)
	}
	if out := mustRun(t, s.dir, "account", "list").stdout; !strings.HasSuffix(out, "  editor  ann@example.com\n") {
		t.Errorf("list: %s", out)
	}
	second := strings.TrimSpace(mustRun(t, s.dir, "account", "reset", "ann@example.com").stdout)
	if status, _ := signIn(first); status != http.StatusForbidden {
		t.Errorf("the old password: %d", status)
	}
	if status, _ := signIn(second); status != http.StatusOK {
		t.Errorf("the new password: %d", status)
	}
	await(t, "the session has ended", func() bool {
		return s.asBrowser(t, "GET", "/v1/sending", "", "Cookie", cookie).StatusCode == http.StatusUnauthorized
	})
	mustRun(t, s.dir, "account", "remove", "ann@example.com")
	if status, _ := signIn(second); status != http.StatusForbidden {
		t.Errorf("a removed account: %d", status)
	}
	for _, args := range [][]string{{"account", "reset", "ann@example.com"}, {"account", "add", "two words"}, {"account", "add", "x", "--role", "king"}, {"account", "list", "x"}} {
		if r := sluiceRun(t, s.dir, args...); r.code == exitOK {
			t.Errorf("%v is done: %s", args, r.stdout)
		}
	}
}
