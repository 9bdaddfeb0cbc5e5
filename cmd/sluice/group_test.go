package main

import (
	"strings"
	"testing"
)

// What the command makes of groups, the API lists, and the reverse.
func TestGroupCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, serveFile)
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	mustRun(t, dir, "group", "set", "weekly", "--name", "Weekly news", "--description", "Each Monday.", "--public", "--order", "2")
	if status, body := s.ask(t, "PUT", "/v1/groups/offers", `{"name":"Offers","order":1}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	mustRun(t, dir, "group", "set", "weekly", "--private", "--description", "")
	want := "offers  private  1  Offers  \nweekly  private  2  Weekly news  \n"
	if got := mustRun(t, dir, "group", "list").stdout; got != want {
		t.Errorf("listed %q, want %q", got, want)
	}
	mustRun(t, dir, "group", "set", "weekly", "--public")
	if _, body := s.ask(t, "GET", "/v1/groups", ""); !strings.Contains(body, `{"id":"weekly","name":"Weekly news","description":"","public":true,"order":2,`) {
		t.Error(body)
	}
	mustRun(t, dir, "group", "remove", "offers")
	if got := mustRun(t, dir, "group", "list", "--json").stdout; strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, `{"id":"weekly"`) {
		t.Error(got)
	}
	for _, args := range [][]string{{"set", "x"}, {"set", "weekly", "--public", "--private"}, {"remove"}, {"list", "x"}, {"remove", "offers"}} {
		if r := sluiceRun(t, dir, append([]string{"group"}, args...)...); r.code == exitOK {
			t.Errorf("group %v: %+v", args, r)
		}
	}
}
